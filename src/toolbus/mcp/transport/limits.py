"""The limits of a proxy: sizes and waiting times."""

from __future__ import annotations

from typing import NamedTuple


class ProxyLimits(NamedTuple):
    """The maximum bytes of a *frame*, and the seconds of *grace* for a server to exit.

    A remote server must begin to answer requests other than tool calls within *silence* seconds.
    """

    frame: int = 2**28
    grace: float = 5.0
    silence: float = 300.0
