"""URLs of HTTP servers: parsing, exposure to the network, and display."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit


def is_loopback(host: str) -> bool:
    """Return whether *host* is reachable only from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_exposed(url: SplitResult) -> bool:
    """Return whether requests to *url* are sent unencrypted over a network."""
    return url.scheme == "http" and not is_loopback(url.hostname or "")


def read_url(text: str) -> SplitResult | None:
    """Return *text* as the URL of an HTTP server, None if it is not one."""
    try:
        url = urlsplit(text)
        _ = url.port  # Validates the port.
    except ValueError:
        return None
    return url if url.scheme in {"http", "https"} and url.hostname else None


def authority(url: SplitResult) -> str:
    """Return the host and port of *url*, without user information: the `Host` of RFC 9110, 7.2."""
    return url.netloc.rpartition("@")[2]


def without_query(url: SplitResult) -> str:
    """Return *url* for display, without user information and query, which may hold a secret."""
    return f"{url.scheme}://{authority(url)}{url.path}"
