"""What stateless requests have learned of a server's tools, for others like them."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from toolbus.mcp.proxy.byte_relay import ByteRelay
    from toolbus.mcp.session.judged_session import JudgedSession
    from toolbus.mcp.session.tool_list import ToolList

_LIMIT, _SECONDS = 100, 60.0


class _Listing(NamedTuple):
    tool_list: ToolList
    until: float


class Listings:
    """Lists of tools, each for a minute; without them each call would ask for one first.

    A key stands for all by which a server may tell its clients from each other.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._listings: OrderedDict[Hashable, _Listing] = OrderedDict()

    def get(self, key: Hashable, session: JudgedSession | ByteRelay) -> None:
        """Tell *session* what another one with the same *key* was told."""
        listing = self._listings.get(key)
        if session.is_filtering is True and listing is not None and listing.until > self._clock():
            session.tool_list.adopt(listing.tool_list)

    def put(self, key: Hashable, session: JudgedSession | ByteRelay) -> None:
        """Keep what *session* was told itself, if handlers judge and it was told all."""
        if session.is_filtering is True and session.tool_list.listed:
            self._listings[key] = _Listing(session.tool_list, self._clock() + _SECONDS)
            self._listings.move_to_end(key)
            if len(self._listings) > _LIMIT:
                self._listings.popitem(last=False)

    def forget(self) -> None:
        """Forget all: the tools have changed."""
        self._listings.clear()
