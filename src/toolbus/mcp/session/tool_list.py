"""The server's tools, as handlers let the client see them: what it may call.

See MCP 2025-11-25, server/tools, "Listing Tools", and server/utilities/pagination.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from toolbus.events.call_values import ToolSpec
from toolbus.events.catalogue import TOOLS_PROVIDE
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, thaw
from toolbus.tasks.loops import LoopLock
from toolbus.tools.calls.advertised import AdvertisedTools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.session.request_table import Send
    from toolbus.mcp.session.tool_calls import ProxiedCall
    from toolbus.tools.toolset import Toolset

    AskList = Callable[[dict[str, Any], Send], Awaitable[Frame]]

logger = logging.getLogger("toolbus")

_MAX_PAGES = 1_000

_MEMBERS = {
    "description": "description",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "annotations": "annotations",
}


class ToolList:
    """The server's tools, and those *of_components*, as one client was told of them."""

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
        """Return *body*, a result of `tools/list`, as handlers leave it: itself if unchanged."""
        return await self._relist(body, first=first) if isinstance(body, dict) else body

    async def advertise(self, call: ProxiedCall, ask: AskList) -> AdvertisedTools:
        """Return what the client may call; a client that never asked is told nothing else.

        If the list is not known, *ask* gets the params of `tools/list`, and returns the answer.
        """
        if self._waiting or not self._complete:
            await self._wait_for_list(call, ask)
        name = call.call.name
        if name not in self.specs and self._of_components.get(name) is None:
            # Servers may have tools that they do not list; a handler may still hide one.
            await self._provide((ToolSpec(name=name),))
            self.specs[name] = ToolSpec(name=name)
        elif (hidden := self._hidden.get(name)) is not None:
            # A person may have accepted since then what handlers hid.
            await self._provide((hidden,))
        return self._advertised

    async def _wait_for_list(self, call: ProxiedCall, ask: AskList) -> None:
        """Let one call ask for the list; those that wait for it go on in their order."""
        self._waiting += 1
        try:
            async with self._lock.current():
                if not self._complete:
                    await self._list(call, ask)
        finally:
            self._waiting -= 1

    async def _list(self, call: ProxiedCall, ask: AskList) -> None:
        """Ask the server for all pages, with the metadata of *call*."""
        meta = call.params.get("_meta")
        params: dict[str, Any] = {}
        if isinstance(meta, dict):
            params["_meta"] = {name: meta[name] for name in meta if name != "progressToken"}
        for _ in range(_MAX_PAGES):
            answer = await ask(params, call.channels.to_server)
            body = answer.result
            if answer.failed or not isinstance(body, dict):
                break
            await self._relist(body, first="cursor" not in params)
            if not isinstance(body.get("nextCursor"), str):
                break
            params["cursor"] = body["nextCursor"]
        self._complete = True

    async def _relist(self, body: dict[str, Any], *, first: bool) -> Any:
        """Take one page of the list; return it as handlers leave it: itself if unchanged."""
        listed, final = body.get("tools"), not body.get("nextCursor")
        tools = listed if isinstance(listed, list) else []
        if first:
            self.specs, self._advertised, self._hidden = {}, AdvertisedTools(()), {}
        theirs = _specs_of(tools)
        self.specs |= {spec.name: _sound(spec) for spec in theirs}
        ours = self._unlisted() if final else []
        before = (*theirs, *ours)
        context = await self._provide(before)
        if final:
            self._complete = self.listed = True
        after = () if context.denied else context.value
        self._note_hidden(before, after)
        if after is before and not ours:
            return body
        listed, unknown = _rebuild_list([*tools, *map(_listing_of, ours)], before, after)
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


def _specs_of(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """Return the specs of *tools*, as JSON; what has no name is none. Raises `FreezeError`."""
    return tuple([_spec(tool) for tool in tools if _member(tool, "name", str, None) is not None])


def _spec(tool: dict[str, Any]) -> ToolSpec:
    annotations = _member(tool, "annotations", dict, EMPTY)
    if title := _member(tool, "title", str, ""):
        # Where handlers look for it, and where older servers have it: MCP 2025-11-25, schema, Tool.
        annotations = {**annotations, "title": title}
    return ToolSpec(
        name=tool["name"],
        description=_member(tool, "description", str, ""),
        input_schema=_member(tool, "inputSchema", dict, {"type": "object"}),
        output_schema=_member(tool, "outputSchema", dict, None),
        annotations=annotations,
    )


def _sound(spec: ToolSpec) -> ToolSpec:
    """Return *spec* without the schemas that nothing can be checked against."""
    output, takes = spec.output_schema, spec.input_schema
    return ToolSpec(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object"} if schemas.check_schema(takes) else takes,
        output_schema=None if output is None or schemas.check_schema(output) else output,
        annotations=spec.annotations,
    )


def _rebuild_list(
    tools: list[Any], before: Iterable[ToolSpec], after: Iterable[ToolSpec]
) -> tuple[list[Any], tuple[str, ...]]:
    """Return *tools* as handlers left their specs, and the names of specs that are no tool's.

    Members of a tool that a spec does not have, such as icons, stay.
    """
    originals = {spec.name: spec for spec in before}
    known = {_member(tool, "name", str, None): tool for tool in tools}
    strange = tuple([spec.name for spec in after if spec.name not in originals])
    listed = [
        _reworded(known[spec.name], originals[spec.name], spec)
        for spec in after
        if spec.name in originals
    ]
    return listed, strange


def _listing_of(spec: ToolSpec) -> dict[str, Any]:
    """Return what a list says of a tool that no server has."""
    return _reworded({"name": spec.name}, ToolSpec(name=spec.name, input_schema=EMPTY), spec)


def _reworded(tool: dict[str, Any], before: ToolSpec, after: ToolSpec) -> dict[str, Any]:
    changed = {
        member: thaw(getattr(after, field))
        for field, member in _MEMBERS.items()
        if getattr(after, field) != getattr(before, field)
    }
    new = {**tool, **changed}
    return {name: value for name, value in new.items() if name not in changed or value is not None}


def _member(item: Any, name: str, kind: type, default: Any) -> Any:
    value = item.get(name) if isinstance(item, dict) else None
    return value if isinstance(value, kind) else default
