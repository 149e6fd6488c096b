"""The effect of a handler's result on the dispatch.

The loop calls this for the rare handler that returned a result or wrote into its context.
"""

from __future__ import annotations

from operator import attrgetter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.bus.dispatch.contexts import SKIPPED, Failed, next_context
from toolbus.bus.dispatch.details import NO_DETAILS, Rejected
from toolbus.bus.dispatch.failures import (
    detail_of,
    explain,
    log_denial,
    log_failure,
    passes,
    root_of,
)
from toolbus.bus.ledger.records import NO_CAUSE, Cause
from toolbus.errors import HandlerContractError, HandlerError
from toolbus.events.catalogue import Ask, Deny
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.ledger.records import HandlerStatus
    from toolbus.events.catalogue import TransformEvent

IDENTITIES: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((SystemMessage, UserMessage, AssistantMessage, ToolCall), ("id",)),
    ToolMessage: ("id", "tool_call_id"),
}
"""The fields of a record that a handler must keep, besides its role."""


class HandlerTurn:
    """The turn of *binding*, and its entry in the dispatch's trace, if there is one."""

    __slots__ = ("binding", "context", "details")

    def __init__(self, binding: Binding, context: EventContext[Any], details: Details) -> None:
        self.binding, self.context, self.details = binding, context, details

    def note(
        self,
        status: HandlerStatus,
        reason: str | None = None,
        *,
        detail: str | None = None,
        change: tuple[object, object] | None = None,
    ) -> None:
        """Add an entry to the trace, if there is one."""
        if (trace := self.details.trace) is not None:
            cause = Cause(reason, detail) if reason or detail else NO_CAUSE
            steps, notes = self.details.turn_steps or (), self.details.notes
            trace.add(
                self.binding,
                status,
                cause=cause,
                change=change,
                steps=steps,
                notes=notes() if notes else (),
            )

    def adopt_result(
        self, status: HandlerStatus, result: object = None, *, answer: object = None
    ) -> EventContext[Any]:
        """Adopt the handler's result; return the context of the next handler."""
        context, details = self.context, self.details
        if details.trace is not None:
            made = result if answer is None else answer
            self.note(status, change=None if made is None else (context._value, made))
        if answer is not None or details.turn_steps or details.notes:
            answer = details.answer if answer is None else answer
            steps = (*details.steps, *(details.turn_steps or ()))
            details = replace(details, answer=answer, steps=steps, turn_steps=None, notes=None)
        return next_context(context, context._value if result is None else result, details)

    def discard_result(
        self,
        *,
        denied: Deny | None = None,
        rejected: Rejected | None = None,
        asks: tuple[tuple[str, Ask], ...] = (),
    ) -> EventContext[Any]:
        """Discard all but the handler's verdict; return the context of the next handler."""
        details = self.details
        # The spec before this handler's steps is valid again.
        tool = details.turn_steps[0].tool if details.turn_steps else details.tool
        asks = details.asks + asks
        details = replace(
            details,
            denied=denied,
            rejected=rejected,
            asks=asks,
            tool=tool,
            turn_steps=None,
            notes=None,
        )
        return next_context(self.context, self.context._value, details)


