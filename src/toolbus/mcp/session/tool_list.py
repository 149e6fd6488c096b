"""The tools advertised to a client, after handlers of `TOOLS_PROVIDE`.

See MCP 2025-11-25, server/tools, "Listing Tools", and server/utilities/pagination.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from toolbus.components.listed_tools import MEMBERS, further_members
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
_CLASH = (
    "the server and a component of toolbus both have a tool {!r}; neither is called:"
    " disable the component, or name the server in a [[server]] table, as a prefix"
)

_MEMBERS = {
    "description": "description",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "annotations": "annotations",
}


class ToolList:
    """The tools advertised to one client: the server's, and those *of_components*.

    *clashes* has by name the reason why a tool of both is not called.
    """

    def __init__(self, bus: EventBus, scope: Scope, of_components: Toolset) -> None:
        self._bus, self._scope, self._of_components = bus, scope, of_components
        self.specs: dict[str, ToolSpec] = {}
        self._advertised, self._complete = AdvertisedTools(()), False
        self._hidden: dict[str, ToolSpec] = {}
        self.clashes: dict[str, str] = {}
        self._lock, self._waiting = LoopLock(), 0
        self.listed = False

    def adopt(self, other: ToolList) -> None:
        """Copy the tools from *other*, a list of the same server."""
        self.specs, self._advertised = dict(other.specs), other._advertised
        self._hidden, self.clashes = dict(other._hidden), dict(other.clashes)
        self._complete = True

    def forget(self) -> None:
        """Have the list fetched before the next call, because the server's tools have changed."""
        self._complete = False

    async def relist(self, body: Any, *, first: bool) -> Any:
        """Return *body*, a result of `tools/list`, as changed by handlers, or itself."""
        return await self._relist(body, first=first) if isinstance(body, dict) else body

    async def advertise(self, call: ProxiedCall, ask: AskList) -> AdvertisedTools:
        """Return the tools that the client may call; the list is fetched if it is not known.

        *ask* takes the params of `tools/list` and returns the response.
        """
        if self._waiting or not self._complete:
            await self._wait_for_list(call, ask)
        name = call.call.name
        if name not in self.specs and self._of_components.get(name) is None:
            # Servers may have unlisted tools; a handler may still hide one.
            await self._provide((ToolSpec(name=name),))
            self.specs[name] = ToolSpec(name=name)
        elif (hidden := self._hidden.get(name)) is not None:
            # A person may have accepted a hidden tool since then.
            await self._provide((hidden,))
        return self._advertised

    async def _wait_for_list(self, call: ProxiedCall, ask: AskList) -> None:
        """Fetch the list for one call; other calls wait, and continue in order."""
        self._waiting += 1
        try:
            async with self._lock.current():
                if not self._complete:
                    await self._list(call, ask)
        finally:
            self._waiting -= 1

    async def _list(self, call: ProxiedCall, ask: AskList) -> None:
        """Fetch all pages of the list, with the metadata of *call*."""
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
        """Process one page of the list; return it as changed by handlers, or itself."""
        final = not body.get("nextCursor")
        if first:
            self.specs, self._advertised, self._hidden = {}, AdvertisedTools(()), {}
            self.clashes = {}
        tools = self._without_clashes(body.get("tools"))
        server_specs = _specs_of(tools)
        self.specs |= {spec.name: _with_valid_schemas(spec) for spec in server_specs}
        own_specs = self._unlisted() if final else []
        before = (*server_specs, *own_specs)
        context = await self._provide(before)
        if final:
            self._complete = self.listed = True
        after = () if context.denied else context.value
        self._note_hidden(before, after)
        if after is before and not own_specs and not self.clashes:
            return body
        listed, unknown = _rebuild_list([*tools, *map(_listing_of, own_specs)], before, after)
        for name in unknown:
            logger.warning("left out the tool %r of a handler: no tool has this name", name)
        return {**body, "tools": listed}

    def _without_clashes(self, listed: Any) -> list[Any]:
        """Return the tools in *listed*, except for the tools of components as well."""
        tools = listed if isinstance(listed, list) else []
        for name in sorted({_member(tool, "name", str, "") for tool in tools}):
            if self._of_components.get(name) is not None:
                self.clashes[name] = _CLASH.format(name)
                logger.warning(self.clashes[name])
        return [tool for tool in tools if _member(tool, "name", str, "") not in self.clashes]

    def _note_hidden(self, before: Sequence[ToolSpec], after: Iterable[ToolSpec]) -> None:
        """Remember hidden tools, except for tools with the same name, which are ambiguous."""
        shown, names = {spec.name for spec in after}, Counter(spec.name for spec in before)
        self._hidden |= {
            spec.name: spec for spec in before if spec.name not in shown and names[spec.name] == 1
        }

    def _unlisted(self) -> list[ToolSpec]:
        taken = self.specs.keys() | self.clashes.keys()
        return [spec for spec in self._of_components.specs if spec.name not in taken]

    async def _provide(self, specs: tuple[ToolSpec, ...]) -> Any:
        context = await self._bus.apply(TOOLS_PROVIDE, specs, scope=self._scope)
        self._advertised = self._advertised.joined(AdvertisedTools.of(context))
        return context


def _specs_of(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """Return the specs of *tools*, JSON objects with a name; raises `FreezeError`."""
    return tuple([_spec(tool) for tool in tools if _member(tool, "name", str, None) is not None])


def _spec(tool: dict[str, Any]) -> ToolSpec:
    annotations = _member(tool, "annotations", dict, EMPTY)
    if title := _member(tool, "title", str, ""):
        # Handlers read the title there, as in older servers: MCP 2025-11-25, schema, Tool.
        annotations = {**annotations, "title": title}
    if members := further_members(tool):
        annotations = {**annotations, MEMBERS: members}
    return ToolSpec(
        name=tool["name"],
        description=_member(tool, "description", str, ""),
        input_schema=_member(tool, "inputSchema", dict, {"type": "object"}),
        output_schema=_member(tool, "outputSchema", dict, None),
        annotations=annotations,
    )


def _with_valid_schemas(spec: ToolSpec) -> ToolSpec:
    """Return *spec* without its invalid schemas."""
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
    """Return *tools* with the changes of handlers, and the names of specs without a tool.

    Members of a tool that a spec does not have, such as icons, are kept.
    """
    originals = {spec.name: spec for spec in before}
    known = {_member(tool, "name", str, None): tool for tool in tools}
    unknown = tuple([spec.name for spec in after if spec.name not in originals])
    listed = [
        _with_changes(known[spec.name], originals[spec.name], spec)
        for spec in after
        if spec.name in originals
    ]
    return listed, unknown


def _listing_of(spec: ToolSpec) -> dict[str, Any]:
    """Return the list item of a component's tool."""
    return _with_changes({"name": spec.name}, ToolSpec(name=spec.name, input_schema=EMPTY), spec)


def _with_changes(tool: dict[str, Any], before: ToolSpec, after: ToolSpec) -> dict[str, Any]:
    changed = {
        member: thaw(getattr(after, field))
        for field, member in _MEMBERS.items()
        if getattr(after, field) != getattr(before, field)
    }
    changed.get("annotations", {}).pop(MEMBERS, None)
    new = {**tool, **changed}
    return {name: value for name, value in new.items() if name not in changed or value is not None}


def _member(item: Any, name: str, kind: type, default: Any) -> Any:
    value = item.get(name) if isinstance(item, dict) else None
    return value if isinstance(value, kind) else default
