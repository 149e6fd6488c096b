"""The facts of a dispatch besides its value: a tool, a check, an answer, verdicts, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from toolbus.bus.ledger.records import HandlerStatus
from toolbus.events.catalogue import Ask, Deny, ToolSpec


class AnswerWindow:
    """What a model has said so far of an answer, as the handlers before released it.

    A handler with `incremental=True` is called with one each time that *text* has grown, and once
    more without, when the answer is whole. *kind* is "text" or "reasoning", *released* what the
    handler released before, as its own output: it is shown, or will be.
    """

    __slots__ = ("kind", "output", "released", "text")

    def __init__(
        self, text: str, *, kind: Literal["text", "reasoning"] = "text", released: str = ""
    ) -> None:
        self.text, self.kind, self.released = text, kind, released
        self.output = released

    def release(self, output: str) -> None:
        """Say that *output* is the beginning of what becomes of the text, whatever comes yet.

        It begins with what was *released*; of a guard it is a beginning of *text*. What is not
        released waits; without a word nothing more is.
        """
        self.output = output


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


class PartNote(Struct, frozen=True):
    """What *name*, a part of a handler such as a rule of a policy, did in one turn, and why."""

    name: str
    status: HandlerStatus
    reason: str | None = None


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
