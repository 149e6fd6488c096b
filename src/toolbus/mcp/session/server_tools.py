"""A server's tools: as specs for handlers, back in its list, and as what one call may find."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from toolbus.events.call_values import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, thaw
from toolbus.messages.records import encode
from toolbus.tools.definitions import Tool
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from toolbus.mcp.session.calls import ProxiedCall
    from toolbus.messages.records import JsonObject, ToolResponse
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.contexts import ToolContext

_MEMBERS = {
    "description": "description",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "annotations": "annotations",
}


def specs_of(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
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


def sound(spec: ToolSpec) -> ToolSpec:
    """Return *spec* without the schemas that nothing can be checked against."""
    output, takes = spec.output_schema, spec.input_schema
    return ToolSpec(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object"} if schemas.check_schema(takes) else takes,
        output_schema=None if output is None or schemas.check_schema(output) else output,
        annotations=spec.annotations,
    )


def rebuild_list(
    tools: list[Any], before: Iterable[ToolSpec], after: Iterable[ToolSpec]
) -> tuple[list[Any], tuple[str, ...]]:
    """Return *tools* as handlers left their specs, and the names of specs that are no tool's.

    What a spec does not say of a tool, its title or its icons, stays.
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


def listing_of(spec: ToolSpec) -> dict[str, Any]:
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


class ServerTool(Tool):
    """A tool of the server, for one call."""

    lenient = False  # The client's own arguments the server judges.
    is_async = True

    def __init__(self, spec: ToolSpec, offered: ToolSpec | None, call: ProxiedCall) -> None:
        # Not found by looking at `run`: there is one of these for each call.
        self.spec, self._offered, self._call = spec, offered or spec, call
        self.timeout = call.timeout
        self.idempotent = spec.annotations.get("idempotentHint") is True

    async def run(self, arguments: JsonObject) -> ToolResponse:
        """Let the server run it."""
        request = self._call.request
        original = request.call.arguments
        # Not `==`, by which 1 is True. What was approved is compared with the line itself: a
        # handler may have changed the original in place.
        if arguments is not original and encode(arguments) == encode(request.sent_arguments):
            arguments = original
        return await self._call.run(self.spec.name, arguments)

    def bind(
        self,
        values: Mapping[str, Any],
        context: Callable[[], ToolContext],  # noqa: ARG002 - as `Tool.bind`
    ) -> Callable[[], Any]:
        """Return `run`, ready with *values*; the server has no use for *context*."""
        return partial(self.run, **values)

    def fit(self, arguments: JsonObject) -> tuple[dict[str, Any], str | None]:
        """Return *arguments*, and what a handler broke; the client's own the server judges."""
        original, values = self._call.request.call.arguments, {"arguments": arguments}
        if arguments is original or not self._fits(original):
            return values, None
        return values, schemas.problem(self.spec.input_schema, arguments)

    def _fits(self, arguments: JsonObject) -> bool:
        specs = (self.spec, self._offered)
        return any(schemas.problem(spec.input_schema, arguments) is None for spec in specs)


class ServerTools(Toolset):
    """The tools that a call may find: the server's, and those *of_components*.

    *specs* gives what the server's list says now: a call that waited finds what a tool became
    meanwhile. What the list has no more, it finds as it was.
    """

    def __init__(
        self,
        specs: Callable[[], dict[str, ToolSpec]],
        advertised: AdvertisedTools,
        call: ProxiedCall,
        of_components: Toolset,
    ) -> None:
        super().__init__()
        self._specs, self._latest = specs(), specs
        self._advertised, self._call = advertised, call
        self._components = of_components
        self._made: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[Tool]:
        names = [*self._specs, *[tool.spec.name for tool in self._components]]
        return iter([tool for name in dict.fromkeys(names) if (tool := self.get(name)) is not None])

    def get(self, name: str) -> Tool | None:
        """Return the tool *name*, or None; the server's hides one of a component."""
        tool, spec = self._made.get(name), self._latest().get(name) or self._specs.get(name)
        if spec is None:
            return self._components.get(name)
        if tool is None or tool.spec is not spec:
            # Asked for several times in a call.
            tool = self._made[name] = ServerTool(spec, self._advertised.specs.get(name), self._call)
        return tool