class TransformResult:
    """Applies the results of handlers of one transform event."""

    __slots__ = ("_dry_run", "_event", "_identities")

    def __init__(self, event: TransformEvent[Any, Any], *, dry_run: bool) -> None:
        self._event, self._dry_run = event, dry_run
        # A replacement of these types is never a verdict or an answer, and has an identity.
        self._identities = {
            record: attrgetter(*fields)
            for record, fields in IDENTITIES.items()
            if event.takes(record) and not issubclass(record, event.answer)
        }

    def apply_result(
        self, binding: Binding, context: EventContext[Any], result: Any
    ) -> EventContext[Any]:
        """Return the context for the next handler, after *result* of this one.

        Raises the errors that the handler's policy lets pass.
        """
        before, details = context._value, context._details or NO_DETAILS
        identity = self._identities.get(type(result))
        if (
            identity is None
            or binding.kind == "guard"
            or type(before) is not type(result)
            or result is before
            or identity(result) != identity(before)
            or details.check
            or details.turn_steps
        ):
            return self._apply_verdict(binding, context, result)
        # The most frequent change, at a fifth of the cost: a record with the same identity.
        if details.trace is not None:
            details.trace.add(binding, "changed", change=(before, result))
        return next_context(context, result, context._details)

    def _apply_verdict(
        self, binding: Binding, context: EventContext[Any], result: Any
    ) -> EventContext[Any]:
        """Return the context after the result of a guard, or a rare result."""
        details = context._details
        turn = HandlerTurn(binding, context, details or NO_DETAILS)
        if result is SKIPPED:
            turn.note("skipped")
            return turn.discard_result()
        if type(result) is Failed:
            return self._fail(turn, result.error)
        if result is None and context._assigned is not None:
            result = context._assigned.value
        try:
            return self._apply(turn, result)
        except Exception as error:  # noqa: BLE001 - a failed check is the handler's failure
            return self._fail(turn, error)

    def _apply(self, turn: HandlerTurn, result: Any) -> EventContext[Any]:
        """Apply the handler's *result*."""
        if (rejected := turn.details.rejected) is not None:
            return self._reject(turn, rejected)  # The handler caught the rejection.
        if result is None or result is turn.context._value:
            return turn.adopt_result("ran")
        if isinstance(result, Deny):
            return self._denied(turn, result)
        if isinstance(result, CoroutineType):
            result.close()
            return self._reject_result(turn, "returned a coroutine; declare it with `async def`")
        if turn.binding.kind == "guard":
            return self._ask(turn, result)
        if isinstance(result, Ask):
            problem = "asked, which only a guard may; subscribe it with `guard`"
            return self._reject_result(turn, problem)
        if self._event.answer and isinstance(result, self._event.answer):
            return turn.adopt_result("answered", answer=result)
        return self._adopt(turn, result)

    def _adopt(self, turn: HandlerTurn, result: Any) -> EventContext[Any]:
        """Adopt a replacement of the value, if it is valid."""
        before, check, steps = turn.context._value, turn.details.check, turn.details.turn_steps
        if problem := value_problem(self._event, result):
            return self._reject_result(turn, problem)
        if problem := identity_problem(before, result):
            raise self._breach(turn, problem)
        judged = steps and steps[-1].after is result
        if check is not None and not judged and (reason := check(turn.context, result)):
            return self._reject(turn, Rejected(turn.binding.name, reason), (before, result))
        return turn.adopt_result("changed", result)

    def _ask(self, turn: HandlerTurn, result: Any) -> EventContext[Any]:
        """Apply a guard's result other than a denial."""
        if not isinstance(result, Ask):
            problem = f"returned {kind(result)}; a guard returns Deny, Ask or None"
            return self._reject_result(turn, problem)
        if not self._event.asks:
            name, prompt = turn.binding.name, result.prompt
            reason = f"guard {name!r} asked, and no person can be asked at {self._event.name!r}"
            return self._denied(turn, Deny(reason, prompt))
        turn.note("asked", result.prompt)
        return turn.discard_result(asks=() if self._dry_run else ((turn.binding.name, result),))

    def _reject(
        self, turn: HandlerTurn, rejected: Rejected, change: tuple[object, object] | None = None
    ) -> EventContext[Any]:
        turn.note("rejected", rejected.reason, change=change)
        return turn.discard_result(rejected=rejected)

    def _denied(self, turn: HandlerTurn, verdict: Deny) -> EventContext[Any]:
        """Apply a handler's denial."""
        # The error of a failed adapter may quote the value, and the log already has a short form.
        known = [step.detail for step in turn.details.turn_steps or ()]
        if verdict.detail is not None and verdict.detail not in known:
            log_denial(self._event.name, turn.binding.name, verdict.reason, verdict.detail)
        return self._deny(turn, verdict, "denied")

    def _deny(self, turn: HandlerTurn, verdict: Deny, status: HandlerStatus) -> EventContext[Any]:
        turn.note(status, verdict.reason, detail=verdict.detail)
        return turn.discard_result(denied=None if self._dry_run else verdict)

    def _reject_result(self, turn: HandlerTurn, problem: str) -> EventContext[Any]:
        """Treat a result of an impossible type: as a breach of contract, or as a failure."""
        error = self._breach(turn, problem)
        asked_to_raise = turn.binding.kind == "guard" and turn.binding.policy == "raise"
        if asked_to_raise or not self._event.strict:
            raise error
        return self._fail_closed(turn, error, "contract", problem)

    def _fail(self, turn: HandlerTurn, error: BaseException) -> EventContext[Any]:
        """Apply the handler's policy to its *error*."""
        if (rejected := turn.details.rejected) is not None and isinstance(error, Exception):
            return self._reject(turn, rejected)
        event, binding = self._event.name, turn.binding
        status, reason = explain(event, binding.name, error)
        if binding.policy == "closed" and not passes(error):
            return self._fail_closed(turn, error, status, reason)
        turn.note(status, reason, detail=detail_of(error))
        if passes(error) or (binding.policy == "raise" and status == "contract"):
            raise error
        if binding.policy == "raise":
            raise HandlerError(event, binding.name, reason) from root_of(error)
        log_failure(event, binding.name, error, reason)
        return turn.discard_result()

    def _fail_closed(
        self, turn: HandlerTurn, error: BaseException, status: HandlerStatus, reason: str
    ) -> EventContext[Any]:
        binding = turn.binding
        log_failure(self._event.name, binding.name, error, reason)
        verdict = Deny(f"{binding.kind} {binding.name!r} {reason}", detail_of(error))
        return self._deny(turn, verdict, status)

    def _breach(self, turn: HandlerTurn, problem: str) -> HandlerContractError:
        return HandlerContractError(self._event.name, turn.binding.name, problem)


def value_problem(event: TransformEvent[Any, Any], after: object) -> str | None:
    """Return the problem of *after*, a result that is not a value of *event*, or None."""
    return (
        None if event.accepts(after) else f"returned {kind(after)}, which the event does not take"
    )


def kind(result: object) -> str:
    """Return a description of *result* by its class."""
    if isinstance(result, type):  # Its parentheses were probably forgotten.
        return f"the class `{result.__name__}`"
    return f"`{type(result).__name__}`"


def identity_problem(before: Any, after: Any) -> str | None:
    """Return the problem of *after*, a replacement with a changed identity, or None."""
    fields = IDENTITIES.get(type(before), ())
    if fields and type(after) is not type(before):
        fields = ("role", *fields)
    for field in fields:
        # An event may also take values other than messages, without the field.
        old, new = getattr(before, field, None), getattr(after, field, None)
        if new is not old and new != old:
            return f"changed the {field}"
    return None
