"""A name and a value, each said by a key, an element or an attribute of its own; and elements."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BARE, NAME, QUOTED, WORD, BuiltinRule

# Kubernetes and ECS say `value`, CloudFormation `ParameterValue`, HTML `content`, Jenkins `secret`.
_VALUE_KEY = r"(?:\w*value|val|contents?|plaintext|secret|text|data)"
_NAME_KEY = r"(?:\w*name|\w*key|variable|var|id|field|property|setting|parameter|header|label|type)"
_QUOTE = r"""\\*["'\x60]?"""
_IS = r"[ \t]*(?::|=>|=)[ \t]*"
_NEXT = r"[ \t]*[,;\r\n]\s*"
# What else a pair has between its name and its value.
_MEMBER = rf"(?:{_QUOTE}[\w.-]+{_QUOTE}{_IS}[^,;\n{{}}]*[,;\n]\s*)"
_MEMBERS = rf"{_MEMBER}??{_MEMBER}??{_MEMBER}??"
_LITERAL = r"""\\*["'\x60]([^"'\x60\\\r\n]+)\\*["'\x60]"""
_TEXT = r"\s*(?:<!\[CDATA\[)?\s*([^<>\s][^<>\r\n]*?)\s*(?:\]\]>)?\s*</"
_LINE = r"(?:[ \t]+\w+:[^\n]*\n)??"
_ELEMENT = r"(?:<[^<>]+>[^<>]*</[^<>]+>\s*)??"
_ATTRIBUTE = r"(?:value|content|val|defaultvalue)"

_BESIDE = (
    # {"name": "DB_PASSWORD", "value": "…"}: JSON, also in a string, JavaScript, HCL.
    rf"{_QUOTE}\)?{_NEXT}{_MEMBERS}{_QUOTE}{_VALUE_KEY}{_QUOTE}{_IS}{_LITERAL}",
    # {name: DB_PASSWORD, value: …}
    rf",[ \t]*{_VALUE_KEY}:[ \t]*({BARE})[ \t]*[}},;\n]",
    # - name: DB_PASSWORD, and on another line value: …
    rf"[\"']?[ \t]*\r?\n{_LINE * 2}[ \t]+{_VALUE_KEY}:[ \t]+{WORD}[ \t\r]*(?:\n|$)",
    # The command line of CloudFormation.
    rf",[ \t]*{_VALUE_KEY}=([^\s\"',;]+)",
)

_MARKED_UP = (
    # <name>db.password</name><value>…</value>, <key>Password</key><string>…</string>.
    rf"\s*</[\w.:-]+>\s*{_ELEMENT}<(?:{_VALUE_KEY}|string|secret)(?:\s[^<>]*)?>{_TEXT}",
    # <property name="password" value="…"/>, <input type="password" value="…">.
    rf"[\"'](?:\s[^<>]*?)?\s{_ATTRIBUTE}[ \t]*=[ \t]*{QUOTED}",
    # <entry key="db.password">…</entry>, <setting name="Password"><value>…</value>.
    rf"[\"'](?:\s[^<>]*)?>\s*(?:<value[^<>]*>)?{_TEXT}",
    # <password>…</password>, <password type="…">…</password>.
    rf"(?:\s[\w:.-]+=[^<>]*)?>{_TEXT}",
)


PAIRS = (*_BESIDE, *_MARKED_UP)
"""What stands behind a name."""


def _reversed(pattern: str) -> BuiltinRule:
    return BuiltinRule("assigned-secret", pattern, loose=True)


VALUES_FIRST = (
    _reversed(
        rf"(?i)\b{_VALUE_KEY}{_QUOTE}{_IS}{_LITERAL}{_NEXT}{_MEMBERS}"
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
