"""Values that are assigned to a name: in programs, settings and shells."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import (
    ARGUMENT,
    BARE,
    END,
    QUOTED,
    WORD,
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
