"""Headers that a person has the proxy send to a server: `--header 'NAME: VALUE'`, checked once."""

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
"""About a connection (RFC 9110, 7.6.1), or said by the proxy, which nobody may contradict."""


def read_headers(words: Iterable[str], environment: Mapping[str, str]) -> tuple[Header, ...]:
    """Return the names, in lower case, and values that *words*, each `NAME: VALUE`, stand for.

    A value that is `env:VARIABLE`, or ends with it after a space, has there what *environment*
    holds. Raises `UsageError`, in which no value stands: it may be a secret.
    """
    headers: dict[str, str] = {}
    for word in words:
        name, colon, value = word.partition(":")
        if not colon or not _FIELD_NAME.fullmatch(name):
            raise UsageError("--header expects 'NAME: VALUE'; what was given has no such name")
        lower = name.lower()
        if lower in _RESERVED or lower.startswith(PARAM):
            raise UsageError(f"--header {name!r}: the proxy says that by itself; leave it out")
        if lower in headers:
            raise UsageError(f"--header {name!r} is there twice; give one")
        headers[lower] = _value_of(name, value.strip(" \t"), environment)
    return tuple(headers.items())


def _value_of(name: str, value: str, environment: Mapping[str, str]) -> str:
    if (match := _FROM_ENVIRONMENT.fullmatch(value)) is not None:
        variable = match["name"]
        if not _VARIABLE.fullmatch(variable):
            raise UsageError(f"--header {name!r}: env: is followed by the name of a variable")
        if not (secret := environment.get(variable, "").strip()):
            raise UsageError(f"--header {name!r}: {variable} is not set in the environment; set it")
        value = match["words"] + secret
    if not _FIELD_VALUE.fullmatch(value):
        what = "its value is empty, or has line breaks or characters that are not ASCII"
        raise UsageError(f"--header {name!r}: {what}")
    return value
