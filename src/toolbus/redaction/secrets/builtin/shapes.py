"""The shapes in which a secret stands: assigned to a name, in a pair, in a table, in a sentence.

The sentences are in the languages that most people write. Tables are CSV, INSERT and COPY of SQL;
see `assigned`.
"""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import (
    ARGUMENT,
    BARE,
    END,
    NAME,
    QUOTED,
    WORD,
    BuiltinRule,
    NamedShape,
)

# What stands between a name and the sign: `x["name"] = `, `**Name:** `.
_CLOSE = r"""["'\x60)\]*_]{0,3}"""
# Python, Go, Rust, TypeScript and SQL write a type between a name and its value.
_TYPE = r"(?:\[\d*\])?(?:\??[ \t]*(?::[ \t]*|[ \t])[&\w.<>\[\]|?*: \t]*)?"
_OPEN = r"""["'\x60*]{0,3}"""
_DIRECTED = r"""([^\s"'\x60<>(){}\[\],;|&\\=]+={0,2})"""
_CELL = r"(?:[ \t]*[|│][ \t]*|\t[ \t]*|  [ \t]*)"
_SIGN = r"(?:<-|=>|:=|\?=|\|\|=?|\?\?=?|\?:|={1,3}|->)"
_BARE_SIGN = r"(?:<-|=>|:=|\?=|=|->|:-|:{1,2}|：)"
# What programs put around a literal: `SecretStr("…")`, `[]byte("…")`, `new String("…")`, `b"…"`.
_CALL = (
    r"(?:new\s+)?(?:[\w.:]*(?:secret\w*|string|str|bytes?|from|some|password|literal|new)|\[\]byte)"
    r"\(\s*"
)
_LITERAL = rf"(?:{_CALL}|[burfn@$]{{1,2}})?{QUOTED}"
# JSON that stands in a string, however deep: each level adds backslashes.
_ESCAPED_QUOTE = r"""(?:\\+["']|&quot;|&#34;)"""

_ASSIGNED = (
    # A change as Terraform and others show it.
    rf"[\"']?[ \t]*[:=][ \t]*\"[^\"\n]*\"[ \t]*->[ \t]*{QUOTED}",
    # `auth=("user", "…")`.
    rf"[ \t]*[=:][ \t]*[\w.]*[(\[][ \t]*{ARGUMENT}[ \t]*,[ \t]*{QUOTED}[ \t]*[)\]]",
    # `password = "…"`, `"password": "…"`, `x["password"] := '…'`, `password: str = "…"`.
    rf"{_CLOSE}{_TYPE}(?:[ \t]*{_SIGN}\s*(?:\(\s*)?|[ \t]*(?::{{1,2}}|：)[ \t]*){_LITERAL}",
    # `tokens = ["…"`, `char password[] = {"…"}`.
    rf"{_CLOSE}{_TYPE}[ \t]*(?:{_SIGN}|:)[ \t]*[(\[{{]\s*{_LITERAL}\s*[,)\]}}]",
    # `put("password", "…")`, `define('PASSWORD', '…')`, `getenv("PASSWORD", "…")`.
    rf"[\"'][ \t]*,[ \t]*{_LITERAL}[ \t]*\)",
    # `os.getenv("PASSWORD") or "…"`, `ENV.fetch("PASSWORD") { "…" }`.
    rf"[\"'][\])]{{1,2}}[ \t]*(?:or|\?\?|\|\||\?:|\{{)[ \t]*{_LITERAL}",
    # JSON in a text.
    rf"""{_ESCAPED_QUOTE}\s*:\s*{_ESCAPED_QUOTE}([^"'\\&\s][^"'\\&\r\n]*)(?:\\|&)""",
    # ADO.NET, ODBC, JDBC: up to the semicolon.
    r"[ \t]*=[ \t]*\{?([^;&\"'{}\s<>]+)\}?;",
    # `password: …`, `password=…`, `${PASSWORD:-…}`.
    rf"{_CLOSE}(?:\[\d*\])?[ \t]*{_BARE_SIGN}[ \t]*{_OPEN}[ \t]*{_OPEN}({BARE}){END}",
    # A block of YAML, section 8.1 of its specification 1.2.2.
    r"[\"']?:[ \t]*(?:[|>][+-]?\d?)?[ \t]*\r?\n[ \t]+(\S+)[ \t\r]*(?:\n|$)",
    # A directive, `requirepass …`, a command that sets: `setx PASSWORD "…"`, SQL.
    rf"[ \t]+(?:{QUOTED}|{_DIRECTED})[ \t]*(?:/m)?;?[ \t\r]*(?:\n|$)",
    r"\s*\(?[ \t]*[EN]?'((?:[^'\\\r\n]|'')+)'",
    # A table of names and values.
    rf"{_OPEN}{_CELL}{_OPEN}({BARE}){_OPEN}(?:[ \t]*[|│]|\t|  |\r?\n|$)",
)

