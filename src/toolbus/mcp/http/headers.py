"""The HTTP headers that pass a filtering relay, checked by name and form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.mcp.protocol.revisions import REVISION, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    Fields = Iterable[tuple[str, str]]

_WORDS = re.compile(r"[A-Za-z0-9=*,;\- ]{1,500}")
_DATE = r"[A-Za-z]{3}, \d\d [A-Za-z]{3} \d{4} \d\d:\d\d:\d\d GMT"
_RESPONSE_HEADERS = {
    SESSION: re.compile(r"[\x21-\x7e]{1,1000}"),
    REVISION: re.compile(r"[A-Za-z0-9.\-]{1,50}"),
    "allow": _WORDS,
    "cache-control": _WORDS,
    "date": re.compile(_DATE),
    "retry-after": re.compile(rf"\d{{1,9}}|{_DATE}"),
    "vary": _WORDS,
    "x-accel-buffering": re.compile("yes|no"),
}
"""The headers of a server that are returned, with their forms; handlers do not see headers."""

_CORS = "access-control-"
_CORS_VALUE = re.compile(r"[\x21-\x7e, ]{1,1000}")

_OVERRIDES = frozenset({"x-http-method", "x-original-url", "x-rewrite-url"})
"""Headers that make some servers treat a request as a different one."""

_CHALLENGE = re.compile(r'([!#-\'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]+))?')
_PARAMS = {
    "error": re.compile(r"[a-z_]{1,50}"),
    "resource_metadata": re.compile(r"https?://[\x21\x23-\x5b\x5d-\x7e]{1,1000}"),
    "scope": re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,1000}"),
}
"""The parameters of a challenge for OAuth (RFC 6750, 3; RFC 9728, 5.1); the rest is prose."""


def request_headers(fields: Fields) -> list[tuple[str, str]]:
    """Return a client's *fields* without headers that override the request seen by handlers."""
    return [field for field in fields if not _overrides(field[0].lower())]


def response_headers(fields: Fields) -> list[tuple[str, str]]:
    """Return a server's *fields* with known names and valid values."""
    lower = [(name.lower(), value) for name, value in fields]
    known = [field for field in lower if _is_known(*field)]
    asked = [
        ("www-authenticate", challenge(value)) for name, value in lower if name == _CHALLENGE_HEADER
    ]
    return [*known, *asked]


_CHALLENGE_HEADER = "www-authenticate"


def challenge(value: str) -> str:
    """Return the challenge *value* without its prose."""
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
        # RFC 9110, 11.6.1: a list whose first parameter follows its scheme without a comma.
        is_first_param = "=" in item and "=" not in previous
        text += item if not previous else f" {item}" if is_first_param else f", {item}"
        previous = item
    return text


def _is_known(name: str, value: str) -> bool:
    form = _CORS_VALUE if name.startswith(_CORS) else _RESPONSE_HEADERS.get(name)
    return form is not None and form.fullmatch(value) is not None


def _overrides(name: str) -> bool:
    # Servers behind CGI and similar gateways treat `_` and `-` in a name alike.
    return "_" in name or "method-override" in name or name in _OVERRIDES
