"""The way of a value through an ordered tuple of handlers.

The bodies are coroutines, and serve the sync verbs too: a chain of sync handlers never suspends,
so `run_now` drives it to its end with a single step. What is slow (a predicate, a deadline, a
thread) was put into `Binding.gate` and `Binding.function` when somebody subscribed.
"""

from __future__ import annotations

import logging
from inspect import iscoroutine
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.dispatch.contexts import Rejected
from toolbus.dispatch.failures import PredicateError, detail_of, explain, log_failure, root_of
from toolbus.errors import DispatchDepthError, HandlerContractError, HandlerError
from toolbus.events import Ask, Deny, TransformEvent
from toolbus.messages import Message, ToolCall, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from toolbus.dispatch.bindings import Binding
    from toolbus.dispatch.contexts import EventContext
    from toolbus.events import Event
    from toolbus.ledger import HandlerStatus, Outcome, Trace

T = TypeVar("T")
logger = logging.getLogger("toolbus")


class Transform:
    """One `apply` on its way: transformers, then guards."""

    __slots__ = ("_asks", "_blocking", "_context", "_dry_run", "_trace", "finished")

    def __init__(
        self,
        context: EventContext[Any],
        *,
        trace: Trace | None = None,
        dry_run: bool = False,
        blocking: bool = False,
    ) -> None:
        self._context, self._trace, self._dry_run = context, trace, dry_run
        self._blocking = blocking
        self._asks: list[str] = []
        self.finished = False

    async def run(self, bindings: Sequence[Binding]) -> None:
        """Give each of *bindings* its turn, until one ends the dispatch."""
        context = self._context
        for index, binding in enumerate(bindings):
            if context._denied or context._rejected:
                if self._trace:
                    self._trace.missing(bindings[index:])
                break
            if context._answer is not None and binding.kind != "guard":
                self._note(binding, "not_run")
                continue
            await self._turn(binding)
        if self._asks and not (context._denied or context._rejected or self._dry_run):
            context._asked = Ask("\n".join(self._asks))
        self.finished = True

    @property
    def outcome(self) -> tuple[Outcome, str | None]:
        """How it ended, and why."""
        context = self._context
        if not self.finished:
            return "raised", None
        if context._rejected:
            return "rejected", context._rejected.reason
        if context._denied:
            return "denied", context._denied.reason
        if context._asked:
            return "asked", context._asked.prompt
        if context._answer is not None:
            return "answered", None
        return "unchanged" if context._value is context._original else "changed", None

    async def _turn(self, binding: Binding) -> None:
        turn, since = self._context.turn(binding.kind), perf_counter_ns() if self._trace else 0
        try:
            if binding.gate is not None and not _open(binding.gate, turn):
                self._note(binding, "skipped", turn, since)
                return
            if self._blocking and binding.blocking:
                result = binding.blocking(turn)
            else:
                result = binding.function(turn)
                if binding.is_async:
                    result = await result
            self._settle(binding, turn, turn.take(result), since)
        except DispatchDepthError:
            raise
        except Rejected as error:
            self._reject(binding, turn, error, since)
        except Exception as error:  # noqa: BLE001 - the handler's policy says what its failure does
            self._fail(binding, turn, error, since)
        finally:
            turn._role = "over"

    def _settle(
        self, binding: Binding, turn: EventContext[Any], result: object, since: int
    ) -> None:
        event = self._context._event
        match result:
            case _ if iscoroutine(result):
                raise _nonsense(binding, result)
            case None:
                self._adopt_nothing(binding, turn, since)
            case Deny():
                self._deny(binding, turn, result, "denied", since)
            case Ask() if binding.kind == "guard":
                self._ask(binding, turn, result, since)
            case _ if binding.kind == "guard" or not isinstance(event, TransformEvent):
                raise _nonsense(binding, result)
            case _ if event.answer and isinstance(result, event.answer):
                self._context._answer = result
                self._note(binding, "answered", turn, since, change=(turn._value, result))
            case _:
                self._adopt(binding, turn, result, since)

    def _adopt_nothing(self, binding: Binding, turn: EventContext[Any], since: int) -> None:
        self._keep_steps(turn)
        self._note(binding, "ran", turn, since)

    def _adopt(self, binding: Binding, turn: EventContext[Any], result: Any, since: int) -> None:
        if problem := mismatch(turn._event, turn._value, result):
            raise _nonsense(binding, result, problem)
        context = self._context
        stepped = bool(turn._steps) and turn._steps[-1].after is result
        if context._check and not stepped and result is not turn._value:  # noqa: SIM102 - reads better
            if reason := context._check(turn, result):
                raise Rejected(binding.name, reason)
        self._keep_steps(turn)
        if result is turn._value:
            self._note(binding, "ran", turn, since)
            return
        context._value = context._output = result
        self._note(binding, "changed", turn, since, change=(turn._value, result))

    def _keep_steps(self, turn: EventContext[Any]) -> None:
        self._context._tool = turn._tool
        self._context._steps = [*self._context._steps, *turn._steps]

    def _ask(self, binding: Binding, turn: EventContext[Any], ask: Ask, since: int) -> None:
        event = self._context._event
        if isinstance(event, TransformEvent) and event.asks:
            self._asks.append(ask.prompt)
            self._note(binding, "asked", turn, since, reason=ask.prompt)
            return
        reason = f"guard {binding.name!r} asked, and nobody can be asked at {event.name!r}"
        self._deny(binding, turn, Deny(reason, ask.prompt), "denied", since)

    def _deny(
        self,
        binding: Binding,
        turn: EventContext[Any],
        verdict: Deny,
        status: HandlerStatus,
        since: int,
    ) -> None:
        self._note(binding, status, turn, since, reason=verdict.reason)
        if not self._dry_run:
            self._context._denied = verdict

    def _reject(
        self, binding: Binding, turn: EventContext[Any], error: Rejected, since: int
    ) -> None:
        self._context._rejected = error
        self._note(binding, "rejected", turn, since, reason=error.reason)

    def _fail(
        self, binding: Binding, turn: EventContext[Any], error: Exception, since: int
    ) -> None:
        status, reason = explain(error)
        match binding.policy:
            case "open":
                log_failure(binding.event.name, binding.name, error, reason)
                self._note(binding, status, turn, since, reason=reason)
            case "closed":
                log_failure(binding.event.name, binding.name, error, reason, silent=True)
                verdict = Deny(f"{binding.kind} {binding.name!r} {reason}", detail_of(error))
                self._deny(binding, turn, verdict, status, since)
            case "raise":
                self._note(binding, status, turn, since, reason=reason)
                if isinstance(error, HandlerContractError):
                    raise error
                name = self._context._event.name
                raise HandlerError(name, binding.name, reason) from root_of(error)

    def _note(
        self,
        binding: Binding,
        status: HandlerStatus,
        turn: EventContext[Any] | None = None,
        since: int = 0,
        *,
        reason: str | None = None,
        change: tuple[object, object] | None = None,
    ) -> None:
        if self._trace is None:
            return
        steps = turn._steps if turn is not None else ()
        if not steps:
            self._trace.add(binding, status, since, reason=reason, change=change)
        else:
            self._trace.add_steps(binding, steps, status, since, reason)