_DEFAULT = r"(?:default|value|initial|const|s)"
_LINE = r"(?:[ \t]+[^\n]*\n)??"
_DEFAULTS = (
    # What is the value if nothing else is said: Terraform, JSON schemas, parameters of ARM.
    rf"[\"']?[ \t]*[:=]?[ \t]*\{{[^{{}}]*?\b{_DEFAULT}[\"']?[ \t]*[:=][ \t]*{QUOTED}",
    # `add_argument("--password", default="…")`.
    rf"[\"'][ \t]*,[^()\n]*?\bdefault[ \t]*=[ \t]*{QUOTED}",
    # Parameters of CloudFormation.
    rf":[ \t]*\r?\n{_LINE * 3}[ \t]+default:[ \t]*{WORD}[ \t\r]*(?:\n|$)",
)

_SHELL = (
    rb"(?:(?:export|env|arg|set|setenv|declare|typeset|readonly|local|-x|-gx|-e|--env|--build-arg)"
    rb"[ \t]+)*"
)

SPECIAL = (
    # A line of a shell or of a file of settings has whatever it has up to its end.
    NamedShape(
        r"=([^\s\"'\x60]\S*)[ \t]*(?:\r?\n|$)",
        name=r"[A-Z0-9_]+\Z",
        before=rb"(?:^|\n)[ \t+-]*(?i:" + _SHELL + rb")\Z",
    ),
    # `setPassword("…")`.
    NamedShape(rf"\([ \t]*{_LITERAL}", name=r"(?i)(?:.*[._])?(?:set|with|add)"),
)
FLAGS = NamedShape(rf"(?:[ \t]+|=|[\"'],[ \t]*){WORD}{END}", name=r"--?\w")
"""`--password …`"""
ASSIGNMENTS = (*_ASSIGNED, *_DEFAULTS)


# Kubernetes and ECS say `value`, CloudFormation `ParameterValue`, HTML `content`, Jenkins `secret`.
_VALUE_KEY = r"(?:\w*value|val|contents?|plaintext|secret|text|data)"
_NAME_KEY = r"(?:\w*name|\w*key|variable|var|id|field|property|setting|parameter|header|label|type)"
_QUOTE = r"""\\*["'\x60]?"""
_IS = r"[ \t]*(?::|=>|=)[ \t]*"
_NEXT = r"[ \t]*[,;\r\n]\s*"
# What else a pair has between its name and its value.
_MEMBER = rf"(?:{_QUOTE}[\w.-]+{_QUOTE}{_IS}[^,;\n{{}}]*[,;\n]\s*)"
_MEMBERS = rf"{_MEMBER}??{_MEMBER}??{_MEMBER}??"
_MEMBER_VALUE = r"""\\*["'\x60]([^"'\x60\\\r\n]+)\\*["'\x60]"""
_ELEMENT_TEXT = r"\s*(?:<!\[CDATA\[)?\s*([^<>\s][^<>\r\n]*?)\s*(?:\]\]>)?\s*</"
_OTHER_LINE = r"(?:[ \t]+\w+:[^\n]*\n)??"
_ELEMENT = r"(?:<[^<>]+>[^<>]*</[^<>]+>\s*)??"
_ATTRIBUTE = r"(?:value|content|val|defaultvalue)"

_BESIDE = (
    # {"name": "DB_PASSWORD", "value": "…"}: JSON, also in a string, JavaScript, HCL.
    rf"{_QUOTE}\)?{_NEXT}{_MEMBERS}{_QUOTE}{_VALUE_KEY}{_QUOTE}{_IS}{_MEMBER_VALUE}",
    # {name: DB_PASSWORD, value: …}
    rf",[ \t]*{_VALUE_KEY}:[ \t]*({BARE})[ \t]*[}},;\n]",
    # - name: DB_PASSWORD, and on another line value: …
    rf"[\"']?[ \t]*\r?\n{_OTHER_LINE * 2}[ \t]+{_VALUE_KEY}:[ \t]+{WORD}[ \t\r]*(?:\n|$)",
    # The command line of CloudFormation.
    rf",[ \t]*{_VALUE_KEY}=([^\s\"',;]+)",
)

_MARKED_UP = (
    # <name>db.password</name><value>…</value>, <key>Password</key><string>…</string>.
    rf"\s*</[\w.:-]+>\s*{_ELEMENT}<(?:{_VALUE_KEY}|string|secret)(?:\s[^<>]*)?>{_ELEMENT_TEXT}",
    # <property name="password" value="…"/>, <input type="password" value="…">.
    rf"[\"'](?:\s[^<>]*?)?\s{_ATTRIBUTE}[ \t]*=[ \t]*{QUOTED}",
    # <entry key="db.password">…</entry>, <setting name="Password"><value>…</value>.
    rf"[\"'](?:\s[^<>]*)?>\s*(?:<value[^<>]*>)?{_ELEMENT_TEXT}",
    # <password>…</password>, <password type="…">…</password>.
    rf"(?:\s[\w:.-]+=[^<>]*)?>{_ELEMENT_TEXT}",
)


