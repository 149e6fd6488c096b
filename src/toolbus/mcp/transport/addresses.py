"""Where a server is, and where the proxy itself listens, for whom."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit


class Listening(NamedTuple):
    """What a listening proxy is asked for; port 0 lets the system pick one.

    *hosts* and *origins* are allowed besides those of loopback. A session that is *idle* so many
    seconds is over, and there are at most so many *sessions*. A client has so many *seconds* to
    send a request, and to read on in an answer. If it is *open*, whoever reaches the host comes in
    without a token.
    """

    host: str = "127.0.0.1"
    port: int = 0
    path: str = "/mcp"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    idle: float = 1_800.0
    sessions: int = 100
    seconds: float = 30.0
    open: bool = False


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach *host*."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_exposed(url: SplitResult) -> bool:
    """Return whether requests to *url*, and the tokens in them, can be read on their way."""
    return url.scheme == "http" and not is_loopback(url.hostname or "")


def read_url(text: str) -> SplitResult | None:
    """Return *text* as the address of an HTTP server, None if it is none."""
    url = urlsplit(text)
    return url if url.scheme in {"http", "https"} and url.hostname else None


def authority(url: SplitResult) -> str:
    """Return the name and port of the server at *url*, without user information.

    That is what the header `Host` says: RFC 9110, 7.2.
    """
    return url.netloc.rpartition("@")[2]


def bare(url: SplitResult) -> str:
    """Return *url* for people: without user information and query, which may hold a secret."""
    return f"{url.scheme}://{authority(url)}{url.path}"
