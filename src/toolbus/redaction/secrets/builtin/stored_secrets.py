"""Secrets as programs store them: private keys, encrypted values, and hashes of passwords."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BuiltinRule

_LINES = r"((?:[ \t]*[A-Za-z0-9+/=]{1,80}(?:\r?\n|\\n|$))+)"
_JWK_PRIVATE = r'"[dk]"\s*:\s*"([\w-]{16,})"'
# What ends a hash, of which the last sign may be a dot.
_END = r"(?:[^\w./+=$]|$)"

_SALT, _BASE64 = r"[./A-Za-z0-9]{1,16}", "[A-Za-z0-9+/]"

STORED_SECRETS = (
    # PuTTY's format of keys, appendix C of its manual.
    BuiltinRule("putty-private-key", rf"Private-Lines: ?\d+(?:\r?\n|\\n){_LINES}"),
    BuiltinRule("putty-private-key", r"Private-(?:MAC|Hash): ?([0-9a-f]{40,64})"),
    # RFC 7517 and 7518: d is a private key, k a symmetric one, the others parts of one of RSA.
    BuiltinRule("jwk-private-key", rf'"kty"[^{{}}]*?{_JWK_PRIVATE}'),
    BuiltinRule("jwk-private-key", rf'{_JWK_PRIVATE}[^{{}}]*?"kty"'),
    BuiltinRule("jwk-private-key", r'"(?:p|q|dp|dq|qi)"\s*:\s*"([\w-]{80,})"'),
    # Secrets that Jenkins has encrypted begin with their version and length.
    BuiltinRule("jenkins-secret", r"\{(AQAAABAAAA[A-Za-z0-9+/]{20,}={0,2})\}"),
    BuiltinRule(
        "ansible-vault", r"\$ANSIBLE_VAULT;[\d.]+;AES\d*(?:;[\w-]+)?\s*((?:[0-9a-f]{16,}\s*)+)"
    ),
    # What Terraform's state keeps of a password that it made.
    BuiltinRule(
        "terraform-random-password",
        r'"random_password"[^\[\]]*?(?:\[[^\[\]]*?)?"result"\s*:\s*"((?:[^"\\]|\\.)+)"',
    ),
    # An account of Twilio and its token.
    BuiltinRule(
        "twilio-auth-token", r"\bAC[0-9a-f]{32}[\"']?\s*[,:;]\s*[\"']?([0-9a-f]{32})(?:[^\w]|$)"
    ),
    # crypt(5), and those of Apache, PHP and Argon2 in the same form: the sign says which one.
    BuiltinRule("password-hash", rf"\$2[abxy]?\$\d\d\$([./A-Za-z0-9]{{53}}){_END}"),
    BuiltinRule("password-hash", rf"\$(?:1|apr1)\$({_SALT}\$[./A-Za-z0-9]{{22}}){_END}"),
    BuiltinRule(
        "password-hash", rf"\$[56]\$(?:rounds=\d+\$)?({_SALT}\$[./A-Za-z0-9]{{43,86}}){_END}"
    ),
    BuiltinRule(
        "password-hash", rf"\$(?:g?y|7)\$[./\w]+\$([./A-Za-z0-9]*\$[./A-Za-z0-9]{{43}}){_END}"
    ),
    BuiltinRule(
        "password-hash",
        rf"\$argon2(?:id|i|d)\$v=\d+\$m=\d+,t=\d+,p=\d+\$({_BASE64}+\$[A-Za-z0-9+/]{{20,}}){_END}",
    ),
    BuiltinRule("password-hash", rf"\$[PH]\$([./A-Za-z0-9]{{31}}){_END}"),
    # RFC 2307, section 5.3.
    BuiltinRule(
        "password-hash",
        r"(?i)\{(?:s?sha(?:256|384|512)?|s?md5|crypt|pbkdf2[\w-]*)\}([A-Za-z0-9+/$.]{20,}={0,2})",
    ),
    # Django and Werkzeug.
    BuiltinRule(
        "password-hash",
        r"\b(?:pbkdf2_sha(?:1|256)|bcrypt_sha256|scrypt)\$([\w$=,.+/]+\$[A-Za-z0-9+/=$.,]{20,})",
    ),
    BuiltinRule(
        "password-hash",
        r"\b(?:pbkdf2:sha\d+:\d+|scrypt:\d+:\d+:\d+)\$(\w{4,32}\$[0-9a-f]{40,128})\b",
    ),
    # PostgreSQL's, MySQL's, and the pair of Windows.
    BuiltinRule(
        "password-hash",
        rf"SCRAM-SHA-256\$\d+:({_BASE64}{{16,}}={{0,2}}\${_BASE64}{{40,}}=?:{_BASE64}{{40,}}=?)",
    ),
    BuiltinRule("password-hash", r"['\"|](md5[0-9a-f]{32}|\*[0-9A-F]{40})['\"|]"),
    BuiltinRule("password-hash", r":\d+:([0-9a-fA-F]{32}:[0-9a-fA-F]{32}):::"),
)
