"""What a dispatch may have besides its value: steps, verdicts, what a handler left to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from toolbus.bus.dispatch.windows import AnswerWindow
from toolbus.events.catalogue import Ask, Deny, ToolSpec

if TYPE_CHECKING:
    from toolbus.bus.ledger.records import HandlerStatus


class Rejected(Exception):
    """A dispatch's check refused what *handler* left; it ends the dispatch, whatever the policy."""

    def __init__(self, handler: str, reason: str) -> None:
        self.handler, self.reason = handler, reason
        super().__init__(handler, reason)


class HandlerStep(Struct, eq=False):
    """What one of several steps of a handler, an adapter, did to the value.

    *tool* is the spec that was in force before it, *detail* tells operators why it *failed*.
    """

    name: str
    before: Any
    after: Any
    actor: object
    failed: str | None
    tool: ToolSpec | None
    ended_ns: int
    detail: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it left the value as it was, and did not fail."""
        return self.after is self.before and self.failed is None


class PartNote(NamedTuple):
    """What *name*, a part of a handler such as a rule of a policy, did in one turn, and why."""

    name: str
    status: HandlerStatus
    reason: str | None = None


class Assigned:
    """What a handler left in `ctx.output`, in a box that is no handler's result."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Details(Struct, frozen=True):
    """What few dispatches have: a tool, a check, an answer, verdicts, steps.

    *asks* are the questions so far and the names of their guards, *steps* those of the handlers
    before, *turn_steps* those of the handler that has its turn: a list of its own, from the first
    step on; *notes* tell what its parts did. A *window* is there in mid-answer, a
    *trace* under a tap.
    """

    tool: ToolSpec | None = None
    check: Callable[[Any, Any], str | None] | None = None
    signatures: Callable[[object, Any], ToolSpec | None] | None = None
    answer: Any = None
    denied: Deny | None = None
    asks: tuple[tuple[str, Ask], ...] = ()
    rejected: Rejected | None = None
    steps: tuple[HandlerStep, ...] = ()
    turn_steps: list[HandlerStep] | None = None
    notes: Callable[[], Iterable[PartNote]] | None = None
    window: AnswerWindow | None = None
    trace: Any = None

    @property
    def closed(self) -> bool:
        """Whether no other handler runs at all."""
        return self.denied is not None or self.rejected is not None

    def spec_after(self, actor: object, value: object, tool: ToolSpec | None) -> ToolSpec | None:
        """Return the spec in force after a step: *tool*, or the one that *actor* was given."""
        return (self.signatures(actor, value) if self.signatures else tool) or self.tool


NO_DETAILS = Details()

# What stands for an output when there is something else to look at, or when nobody looks any more.
STEPPED, OVER = Assigned(None), Assigned(None)


class Failed:
    """Stands for the result of a handler, or of its predicate, that raised *error*."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


SKIPPED: Any = object()
"""Stands for the result of a handler whose predicate said no."""

QUEUED: Any = object()
"""Stands for the result of an async observer that will have its turn later."""
