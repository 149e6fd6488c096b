"""Values that are assigned to a name: in programs, settings and shells."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BuiltinRule

# What stands between a name and its value, and what ends a value.
_Q = r"""["'\x60]"""
_IS = r"""["'\x60)\]]{0,2}[ \t]{0,8}(?:=>|:=|\|\||=|:|,)\s{0,8}["'\x60(]{0,2}"""
_END = r"""(?:\\?["'\x60]|[\s;,)<}\]&]|\\[nr]|$)"""
_NAMED = (
    r"(?:api|access|account|auth|private|shared|signing|encryption)[ _.-]?key"
    r"|secret|token|pass|pwd|credential|[_ .-]pat\b|[a-z][_-]key"
)
_FLAG = rf"(?P<name>[\w-]{{0,24}}(?:{_NAMED})[\w-]{{0,12}})"
_CHOSEN = r"[\w!#$%&*+/=?@^~.-]{8,128}"
_VALUE = r"[A-Za-z0-9_+/=.~:-]{16,512}"

ASSIGNMENTS = (
    # Whatever is assigned to a name that says "secret".
    BuiltinRule(
        "assigned-secret",
        rf"(?i)(?P<name>(?:{_NAMED})[\w.-]{{0,24}}){_IS}(?P<value>{_VALUE}){_END}",
        loose=True,
    ),
    # What people choose themselves is shorter, and has other signs.
    BuiltinRule(
        "assigned-password",
        rf"(?i)(?P<name>(?:pass|pwd)[\w.-]{{0,24}}){_IS}(?P<value>{_CHOSEN}){_END}",
        loose=True,
    ),
    BuiltinRule(
        "flagged-secret",
        rf"(?i)--?{_FLAG}[ =]{{1,4}}{_Q}?(?P<value>{_VALUE}){_END}",
        loose=True,
    ),
)
