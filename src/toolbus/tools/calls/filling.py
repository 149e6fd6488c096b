"""The last step before a tool runs: what its arguments hold that nobody else may see.

When transformers and guards have spoken and a person was asked, fillers put into the final
arguments what only the tool gets. The tool's arguments are validated after that. The call that
handlers, observers, the ledger, a person and the stored copy see stays as it was. Where a person
may answer later, they are filled before the question as well, to note which arguments that
concerns; what was put in is thrown away then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from toolbus.events.catalogue import Deny

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.tools.calls.advertised import ArgumentsCheck


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


async def fill(
    fillers: Sequence[ArgumentsFiller], call: ToolCall, scope: Scope, spec: ToolSpec
) -> ToolCall | Deny:
    """Return *call* as *fillers*, one after the other, fill it, or why one refuses."""
    for filler in fillers:
        filled = await filler.fill(call, scope, spec)
        if isinstance(filled, Deny):
            return filled
        call = filled
    return call


def fit_filled(
    check: ArgumentsCheck, filled: ToolCall, call: ToolCall
) -> tuple[dict[str, Any], str | None]:
    """Return the arguments of *filled*, which *call* was, as its tool takes them, or why not."""
    values, problem = check.fit(filled)
    if problem is not None and filled is not call:
        # It may quote what was filled in.
        problem = check.fit(call)[1] or "they do not fit with what was filled in"
    return values, problem
