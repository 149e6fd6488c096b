"""The server's tools, as handlers let the client see them: what it may call.

See MCP 2025-11-25, server/tools, "Listing Tools", and server/utilities/pagination.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from toolbus.events.call_values import ToolSpec
from toolbus.events.catalogue import TOOLS_PROVIDE
from toolbus.mcp.protocol.revisions import LIST
from toolbus.mcp.session.response_filter import UNCHANGED, fail_closed
from toolbus.mcp.session.server_tools import listing_of, rebuild_list, sound, specs_of
from toolbus.tasks.loops import LoopLock
from toolbus.tools.calls.advertised import AdvertisedTools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.session.calls import CallRequest
    from toolbus.mcp.session.request_table import Send
    from toolbus.tools.toolset import Toolset

    AskList = Callable[[dict[str, Any], Send], Awaitable[Frame]]

logger = logging.getLogger("toolbus")

_MAX_PAGES = 1_000


class ToolList:
    """What one client was told of the server's tools, and of those *of_components*."""

    def __init__(self, bus: EventBus, scope: Scope, of_components: Toolset) -> None:
        self._bus, self._scope, self._of_components = bus, scope, of_components
        self.specs: dict[str, ToolSpec] = {}
        self._advertised, self._complete = AdvertisedTools(()), False
        self._hidden: dict[str, ToolSpec] = {}
        self._lock, self._waiting = LoopLock(), 0
        self.listed = False

    def adopt(self, other: ToolList) -> None:
        """Take over what *other* was told of the same server."""
        self.specs, self._advertised = dict(other.specs), other._advertised
        self._hidden = dict(other._hidden)
        self._complete = True

    def forget(self) -> None:
        """Ask the server for its tools before the next call: it has said that they changed."""
        self._complete = False

    async def relist(self, body: Any, *, first: bool) -> Any:
        """Return the result of `tools/list` as handlers leave it, or `UNCHANGED`.

        Raises `ResponseRejected` if they could not be asked.
        """
        with fail_closed(LIST):
            return await self._relist(body if isinstance(body, dict) else {}, first=first)

    async def advertise(self, request: CallRequest, ask: AskList) -> AdvertisedTools:
        """Return what the client may call; a client that never asked is told nothing else.

        If the list is not known, *ask* gets the params of `tools/list`, and returns the answer.
        """
        if self._waiting or not self._complete:
            await self._wait_for_list(request, ask)
        name = request.call.name
        if name not in self.specs and self._of_components.get(name) is None:
            # Servers may have tools that they do not list; a handler may still hide one.
            await self._provide((ToolSpec(name=name),))
            self.specs[name] = ToolSpec(name=name)
        elif (hidden := self._hidden.get(name)) is not None:
            # A person may have accepted since then what handlers hid.
            await self._provide((hidden,))
        return self._advertised

    async def _wait_for_list(self, request: CallRequest, ask: AskList) -> None:
        """Let one call ask for the list; those that wait for it go on in their order."""
        self._waiting += 1
        try:
            async with self._lock.here():
                if not self._complete:
                    await self._list(request, ask)
        finally:
            self._waiting -= 1

    async def _list(self, request: CallRequest, ask: AskList) -> None:
        """Ask the server for all pages, with the metadata of *request*."""
        meta = request.params.get("_meta")
        params: dict[str, Any] = {}
        if isinstance(meta, dict):
            params["_meta"] = {name: meta[name] for name in meta if name != "progressToken"}
        for _ in range(_MAX_PAGES):
            answer = await ask(params, request.channels.to_server)
            body = answer.result
            if answer.failed or not isinstance(body, dict):
                break
            await self._relist(body, first="cursor" not in params)
            if not isinstance(body.get("nextCursor"), str):
                break
            params["cursor"] = body["nextCursor"]
        self._complete = True

    async def _relist(self, body: dict[str, Any], *, first: bool) -> Any:
        """Take one page of the list; return it as handlers leave it, or `UNCHANGED`."""
        listed, final = body.get("tools"), not body.get("nextCursor")
        tools = listed if isinstance(listed, list) else []
        if first:
            self.specs, self._advertised, self._hidden = {}, AdvertisedTools(()), {}
        theirs = specs_of(tools)
        self.specs |= {spec.name: sound(spec) for spec in theirs}
        ours = self._unlisted() if final else []
        before = (*theirs, *ours)
        context = await self._provide(before)
        if final:
            self._complete = self.listed = True
        after = () if context.denied else context.value
        self._note_hidden(before, after)
        if after is before and not ours:
            return UNCHANGED
        listed, unknown = rebuild_list([*tools, *map(listing_of, ours)], before, after)
        for name in unknown:
            logger.warning("a handler offers the tool %r, which nobody has; left out", name)
        return {**body, "tools": listed}

    def _note_hidden(self, before: Sequence[ToolSpec], after: Iterable[ToolSpec]) -> None:
        """Keep what was hidden, but of tools under one name none: which one would be called?"""
        shown, names = {spec.name for spec in after}, Counter(spec.name for spec in before)
        self._hidden |= {
            spec.name: spec for spec in before if spec.name not in shown and names[spec.name] == 1
        }

    def _unlisted(self) -> list[ToolSpec]:
        return [spec for spec in self._of_components.specs if spec.name not in self.specs]

    async def _provide(self, specs: tuple[ToolSpec, ...]) -> Any:
        context = await self._bus.apply(TOOLS_PROVIDE, specs, scope=self._scope)
        self._advertised = self._advertised.joined(AdvertisedTools.of(context))
        return context