async def observe(
    bindings: Sequence[Binding],
    context: EventContext[Any],
    *,
    trace: Trace | None = None,
    enqueue: Callable[[Binding, EventContext[Any]], None] | None = None,
) -> None:
    """Show the value to each of *bindings*; async ones go to *enqueue*, if given, else are awaited."""
    for binding in bindings:
        since = perf_counter_ns() if trace else 0
        status: HandlerStatus = "ran"
        reason = None
        try:
            if binding.gate is not None and not _open(binding.gate, context):
                status = "skipped"
            elif not binding.is_async:
                _ignore(binding, context, binding.function(context))
            elif enqueue is None:
                _ignore(binding, context, await binding.function(context))
            else:
                enqueue(binding, context.turn("observer"))
                status = "queued"
        except DispatchDepthError:
            raise
        except Exception as error:  # noqa: BLE001 - observers never disturb
            status, reason = explain(error)
            log_failure(binding.event.name, binding.name, error, reason)
        if trace is not None:
            trace.add(binding, status, since, reason=reason)


async def show(binding: Binding, context: EventContext[Any]) -> None:
    """Run the queued async observer *binding*; its failure is logged."""
    try:
        _ignore(binding, context, await binding.function(context))
    except Exception as error:  # noqa: BLE001 - observers never disturb
        log_failure(binding.event.name, binding.name, error, explain(error)[1])


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what *coroutine* returns; it must not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # typeshed: StopIteration.value is Any
    coroutine.close()
    message = "a chain of sync handlers suspended"
    raise RuntimeError(message)


def mismatch(event: Event, before: Any, after: Any) -> str | None:
    """Return what a replacement must not change and did, or None."""
    if not isinstance(event, TransformEvent) or not event.accepts(after):
        return f"returned `{type(after).__name__}`, which the event does not take"
    if isinstance(before, Message | ToolCall):
        if type(after) is not type(before):
            return "changed the role of the message"
        if after.id != before.id:
            return "changed the id"
    if isinstance(before, ToolMessage) and after.tool_call_id != before.tool_call_id:
        return "changed the tool_call_id"
    return None


def _open(gate: Callable[[EventContext[Any]], bool], context: EventContext[Any]) -> bool:
    try:
        return gate(context)
    except Exception as error:
        raise PredicateError from error


def _ignore(binding: Binding, context: EventContext[Any], result: object) -> None:
    """Drop what an observer gave back, and say so once."""
    if not context.was_tried() and result is None:
        return
    if iscoroutine(result):
        result.close()
    if not binding.told:
        binding.told = True
        logger.warning(
            "observer %r of %r gave an output, which changes nothing; to change values, "
            "subscribe to a transform event",
            binding.name,
            binding.event.name,
            extra={"event": binding.event.name, "handler": binding.name},
        )


def _nonsense(binding: Binding, result: object, problem: str = "") -> HandlerContractError:
    if iscoroutine(result):
        result.close()
        problem = "returned a coroutine; declare it with `async def`"
    problem = problem or f"returned `{type(result).__name__}`, which it must not"
    return HandlerContractError(binding.event.name, binding.name, problem)
