"""Passwords in addresses, connection strings and SQL."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BuiltinRule

_TEXT = r"""(?:\\*'((?:[^'\\\r\n]|'')+)\\*'|\\*"([^"\\\r\n]+)\\*")"""
_HASHED = r"(?:md5|sha1|sha2|sha256|sha512|crypt|hashbytes|password)"


def _password(name: str, pattern: str, kind: str = "password") -> BuiltinRule:
    return BuiltinRule(name, pattern, loose=True, kind=kind)


DATABASES = (
    # RFC 3986, section 3.2.1; drivers stand behind a +.
    _password(
        "address-password",
        r"(?i)\b[a-z][a-z0-9.+-]*://[^\s:/@\"'\x60<>?#]*:(?P<value>[^\s/@\"'\x60<>]+)"
        r"@(?:[\w.$*-]|\[|%[0-9a-f])",
    ),
    # People write signs that are to be escaped; then the last @ stands before the host.
    _password(
        "address-password",
        r"(?i)\b(?:(?:postgres\w*|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle|clickhouse)"
        r"(?:\+\w+)?|cockroachdb|ftps?|sftp|smtps?|ldaps?)://[^\s:/@\"'\x60<>?#]*:"
        r"(?P<value>[^\s\"'\x60<>]+)@[\w.-]+(?::\d+)?(?:[/?\s\"'\x60<>,)]|$)",
    ),
    # user:password@tcp(host): Go's driver of MySQL.
    _password("address-password", r"\b[\w.-]+:(?P<value>[^\s\"'\x60]+)@(?:tcp|unix|udp)\("),
    _password("address-password", r"(?i)\bjdbc:oracle:\w+:[\w$#]+/(?P<value>[^\s\"'\x60@/]+)@"),
    # MySQL, MariaDB, Oracle, ClickHouse.
    _password(
        "sql-password",
        rf"(?i)\bidentified\s+(?:with\s+\w+\s+)?(?:by|as)\s+(?:password\s+)?{_TEXT}",
        "certain",
    ),
    _password("sql-password", r"(?i)\bidentified\s+by\s+(?P<value>[^\s;'\"()]+)"),
    # SET PASSWORD FOR 'x'@'y' = '…', crypt('…', gen_salt('bf')), password = MD5('…').
    _password("sql-password", rf"(?i)\bset\s+password\s+for\s+[^\s=]+\s*=\s*{_TEXT}"),
    _password("sql-password", rf"(?i)\bcrypt\(\s*{_TEXT}\s*,\s*gen_salt"),
    _password(
        "sql-password",
        rf"(?i)(?:pass\w*|pwd)[\"'\x60\]]?\s*=\s*{_HASHED}\(\s*(?:'\w+'\s*,\s*)?{_TEXT}",
    ),
    # .pgpass of PostgreSQL: host:port:database:user:password.
    _password(
        "pgpass-password",
        r"(?m)^(?:[\w.*-]+|\[[0-9a-f:]+\]):(?:\d{4,5}|\*):[\w.*-]+:[\w.@*-]+:"
        r"(?P<value>[^\s:]+)[ \t\r]*$",
    ),
)
