"""Extra headers for requests to a server: the option `--header 'NAME: VALUE'`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.mcp.protocol.repeated_headers import METHOD, NAME, PARAM
from toolbus.mcp.protocol.revisions import REVISION, SESSION
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Header = tuple[str, str]

_FIELD_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_FROM_ENVIRONMENT = re.compile(r"(?P<words>(?:.*[ \t])?)env:(?P<name>\S*)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_RESERVED = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"}
    | {"te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect", "host"}
    | {"accept", "accept-encoding", "content-encoding", "content-type", "last-event-id"}
    | {METHOD, NAME, REVISION, SESSION}
)
"""Headers of a connection (RFC 9110, 7.6.1), and headers that only the proxy sets."""


def read_headers(words: Iterable[str], environment: Mapping[str, str]) -> tuple[Header, ...]:
    """Return the names, in lower case, and values of *words*, each `NAME: VALUE`.

    In a value that is or ends with `env:VARIABLE`, the variable is read from *environment*.
    Raises `UsageError`, never with the value, which may be a secret.
    """
    headers: dict[str, str] = {}
    for word in words:
        name, colon, value = word.partition(":")
        if not colon or not _FIELD_NAME.fullmatch(name):
            raise UsageError(
                "--header expected 'NAME: VALUE', got an argument without a valid name"
            )
        lower = name.lower()
        if lower in _RESERVED or lower.startswith(PARAM):
            raise UsageError(f"--header {name!r}: the proxy sets this header itself; leave it out")
        if lower in headers:
            raise UsageError(f"--header {name!r} is given twice; give it once")
        headers[lower] = _value_of(name, value.strip(" \t"), environment)
    return tuple(headers.items())


def _value_of(name: str, value: str, environment: Mapping[str, str]) -> str:
    if (match := _FROM_ENVIRONMENT.fullmatch(value)) is not None:
        variable = match["name"]
        if not _VARIABLE.fullmatch(variable):
            raise UsageError(f"--header {name!r}: expected the name of a variable after 'env:'")
        if not (secret := environment.get(variable, "").strip()):
            raise UsageError(f"--header {name!r}: {variable} is not set in the environment; set it")
        value = match["words"] + secret
    if not _FIELD_VALUE.fullmatch(value):
        reason = "the value is empty, or has line breaks or characters that are not ASCII"
        raise UsageError(f"--header {name!r}: {reason}")
    return value
