"""The place where a proxy listens for HTTP clients, and whom it lets in."""

from __future__ import annotations

from typing import NamedTuple


class ListenOptions(NamedTuple):
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
