"""What becomes of what a handler gave: the rare part of a turn, which the loop calls.

The loop itself sees to a handler that returned None and wrote nothing, which most do.
"""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.bus.dispatch.contexts import following
from toolbus.bus.dispatch.details import NO_DETAILS, SKIPPED, STEPPED, Failed, Rejected
from toolbus.bus.dispatch.failures import (
    detail_of,
    explain,
    log_denial,
    log_failure,
    passes,
    root_of,
)
from toolbus.bus.dispatch.replacements import foreign, kind, mismatch
from toolbus.bus.ledger.tracing import NO_WHY, Why
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
    from collections.abc import Callable

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.ledger.records import HandlerStatus
    from toolbus.bus.ledger.tracing import Trace
    from toolbus.events.catalogue import TransformEvent

_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


class Turn(NamedTuple):
    """The turn of *binding*; *trace* (None: there is none) is told what became of it."""

    binding: Binding
    context: EventContext[Any]
    trace: Trace | None
    since: int

    @property
    def details(self) -> Details:
        """What there is besides the value."""
        return self.context._more or NO_DETAILS

    def note(
        self,
        status: HandlerStatus,
        reason: str | None = None,
        *,
        detail: str | None = None,
        change: tuple[object, object] | None = None,
    ) -> None:
        """Tell the trace, if there is one."""
        if self.trace is None:
            return
        why = Why(reason, detail)
        if steps := self.details.own:
            self.trace.add_steps(self.binding, steps, status, self.since, why, change=change)
        else:
            self.trace.add(self.binding, status, self.since, why=why, change=change)

    def keep(
        self, status: HandlerStatus, result: object = None, *, answer: object = None
    ) -> EventContext[Any]:
        """Adopt what the handler left; return the context of the next one."""
        context, more = self.context, self.context._more
        if self.trace is not None:
            made = result if answer is None else answer
            self.note(status, change=None if made is None else (context._value, made))
        if answer is not None or (more is not None and more.own):
            more = more or NO_DETAILS
            given = more.answer if answer is None else answer
            more = replace(more, answer=given, steps=(*more.steps, *(more.own or ())), own=None)
        if result is None:
            return following(context, context._value, context._output, more)
        return following(context, result, result, more)

    def next(
        self,
        *,
        denied: Deny | None = None,
        rejected: Rejected | None = None,
        asks: tuple[str, ...] = (),
    ) -> EventContext[Any]:
        """Drop what the handler left but for its verdict; return the context of the next one."""
        context, more = self.context, self.context._more
        if denied or rejected or asks or (more is not None and more.own):
            more = more or NO_DETAILS
            tool = more.own[0].tool if more.own else more.tool
            asks = more.asks + asks
            more = replace(more, denied=denied, rejected=rejected, asks=asks, tool=tool, own=None)
        return following(context, context._value, context._output, more)