PAIRS = (*_BESIDE, *_MARKED_UP)
"""What stands behind a name."""


def _reversed(pattern: str) -> BuiltinRule:
    return BuiltinRule("assigned-secret", pattern, loose=True)


VALUES_FIRST = (
    _reversed(
        rf"(?i)\b{_VALUE_KEY}{_QUOTE}{_IS}{_MEMBER_VALUE}{_NEXT}{_MEMBERS}"
        rf"{_QUOTE}{_NAME_KEY}{_QUOTE}{_IS}{_QUOTE}[\w./:-]*?{NAME}"
    ),
    _reversed(
        rf"(?i)\b{_VALUE_KEY}:[ \t]+{WORD}[ \t\r]*\n"
        rf"[ \t]+{_NAME_KEY}:[ \t]+[\"']?[\w./:-]*?{NAME}[\"']?[ \t\r]*(?:\n|$)"
    ),
    _reversed(
        rf"(?i)\s{_ATTRIBUTE}[ \t]*=[ \t]*{QUOTED}(?:\s[^<>]*?)?"
        rf"\s(?:name|key|id|type|property)[ \t]*=[ \t]*[\"'][\w.:-]*?{NAME}[\"']"
    ),
)


# What stands around a value in a text, and behind it.
_AROUND = r"[\"'\x60*“”‘’«„]{0,3}"
_NO_SIGN = r"\s\"'\x60”’»<>(){}\[\]"
_ODD_SIGN = r"[\d!@#$%^*+?~=]"
_SPOKEN = (
    rf"([^{_NO_SIGN}]*{_ODD_SIGN}[^{_NO_SIGN}]*[^{_NO_SIGN}.,;:*]|[^{_NO_SIGN}]*[\d!@#$%^+?~=])"
)
_STOP = r"(?:[\s\"'\x60”’».,;:)*<]|$)"
_SAYS = (
    r"(?:(?:is|was|are|to|now|be|ist|lautet|war|es|era|est|était|é|è|foi|adalah|это|है|هي|هو)"
    r"[ \t]*[ \t:]|—|–|[ \t]-[ \t]|→|＝|是|为|為|は、?|은|는|：|:|[ \t]=[ \t])[ \t]*"
)
_FILLER = r"(?:(?:now|still|again|currently|temporarily|been|set|changed|reset|updated|to)[ \t]+)*"
_WORD = r"(?:[ \t]+[\w'-]+)??"

SENTENCES = (
    # The password is …, the new password for admin is …, password changed to ….
    rf"[\"'\x60*)]{{0,3}}{_WORD * 6}[ \t]*{_SAYS}{_FILLER}{_AROUND}{_SPOKEN}{_STOP}",
)

_USE = r"(?:use|try|enter|type|with|take|verwende|nimm|usa)"
_AS = r"(?:as|for|als|como|comme)[ \t]+(?:(?:the|your|its|das|la|el|a|o)[ \t]+)?(?:\w+[ \t]+)??"
_LOG_IN = r"(?:log[ -]?in|sign[ -]?in|credentials?|creds|user(?:name)?/pass\w*|anmelden|account)\b"

PROSE = (
    # Use … as the password.
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\b{_USE}[ \t]+{_AROUND}{_SPOKEN}[\"'\x60*”’»]{{0,3}}[ \t]+{_AS}"
        r"(?P<name>pass\w*|pwd|secret|token|contrase\w+|senha|mot de passe)",
        loose=True,
    ),
    # Log in with admin / …, credentials: admin:….
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\b{_LOG_IN}(?:[ \t]+(?:with|as|using|are|is|mit))?[ \t]*[: \t][ \t]*"
        rf"[\"'\x60*]{{0,2}}\w[\w.@+-]*[\"'\x60*]{{0,2}}[ \t]*[/:|][ \t]*{_AROUND}{_SPOKEN}{_STOP}",
        loose=True,
        kind="password",
    ),
)


# Backticks, quotes and brackets stand around names in SQL.
_COLUMNS = rf"\([^()]*?{NAME}[^()]*\)"

TABLES = (
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\binto\s+[^\s(]+\s*{_COLUMNS}\s*values\s*",
        loose=True,
        reader="insert",
    ),
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\bcopy\s+[^\s(]+\s*{_COLUMNS}\s*from\s+stdin[^\n]*\n",
        loose=True,
        reader="copy",
    ),
)
