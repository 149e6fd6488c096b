"""The options of a listening proxy, in a module that loads fast."""

from __future__ import annotations

from typing import NamedTuple


class ListenOptions(NamedTuple):
    """The options of a listening proxy; port 0 lets the system pick one.

    *hosts* and *origins* are allowed besides loopback. At most *sessions* are open, each until it
    is *idle* for so many seconds. A client has *seconds* to send a request, and to continue reading
    a response. *open* admits clients on other machines without a token.
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
