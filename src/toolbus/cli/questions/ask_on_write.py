"""Which calls a person is asked about before their tool runs."""

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
    """Asks about each call of a tool that is not known to only read.

    That a tool only reads counts if it stands in our process, by the choice of the person; what
    the servers behind *strangers* say of their tools does not. Nor is a call asked about that one
    of *judges*, components of the person's own, allows.
    """

    def __init__(
        self, strangers: Sequence[Toolset] = (), judges: Sequence[CallAllower] = ()
    ) -> None:
        super().__init__()
        self._strangers, self._judges = tuple(strangers), tuple(judges)

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    async def ask(self, ctx: EventContext[ToolCall]) -> Ask | None:
        """Ask, unless the tool only reads, or a rule allows the call."""
        if self._only_reads(ctx):
            return None
        for judge in self._judges:
            if await judge.allows(ctx):
                return None
        return Ask(NOT_READ_ONLY)

    def _only_reads(self, ctx: EventContext[ToolCall]) -> bool:
        name, spec = ctx.value.name, ctx.tool
        is_strange = any(tools.get(name) is not None for tools in self._strangers)
        # A handler may have put another tool in place of the one whose spec this is.
        if spec is None or spec.name != name or is_strange:
            return False
        return spec.annotations.get("readOnlyHint") is True
