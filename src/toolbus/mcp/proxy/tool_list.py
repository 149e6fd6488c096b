"""The server's tools, as handlers let the client see them: what it may call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.events.catalogue import TOOLS_PROVIDE
from toolbus.events.values import ToolSpec
from toolbus.mcp.proxy.jsonrpc import read_json
from toolbus.mcp.proxy.response_filter import UNCHANGED, Refused, explain
from toolbus.mcp.proxy.server_tools import listing_of, rebuild_list, sound, specs_of
from toolbus.tasks.locks import LoopLock
from toolbus.tools.calls.advertised import AdvertisedTools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from msgspec import Raw

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.mcp.proxy.calls import CallRequest
    from toolbus.mcp.proxy.request_table import RpcResponse
    from toolbus.tools.toolset import Toolset

    AskList = Callable[[dict[str, Any]], Awaitable[RpcResponse]]

logger = logging.getLogger("toolbus")

LIST = "tools/list"

_MOST_PAGES = 1_000


class ToolList:
    """What one client was told of the server's tools, and of those of components, *own*."""

    def __init__(self, bus: EventBus, scope: Scope, own: Toolset) -> None:
        self._bus, self._scope, self._own = bus, scope, own
        self.specs: dict[str, ToolSpec] = {}
        self._offer, self._complete = AdvertisedTools(()), False
        self._lock, self._waiting = LoopLock(), 0
        self.listed = False

    def adopt(self, other: ToolList) -> None:
        """Take over what *other* was told of the same server."""
        self.specs, self._offer = dict(other.specs), other._offer
        self._complete = True

    def forget(self) -> None:
        """Ask the server for its tools before the next call: it has said that they changed."""
        self._complete = False

    async def relist(self, raw: Raw, *, first: bool) -> Any:
        """Return the result of `tools/list` as handlers leave it, or `UNCHANGED`.

        Raises `Refused` if they could not be asked.
        """
        try:
            body = read_json(raw)
            return await self._relist(body if isinstance(body, dict) else {}, first=first)
        except Exception as error:
            raise Refused(explain(LIST, error)) from error

    async def offer(self, request: CallRequest, ask: AskList) -> AdvertisedTools:
        """Return what the client may call; a client that never asked is told nothing else.

        If the list is not known, *ask* gets the params of `tools/list`, and returns the answer.
        """
        if self._waiting or not self._complete:
            await self._wait_for_list(request, ask)
        name = request.call.name
        if name not in self.specs and self._own.get(name) is None:
            # Servers may have tools that they do not list; a handler may still hide one.
            context = await self._provide((ToolSpec(name=name),))
            self._offer = self._offer.joined(AdvertisedTools.of(context))
            self.specs[name] = ToolSpec(name=name)
        return self._offer

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
        meta = request.params.get("_meta")
        kept = {} if not isinstance(meta, dict) else {"_meta": {**meta}}
        if kept:
            kept["_meta"].pop("progressToken", None)
        cursor: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            answer = await ask({**cursor, **kept})
            if answer.frame.failed or answer.frame.result is UNSET:
                break
            body = read_json(answer.frame.result)
            if not isinstance(body, dict):
                break
            await self._relist(body, first=not cursor)
            if not isinstance(body.get("nextCursor"), str):
                break
            cursor = {"cursor": body["nextCursor"]}
        self._complete = True

    async def _relist(self, body: dict[str, Any], *, first: bool) -> Any:
        found, last = body.get("tools"), not body.get("nextCursor")
        tools = found if isinstance(found, list) else []
        if first:
            self.specs, self._offer = {}, AdvertisedTools(())
        theirs = specs_of(tools)
        self.specs |= {spec.name: sound(spec) for spec in theirs}
        ours = [one for one in self._own.specs if last and one.name not in self.specs]
        before = (*theirs, *ours)
        context = await self._provide(before)
        self._offer = self._offer.joined(AdvertisedTools.of(context))
        self._complete = self._complete or last
        self.listed = self.listed or last
        after = () if context.denied else context.value
        if after is before and not ours:
            return UNCHANGED
        given = [*tools, *[listing_of(one) for one in ours]]
        listed, strange = rebuild_list(given, before, after)
        for name in strange:
            logger.warning("a handler offers the tool %r, which nobody has; left out", name)
        return {**body, "tools": listed}

    async def _provide(self, specs: tuple[ToolSpec, ...]) -> Any:
        return await self._bus.apply(TOOLS_PROVIDE, specs, scope=self._scope)
