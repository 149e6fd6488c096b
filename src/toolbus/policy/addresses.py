"""Hosts: which one a URL or an argument of a command names, and patterns of them.

`example.com` is that host on every port, `*.example.com` those below it, `localhost:3000` one
port. A pattern of an address (`10.0.0.*`) compares texts; other spellings of an address (octal,
one number, IPv6 with IPv4 in it) are told apart from it, so that what allows is not fooled.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from toolbus.settings.values import MisfitError

_SCP = re.compile(r"(?:[^@/\s:]+@)?(?P<host>\[[^\]]+\]|[^@:/\s\[\]]+):(?!//)")
_HOST = re.compile(r"[^\s/@:\[\]?#\\]+")
_IPV6 = re.compile(r"\[[0-9a-fA-F:.]+\]")
_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418, "ftp": 21, "ws": 80, "wss": 443}


class Address(NamedTuple):
    """A *host*, in small letters and without the last dot, and its *port*, if that is known."""

    host: str
    port: int | None = None


@lru_cache(maxsize=1_000)
def address_of(text: str) -> Address | None:
    """Return the address that *text* names, None if that cannot be told.

    It may be a URL, a host with or without a port, or `user@host:path` as scp and git take it.
    """
    if "://" in text:
        return _of_url(text)
    if match := _SCP.match(text):
        rest = text[match.end() :].partition("/")[0]
        if rest.isascii() and rest.isdigit() and "@" not in text:
            return _of_url(f"//{text}")
        return _address(match["host"], None)
    return _of_url(f"//{text}") if text else None


def _of_url(text: str) -> Address | None:
    # Browsers take a backslash for a slash, others for a part of the host.
    if "\\" in text or any(ord(character) <= ord(" ") for character in text):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2]
    host = host if host.startswith("[") and port is None else re.sub(r":\d*$", "", host)
    return _address(host, port or _PORTS.get(parts.scheme))


def _address(host: str, port: int | None) -> Address | None:
    if not (_HOST.fullmatch(host) or _IPV6.fullmatch(host)) or "%" in host:
        return None
    try:
        # As resolvers do with other letters (RFC 5891): two spellings are one host.
        plain = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return None
    return Address(plain.lower().rstrip("."), port)


class HostPattern(NamedTuple):
    """A pattern of hosts: *text* as written, a glob of the host, and its port, if it has one."""

    text: str
    host: str
    port: int | None = None

    def matches(self, address: Address) -> bool:
        """Tell whether *address* is one of its hosts."""
        if self.port is not None and address.port != self.port:
            return False
        return fnmatchcase(address.host, self.host)


def read_host_pattern(text: str) -> HostPattern:
    """Return the pattern *text*; raises `MisfitError` for what is no host."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    if not host or "/" in host or (port and not (port.isascii() and port.isdigit())):
        raise MisfitError(f"expected a host such as '*.example.com', got {text!r}")
    return HostPattern(text, host.lower().rstrip("."), int(port) if port else None)
