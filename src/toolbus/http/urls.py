"""Addresses of HTTP servers: how they are read, who can reach them, and how people see them."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach *host*."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_exposed(url: SplitResult) -> bool:
    """Return whether requests to *url*, and the tokens in them, can be read on their way."""
    return url.scheme == "http" and not is_loopback(url.hostname or "")


def read_url(text: str) -> SplitResult | None:
    """Return *text* as the address of an HTTP server, None if it is not one."""
    try:
        url = urlsplit(text)
        _ = url.port  # It may raise as well.
    except ValueError:
        return None
    return url if url.scheme in {"http", "https"} and url.hostname else None


def authority(url: SplitResult) -> str:
    """Return the name and port of the server at *url*, without user information.

    That is what the header `Host` says: RFC 9110, 7.2.
    """
    return url.netloc.rpartition("@")[2]


def without_query(url: SplitResult) -> str:
    """Return *url* for people: without user information and query, which may hold a secret."""
    return f"{url.scheme}://{authority(url)}{url.path}"
