"""The last step before a tool runs: what its arguments hold that nobody else may see.

When transformers and guards have spoken and a person was asked, fillers put into the final
arguments what only the tool gets. The tool's arguments are validated after that. The call that
handlers, observers, the ledger, a person and the stored copy see stays as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Deny, Scope, ToolSpec
    from toolbus.messages.records import ToolCall


class ArgumentsFiller(ABC):
    """Who takes a step in a dispatch of `TOOL_CALL_BEFORE`, and may fill the arguments later."""

    __slots__ = ()

    @property
    @abstractmethod
    def fills(self) -> bool:
        """Whether it has anything to do with the arguments of a final call."""

    @abstractmethod
    async def fill(self, call: ToolCall, scope: Scope, spec: ToolSpec) -> ToolCall | Deny:
        """Return *call* as the tool of *spec* gets it, or why it gets nothing."""


def fillers_of(context: EventContext[ToolCall]) -> tuple[ArgumentsFiller, ...]:
    """Return who fills the arguments of the call that a dispatch left, in the order of its steps.

    They were concerned with the call in that dispatch: so senders, predicates and switches hold
    for them as for every handler.
    """
    actors = [step.actor for step in context.steps]
    return tuple([actor for actor in actors if isinstance(actor, ArgumentsFiller) and actor.fills])
