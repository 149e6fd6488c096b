"""Which calls a person is asked about before their tool runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.messages.records import ToolCall
    from toolbus.tools.toolset import Toolset

NOT_READ_ONLY = "it may change something"


class AskFirst(AgentComponent):
    """Asks about each call of a tool that is not known to only read.

    That a tool only reads counts if it stands in our process, by the choice of the person; what
    the servers behind *strangers* say of their tools does not.
    """

    def __init__(self, strangers: Sequence[Toolset] = ()) -> None:
        super().__init__()
        self._strangers = tuple(strangers)

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    def ask(self, ctx: EventContext[ToolCall]) -> Ask | None:
        """Ask, unless the tool only reads."""
        name, spec = ctx.value.name, ctx.tool
        is_strange = any(tools.get(name) is not None for tools in self._strangers)
        # A handler may have put another tool in place of the one whose spec this is.
        if spec is None or spec.name != name or is_strange:
            return Ask(NOT_READ_ONLY)
        return None if spec.annotations.get("readOnlyHint") is True else Ask(NOT_READ_ONLY)
