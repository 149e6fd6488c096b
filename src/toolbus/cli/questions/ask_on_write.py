"""A guard that asks for approval of calls that may change something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.capabilities import CallAllower
    from toolbus.messages.records import ToolCall
    from toolbus.tools.toolset import Toolset

NOT_READ_ONLY = "it may change something"


class AskOnWrite(AgentComponent):
    """Asks for approval of each call of a tool that is not marked as read-only.

    The mark counts for tools of this process, but not for the tools of *strangers*, whose servers
    set it themselves. A call that one of *judges*, the person's own components, allows needs no
    approval.
    """

    def __init__(
        self, strangers: Sequence[Toolset] = (), judges: Sequence[CallAllower] = ()
    ) -> None:
        super().__init__()
        self._strangers, self._judges = tuple(strangers), tuple(judges)

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    async def ask(self, ctx: EventContext[ToolCall]) -> Ask | None:
        """Ask, unless the tool is read-only or a rule allows the call."""
        if self._only_reads(ctx):
            return None
        for judge in self._judges:
            if await judge.allows(ctx):
                return None
        return Ask(NOT_READ_ONLY)

    def _only_reads(self, ctx: EventContext[ToolCall]) -> bool:
        name, spec = ctx.value.name, ctx.tool
        is_strange = any(tools.get(name) is not None for tools in self._strangers)
        # A handler may have replaced the tool of this spec by another one.
        if spec is None or spec.name != name or is_strange:
            return False
        return spec.annotations.get("readOnlyHint") is True
