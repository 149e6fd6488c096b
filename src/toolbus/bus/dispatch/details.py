"""The facts of a dispatch besides its value: a tool, a check, an answer, verdicts, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from toolbus.bus.ledger.records import HandlerStatus
from toolbus.events.catalogue import Ask, Deny, ToolSpec


class AnswerWindow:
    """The part of a model's answer so far, as the earlier handlers released it.

    A handler with `incremental=True` gets one each time that *text* has grown, and runs once more
    without one when the answer is complete. *kind* is "text" or "reasoning"; *released* is the
    handler's own output so far, which is shown already or will be.
    """

    __slots__ = ("kind", "output", "released", "text")

    def __init__(
        self, text: str, *, kind: Literal["text", "reasoning"] = "text", released: str = ""
    ) -> None:
        self.text, self.kind, self.released = text, kind, released
        self.output = released

    def release(self, output: str) -> None:
        """Release *output*, the final beginning of this handler's output, however the text goes on.

        It must begin with *released*, and for a guard be a beginning of *text*. The rest is held
        back; without this call nothing more is released.
        """
        self.output = output


class Rejected(Exception):
    """A dispatch's check refused *handler*'s result; it ends the dispatch, whatever the policy."""

    def __init__(self, handler: str, reason: str) -> None:
        self.handler, self.reason = handler, reason
        super().__init__(handler, reason)


class HandlerStep(Struct, eq=False):
    """The effect on the value of one step, such as an adapter, of a handler with several.

    *tool* is the spec before it, *detail* explains a *failed* step to operators.
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
    """The work of *name*, a part of a handler such as a rule of a policy, in one turn."""

    name: str
    status: HandlerStatus
    reason: str | None = None


class Details(Struct, frozen=True):
    """The facts that few dispatches have: a tool, a check, an answer, verdicts, steps.

    *asks* has the questions so far with the names of their guards, *steps* the steps of the
    handlers before, *turn_steps* a mutable list of the current handler's, from its first step on,
    *notes* its notes. A *window* exists in mid-answer, a *trace* under a tap.
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
        """Whether no further handler runs at all."""
        return self.denied is not None or self.rejected is not None

    def spec_after(self, actor: object, value: object, tool: ToolSpec | None) -> ToolSpec | None:
        """Return the current spec after a step: *tool*, or the spec that *actor* received."""
        return (self.signatures(actor, value) if self.signatures else tool) or self.tool


NO_DETAILS = Details()
