"""The arguments of calls: the specs that apply to them, their check, and their filling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from toolbus.messages import schemas
from toolbus.tools.lenient import PLAIN, converted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Deny, Scope, ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.tools.definitions import Tool
    from toolbus.tools.toolset import Toolset


class AdvertisedTools:
    """The specs that a model got in one turn; without specs: no tools."""

    def __init__(
        self,
        specs: Sequence[ToolSpec],
        by_adapter: Mapping[object, Mapping[str, ToolSpec]] | None = None,
    ) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self._by_adapter = by_adapter or {}

    @classmethod
    def of(cls, context: EventContext[tuple[ToolSpec, ...]]) -> AdvertisedTools:
        """Return the result of a dispatch of `TOOLS_PROVIDE`; a denial leaves no tools."""
        by_adapter = {
            step.actor: {spec.name: spec for spec in step.before}
            for step in context.steps
            if isinstance(step.before, tuple)
        }
        return cls(() if context.denied else context.value, by_adapter)

    def joined(self, other: AdvertisedTools) -> AdvertisedTools:
        """Return these specs and those of *other*, for specs that come in several pages."""
        by_adapter = {
            actor: {**self._by_adapter.get(actor, {}), **other._by_adapter.get(actor, {})}
            for actor in (*self._by_adapter, *other._by_adapter)
        }
        return AdvertisedTools((*self.specs.values(), *other.specs.values()), by_adapter)

    def spec_for(self, actor: object, call: ToolCall) -> ToolSpec | None:
        """Return the spec that *actor*, an adapter, received for the tool of *call*, or None."""
        return self._by_adapter.get(actor, {}).get(call.name)


class ArgumentsFiller:
    """An actor of a step in a dispatch of `TOOL_CALL_BEFORE` that may fill the arguments later.

    It adds the values for the tool alone: after the guards and a person, before the validation.
    The call stays as it was for handlers, observers, the ledger, a person and the stored copy.
    A filler without *fills* leaves the arguments of every call as they are.
    """

    __slots__ = ("fills",)
    fills: bool

    async def fill(self, call: ToolCall, scope: Scope, spec: ToolSpec) -> ToolCall | Deny:
        """Return *call* as the tool of *spec* gets it, or a denial."""
        raise NotImplementedError


def fitted(tool: Tool | None, call: ToolCall) -> tuple[dict[str, Any], str | None]:
    """Return the arguments of *call* as *tool* takes them, and the problem if they do not fit."""
    if call.raw is not None:
        return {}, "expected a JSON object - at `$`"
    return ({}, None) if tool is None else tool.fit(call.arguments)


class ArgumentsCheck:
    """Judges rewritten calls: a handler is to blame if it makes fitting arguments unfitting.

    Arguments fit if they match the spec of that depth, or the tool's own.
    """

    def __init__(self, toolset: Toolset) -> None:
        self._toolset = toolset

    def __call__(self, turn: EventContext[ToolCall], after: ToolCall) -> str | None:
        """Return the reason why *after* is refused, or None."""
        problem = self.problem(after, turn.tool)
        if problem is None:
            return None
        before, outer = turn.value, turn.tool
        if turn.steps and turn.steps[-1].after is after:
            before, outer = cast("ToolCall", turn.steps[-1].before), turn.steps[-1].tool
        return None if self.problem(before, outer) else problem

    def converted(self, call: ToolCall, spec: ToolSpec | None = None) -> ToolCall:
        """Return *call* with texts converted to values; the same object if there are none.

        *spec* is the caller's spec of the tool. Handlers judge the arguments of the tool.
        """
        # Without a text, or a member that may hold one, there is nothing to convert.
        if PLAIN.issuperset(map(type, call.arguments.values())) or call.raw is not None:
            return call
        tool = self._toolset.get(call.name)
        if tool is None or not tool.lenient:
            return call
        arguments = converted(call.arguments, (spec or tool.spec).input_schema)
        # Arguments valid by the tool's own types are left alone, whatever a schema says.
        if arguments is call.arguments or self.problem(call, spec) is None:
            return call
        return call.with_arguments(arguments)

    def problem(self, call: ToolCall, spec: ToolSpec | None = None) -> str | None:
        """Return the problem if the arguments of *call* fit neither its tool nor *spec*."""
        _, problem = fitted(self._toolset.get(call.name), call)
        if problem is None or call.raw is not None or spec is None or spec.name != call.name:
            return problem
        return problem if schemas.problem(spec.input_schema, call.arguments) else None
