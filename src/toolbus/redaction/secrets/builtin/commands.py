"""Passwords that commands are called with, and those in addresses, connection strings and SQL."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import ARGUMENT, NAME, QUOTED, WORD, BuiltinRule

# Up to the end of the command: a backslash goes on in the next line.
_REST = r"(?:(?:[^\n|;&\\]|\\\r?\n|\\[^\r\n])*?[ \t\n])??"
_EXE = r"(?:\.exe)?[ \t]"
_USER = r"[\w.@+\\%-]*"
_STOP = r"(?:[\s;|&)\x60\"'\\]|$)"
_UP_TO_END = r"[ \t\r)]*(?:\n|$|[|;&\x60])"
_PRINTED = rf"(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*{WORD}[ \t]*\|[ \t]*"


def _command(pattern: str) -> BuiltinRule:
    return BuiltinRule("command-password", pattern, loose=True, kind="certain")


_FLAGS = (
    # The manual of MySQL: no blank stands between -p and the password.
    _command(rf"\b(?:mysql\w*|mariadb[\w-]*|mycli|xtrabackup){_EXE}{_REST}-p{WORD}"),
    _command(rf"\bredis-cli{_EXE}{_REST}(?:-a|--pass)[ \t=]+{WORD}"),
    _command(rf"\bsshpass[ \t]+-p[ \t]*{WORD}"),
    # -p is the password of whoever logs in.
    _command(
        r"\b(?:docker|podman|nerdctl|buildah|oras|helm registry|az|az acr|oc|cf|argocd)[ \t]+login"
        rf"[ \t]{_REST}-p[ \t=]+{WORD}"
    ),
    _command(
        r"\b(?:mongo(?:sh|dump|restore|import|export|stat|top)?|rdesktop|clickhouse-client|winrs"
        rf"|cypher-shell|evil-winrm|crackmapexec|netexec|arangosh){_EXE}{_REST}-p[ \t]+{WORD}"
    ),
    # -P is one for these, -p for archives.
    _command(
        rf"\b(?:sqlcmd|bcp|osql|isql|tsql|zip|unzip|zipcloak|ipmitool){_EXE}{_REST}-P[ \t]*{WORD}"
    ),
    _command(rf"\b(?:7z[arz]?|7zz|rar|unrar){_EXE}{_REST}-h?p{WORD}"),
    # ldapsearch(1) and the others of OpenLDAP.
    _command(
        r"\bldap(?:search|add|modify|delete|passwd|whoami|compare|modrdn|exop)[ \t]"
        rf"{_REST}-[ws][ \t]*{WORD}"
    ),
    # openssl-passphrase-options(1).
    _command(rf"(?:-pass(?:in|out)?[ \t=]+|[ \t\"'])pass:{WORD}"),
    _command(rf"\bopenssl[ \t]+(?:enc|aes\S*|des\S*)[ \t]{_REST}-k[ \t]+{WORD}"),
    _command(rf"\bsnmp\w+[ \t]{_REST}-[AX][ \t]+{WORD}"),
    _command(r"(?i)\b(?:xfreerdp|wfreerdp|cmdkey)[ \t][^\n]*?/p(?:ass)?:(\S+)"),
)

_ACCOUNTS = (
    # A user and a password behind one flag, with a colon between them.
    _command(
        r"\b(?:curl|https?|xh|httpie|skopeo|wget|crane|ab|siege)(?:\.exe)?[ \t]"
        rf"{_REST}(?:-u|-U|-a|-A|--user|--proxy-user|--creds|--src-creds|--dest-creds|--auth)"
        rf"[ \t=]*(?:\"{_USER}:([^\"\r\n]+)\"|'{_USER}:([^'\r\n]+)'|{_USER}:([^\s\"'\x60]+)){_STOP}"
    ),
    # smbclient(1): user%password. lftp(1): user,password. SQL*Plus: user/password@host.
    _command(
        rf"\b(?:smb\w+|rpcclient|mount\.cifs)[ \t]{_REST}(?:-U|--user)[ \t=]*"
        r"[\"']?[\w.\\/@-]+%([^\s\"'\x60]+)"
    ),
    _command(rf"\blftp[ \t]{_REST}-u[ \t]*[\"']?[\w.@-]+,([^\s\"'\x60]+)"),
    _command(
        r"(?i)\b(?:sqlplus|sqlldr|expdp|impdp|rman)[ \t]+(?:-\w+[ \t]+)*(?:userid=|target[ \t]+)?"
        r"[\"']?[\w.$#]+/\"?([^\s\"'@/]+)"
    ),
    # net use X: \\server\share … /user:name, and in the other order.
    _command(
        rf"(?i)\bnet1?{_EXE}+use[ \t]{_REST}/user:\S+[ \t]+([^\s/\"'][^\s\"']*)",
    ),
    _command(
        rf"(?i)\bnet1?{_EXE}+use[ \t]+(?:[a-z*]:?[ \t]+)?\\\\[^\s]+[ \t]+([^\s/\"'][^\s\"']*)[ \t]"
    ),
    _command(rf"(?i)\bnet1?{_EXE}+user[ \t]+[^\s/]+[ \t]+{WORD}(?:[ \t]+/add|[ \t]*(?:\n|$))"),
    # htpasswd(1): -b takes it from the command line.
    _command(
        r"\bhtpasswd[ \t]+(?:-\w+[ \t]+)*-\w*b\w*[ \t]+(?:-\w+[ \t]+)*(?:[^\s-]\S*[ \t]+)?"
        rf"[^\s-]\S*[ \t]+{WORD}{_UP_TO_END}"
    ),
    _command(
        rf"\brabbitmqctl[ \t]{_REST}(?:add_user|change_password|authenticate_user)"
        rf"[ \t]+\S+[ \t]+{WORD}"
    ),
    _command(
        r"(?:echo|printf)[ \t]+(?:-\w+[ \t]+)?[\"']?[\w.-]+:([^\s\"']+)[\"']?[ \t]*\|"
        r"[ \t]*(?:sudo[ \t]+)?chpasswd"
    ),
    _command(rf"\bwpa_passphrase[ \t]+(?:\"[^\"]*\"|\S+)[ \t]+{WORD}"),
    _command(rf"\bnmcli\b[^\n]*?[ \t]password[ \t]+{WORD}"),
    _command(rf"\bvault[ \t]+login[ \t]+(?:-[\w-]+(?:=\S+)?[ \t]+)*{WORD}"),
)

_PIPES_AND_SETTERS = (
    _command(rf"{_PRINTED}sudo[ \t]+(?:-\w+[ \t]+)*-\w*S"),
    _command(rf"{_PRINTED}[^\n|]*?-(?:password|pass|token|passphrase)-?(?:stdin|fd)"),
    # PowerShell.
    _command(
        r"(?i)\bconvertto-securestring[ \t]+(?:-string[ \t]+|-asplaintext[ \t]+|-force[ \t]+)*"
        rf"{WORD}"
    ),
    # `aws configure set NAME …`, `gh secret set NAME --body …`.
    BuiltinRule(
        "assigned-secret",
        r"\b(?i:configure|config|secrets?|variables?|vars?|env)[ \t]+(?:set|put|add)[ \t]+"
        rf"(?:-[\w-]+[ \t]+)*[\w./:-]*?(?i:{NAME})[ \t]+(?:(?:--body|--value|-b|-v)[ \t=]+)?{WORD}",
        loose=True,
    ),
    # A call with a user and a password: `server.login("…", "…")`, `HTTPBasicAuth("…", "…")`.
    BuiltinRule(
        "assigned-secret",
        r"(?i)(?:\blogin|auth|authenticate|credentials?|userinfo|\bauth[ \t]*=[ \t]*)\("
        rf"[ \t]*{ARGUMENT}[ \t]*,[ \t]*(?:some\()?{QUOTED}[ \t]*\)",
        loose=True,
        kind="password",
    ),
)

COMMANDS = (*_FLAGS, *_ACCOUNTS, *_PIPES_AND_SETTERS)


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
