"""HTTP headers that pass where handlers judge: those that have a meaning, in a form of theirs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.mcp.protocol.revisions import REVISION, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    Fields = Iterable[tuple[str, str]]

_WORDS = re.compile(r"[A-Za-z0-9=*,;\- ]{1,500}")
_DATE = r"[A-Za-z]{3}, \d\d [A-Za-z]{3} \d{4} \d\d:\d\d:\d\d GMT"
_BACK = {
    SESSION: re.compile(r"[\x21-\x7e]{1,1000}"),
    REVISION: re.compile(r"[A-Za-z0-9.\-]{1,50}"),
    "allow": _WORDS,
    "cache-control": _WORDS,
    "date": re.compile(_DATE),
    "retry-after": re.compile(rf"\d{{1,9}}|{_DATE}"),
    "vary": _WORDS,
    "x-accel-buffering": re.compile("yes|no"),
}
"""The headers of a server that come back, and their forms; no handler judges what others say."""

_CORS = "access-control-"
_CORS_VALUE = re.compile(r"[\x21-\x7e, ]{1,1000}")

_OVERRIDES = frozenset({"x-http-method", "x-original-url", "x-rewrite-url"})
"""What makes some servers read a request as another one."""

_CHALLENGE = re.compile(r'([!#-\'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]+))?')
_PARAMS = {
    "error": re.compile(r"[a-z_]{1,50}"),
    "resource_metadata": re.compile(r"https?://[\x21\x23-\x5b\x5d-\x7e]{1,1000}"),
    "scope": re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,1000}"),
}
"""What OAuth needs of a challenge (RFC 6750, 3; RFC 9728, 5.1); the rest is text for people."""


def upward(fields: Fields) -> list[tuple[str, str]]:
    """Return those of a client's *fields* that make no other request of it than was judged."""
    return [field for field in fields if not _overrides(field[0].lower())]


def back(fields: Fields) -> list[tuple[str, str]]:
    """Return those of a server's *fields* that are known and say what they should."""
    lower = [(name.lower(), value) for name, value in fields]
    known = [field for field in lower if _is_known(*field)]
    asked = [("www-authenticate", challenge(value)) for name, value in lower if name == _ASKS]
    return [*known, *asked]


_ASKS = "www-authenticate"


def challenge(value: str) -> str:
    """Return the challenge *value* without the texts in it."""
    text, previous = "", ""
    for name, quoted in _CHALLENGE.findall(value):
        param = name.lower()
        content = quoted.removeprefix('"').removesuffix('"')
        if not quoted:
            item = name
        elif param in _PARAMS and _PARAMS[param].fullmatch(content):
            item = f'{param}="{content}"'
        else:
            continue
        # RFC 9110, 11.6.1: a list, in which the first parameter follows its scheme without a comma.
        is_first_param = "=" in item and "=" not in previous
        text += item if not previous else f" {item}" if is_first_param else f", {item}"
        previous = item
    return text


def _is_known(name: str, value: str) -> bool:
    form = _CORS_VALUE if name.startswith(_CORS) else _BACK.get(name)
    return form is not None and form.fullmatch(value) is not None


def _overrides(name: str) -> bool:
    # Servers behind CGI and its like take `_` and `-` in a name for the same.
    return "_" in name or "method-override" in name or name in _OVERRIDES