class Settling:
    """Does what the handlers of one transform event said."""

    __slots__ = ("_dry_run", "_event", "_plain")

    def __init__(self, event: TransformEvent[Any, Any], *, dry_run: bool) -> None:
        self._event, self._dry_run = event, dry_run
        # Of these types a replacement is neither a verdict nor an answer, and has an identity.
        self._plain = {
            kind
            for kind in (*_MESSAGES, ToolCall)
            if event.takes(kind) and not issubclass(kind, event.answer)
        }

    def settle(
        self,
        binding: Binding,
        context: EventContext[Any],
        result: Any,
        trace: Trace | None,
        since: int,
    ) -> EventContext[Any]:
        """Return the context that the next handler gets, after *result* of this one.

        Raises what the handler's policy lets pass.
        """
        given, before, more = type(result), context._value, context._more
        if (
            given is type(before)
            and given in self._plain
            and (more is None or not more.own)
            and result is not before
            and result.id is before.id
            and (given is not ToolMessage or result.tool_call_id is before.tool_call_id)
        ):
            # The most frequent change, at a fifth of the cost: a record with the same identity.
            if more is not None and more.check is not None:
                refused = self._checked(Turn(binding, context, trace, since), more.check, result)
                if refused is not None:
                    return refused
            if trace is not None:
                trace.add(binding, "changed", since, change=(before, result))
            return following(context, result, result, more)
        if result is None and context._mine is STEPPED and more and more.rejected is None:
            return _stepped(binding, context, more, trace, since)
        return self.judge(binding, context, result, trace, since)

    def _checked(
        self, turn: Turn, check: Callable[[Any, Any], str | None], result: object
    ) -> EventContext[Any] | None:
        """Return the next context if the dispatch's *check* refuses *result*, None if not."""
        try:
            reason = check(turn.context, result)
        except Exception as error:  # noqa: BLE001 - a check that fails is the handler's failure
            return self._fail(turn, error)
        if not reason:
            return None
        rejected = Rejected(turn.binding.name, reason)
        return self._reject(turn, rejected, (turn.context._value, result))

    def judge(
        self,
        binding: Binding,
        context: EventContext[Any],
        result: Any,
        trace: Trace | None,
        since: int,
    ) -> EventContext[Any]:
        """Do the same for whatever a guard gave, and for what is rare."""
        turn = Turn(binding, context, trace, since)
        if result is SKIPPED:
            turn.note("skipped")
            return turn.next()
        if type(result) is Failed:
            return self._fail(turn, result.error)
        if result is None and context._mine is not None:
            result = context._mine.value
        try:
            return self._settle(turn, result)
        except Exception as error:  # noqa: BLE001 - a check that fails is the handler's failure
            return self._fail(turn, error)

    def _settle(self, turn: Turn, result: Any) -> EventContext[Any]:
        """Do what the handler said."""
        more = turn.context._more
        if more is not None and more.rejected is not None:
            return self._reject(turn, more.rejected)  # The handler caught it.
        if result is None or result is turn.context._value:
            return turn.keep("ran")
        if isinstance(result, Deny):
            return self._denied(turn, result)
        if isinstance(result, CoroutineType):
            result.close()
            return self._senseless(turn, "returned a coroutine; declare it with `async def`")
        if turn.binding.kind == "guard":
            return self._ask(turn, result)
        if isinstance(result, Ask):
            problem = "asked, which only a guard may; subscribe it with `guard`"
            return self._senseless(turn, problem)
        if self._event.answer and isinstance(result, self._event.answer):
            return turn.keep("answered", answer=result)
        return self._adopt(turn, result)

    def _adopt(self, turn: Turn, result: Any) -> EventContext[Any]:
        context, more = turn.context, turn.context._more
        if problem := foreign(self._event, result):
            return self._senseless(turn, problem)
        if problem := mismatch(self._event, context._value, result):
            raise self._breach(turn, problem)
        if more is not None and more.check is not None:
            judged = more.own and more.own[-1].after is result
            if not judged and (refused := self._checked(turn, more.check, result)):
                return refused
        return turn.keep("changed", result)

    def _ask(self, turn: Turn, result: Any) -> EventContext[Any]:
        """Take what a guard gave, which is no refusal."""
        if not isinstance(result, Ask):
            problem = f"gave {kind(result)}, and a guard gives Deny, Ask or None"
            return self._senseless(turn, problem)
        if not self._event.asks:
            name, prompt = turn.binding.name, result.prompt
            reason = f"guard {name!r} asked, and nobody can be asked at {self._event.name!r}"
            return self._denied(turn, Deny(reason, prompt))
        turn.note("asked", result.prompt)
        return turn.next(asks=() if self._dry_run else (result.prompt,))

    def _reject(
        self, turn: Turn, rejected: Rejected, change: tuple[object, object] | None = None
    ) -> EventContext[Any]:
        turn.note("rejected", rejected.reason, change=change)
        return turn.next(rejected=rejected)

    def _denied(self, turn: Turn, verdict: Deny) -> EventContext[Any]:
        """Do what a handler said that denies."""
        # What an adapter could not take out may stand in its error: of that the log knows enough.
        known = [step.detail for step in turn.details.own or ()]
        if verdict.detail is not None and verdict.detail not in known:
            log_denial(self._event.name, turn.binding.name, verdict.reason, verdict.detail)
        return self._deny(turn, verdict, "denied")

    def _deny(self, turn: Turn, verdict: Deny, status: HandlerStatus) -> EventContext[Any]:
        turn.note(status, verdict.reason, detail=verdict.detail)
        return turn.next(denied=None if self._dry_run else verdict)

    def _senseless(self, turn: Turn, problem: str) -> EventContext[Any]:
        """Do what is done about a return that is nothing of what a handler may give."""
        error = self._breach(turn, problem)
        if not self._event.strict:
            raise error
        return self._fail_closed(turn, error, "contract", problem)

    def _fail(self, turn: Turn, error: BaseException) -> EventContext[Any]:
        """Do what the handler's policy says about its *error*."""
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
        return turn.next()

    def _fail_closed(
        self, turn: Turn, error: BaseException, status: HandlerStatus, reason: str
    ) -> EventContext[Any]:
        binding = turn.binding
        log_failure(self._event.name, binding.name, error, reason)
        verdict = Deny(f"{binding.kind} {binding.name!r} {reason}", detail_of(error))
        return self._deny(turn, verdict, status)

    def _breach(self, turn: Turn, problem: str) -> HandlerContractError:
        return HandlerContractError(self._event.name, turn.binding.name, problem)


def _stepped(
    binding: Binding, context: EventContext[Any], more: Details, trace: Trace | None, since: int
) -> EventContext[Any]:
    """Return the next context after adapters that left all as it is, or steps that led nowhere."""
    if trace is not None:
        trace.add_steps(binding, more.own or (), "ran", since, NO_WHY)
    more = replace(more, steps=(*more.steps, *(more.own or ())), own=None)
    return following(context, context._value, context._output, more)
