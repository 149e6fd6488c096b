"""The limits of a proxy: how much it takes, and for how long it waits."""

from __future__ import annotations

from typing import NamedTuple


class ProxyLimits(NamedTuple):
    """The bytes that a *frame* may have, and the seconds that a server may take to end, *grace*.

    *silence* is the number of seconds after which a server over HTTP must have begun to answer
    whatever is not a tool call.
    """

    frame: int = 2**28
    grace: float = 5.0
    silence: float = 300.0
