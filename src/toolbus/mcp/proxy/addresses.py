"""Addresses of servers: which text is one, and what HTTP calls the server there."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def read_url(text: str) -> SplitResult | None:
    """Return *text* as an address of a server, None if it is none."""
    url = urlsplit(text)
    return url if url.scheme in {"http", "https"} and url.hostname else None


def authority(url: SplitResult) -> str:
    """Return the server's name and port as the header `Host` says them."""
    return url.netloc.rpartition("@")[2]
