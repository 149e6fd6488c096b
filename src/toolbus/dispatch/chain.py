"""The way of a value through an ordered tuple of handlers.

The bodies are coroutines, and serve the sync verbs too: a chain of sync handlers never suspends,
so `run_now` drives it to its end with a single step. What is slow (a predicate, a deadline, a
thread) was put into `Binding.gate` and `Binding.function` when somebody subscribed.
"""

from __future__ import annotations

from inspect import iscoroutine
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.dispatch.bindings import name_of
from toolbus.dispatch.contexts import Rejected, mismatch
from toolbus.dispatch.failures import detail_of, explain, log, log_failure, passes, root_of
from toolbus.errors import HandlerContractError, HandlerError
from toolbus.events import Ask, Deny
from toolbus.messages import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from toolbus.dispatch.bindings import Binding
    from toolbus.dispatch.contexts import EventContext
    from toolbus.events import TransformEvent
    from toolbus.ledger import HandlerStatus, Outcome, Trace

T = TypeVar("T")


class Transform:
    """One `apply` on its way: transformers, then guards; *binding* has its turn just now."""

    _binding: Binding
    _turn: EventContext[Any]
    _since: int

    def __init__(
        self,
        event: TransformEvent[Any, Any],
        context: EventContext[Any],
        *,
        trace: Trace | None,
        dry_run: bool,
        blocking: bool,
    ) -> None:
        self._event, self._context, self._trace = event, context, trace
        self._dry_run, self._blocking = dry_run, blocking
        self._asks: list[str] = []
        self._finished = False

    async def run(self, bindings: Iterable[Binding]) -> None:
        """Give each of *bindings* its turn, until one ends the dispatch."""
        context = self._context
        try:
            for binding in bindings:
                if context._denied or context._rejected:
                    break
                self._begin(binding)
                if context._answer is not None and binding.kind != "guard":
                    self._note("not_run")
                else:
                    await self._give_turn(binding)
            if self._asks and not (context._denied or context._rejected):
                context._asked = Ask("\n".join(self._asks))
            self._finished = True
        finally:
            context._role = "over"

    @property
    def outcome(self) -> tuple[Outcome, str | None]:
        """How it ended, and why."""
        context = self._context
        if not self._finished:
            return "raised", None
        if context._rejected:
            return "rejected", context._rejected.reason
        if context._denied:
            return "denied", context._denied.reason
        if context._asked:
            return "asked", context._asked.prompt
        if context._answer is not None:
            return "answered", None
        return ("changed" if changed(context._original, context._value) else "unchanged"), None

    def _begin(self, binding: Binding) -> None:
        self._binding, self._turn = binding, self._context._turn(binding.kind)
        self._since = 0 if self._trace is None else perf_counter_ns()

    async def _give_turn(self, binding: Binding) -> None:
        turn = self._turn
        try:
            if binding.gate is not None and not binding.gate(turn):
                self._note("skipped")
                return
            if self._blocking and binding.blocking:
                result = binding.blocking(turn)
            else:
                result = binding.function(turn)
                if binding.is_async:
                    result = await result
            self._settle(turn._take(result))
        except Exception as error:  # noqa: BLE001 - the handler's policy says what its failure does
            self._fail(error)
        except BaseException as error:
            self._note("failed", explain(self._event.name, binding.name, error)[1])
            raise
        finally:
            turn._role = "over"

    def _settle(self, result: Any) -> None:
        """Do what the handler said."""
        turn, is_guard = self._turn, self._binding.kind == "guard"
        match result:
            case _ if turn._rejected:
                self._reject(turn._rejected)  # The handler caught it.
            case None:
                self._keep("ran")
            case Deny():
                self._deny(result, "denied")
            case Ask() if is_guard:
                self._ask(result)
            case Ask():
                raise self._breach("asked, which only a guard may; subscribe it with `guard`")
            case _ if iscoroutine(result):
                result.close()
                raise self._breach("returned a coroutine; declare it with `async def`")
            case _ if is_guard:
                given = type(result).__name__
                raise self._breach(f"gave `{given}`, and a guard gives Deny, Ask or None")
            case _ if result is turn._value:
                self._keep("ran")
            case _ if self._event.answer and isinstance(result, self._event.answer):
                self._context._answer = result
                self._keep("answered", result)
            case _:
                self._adopt(result)

    def _adopt(self, result: Any) -> None:
        turn = self._turn
        if problem := mismatch(self._event, turn._value, result):
            raise self._breach(problem)
        judged = turn._steps and turn._steps[-1].after is result
        if turn._check and not judged and (reason := turn._check(turn, result)):
            self._reject(Rejected(self._binding.name, reason), (turn._value, result))
            return
        self._context._value = self._context._output = result
        self._keep("changed", result)

    def _reject(self, rejected: Rejected, change: tuple[object, object] | None = None) -> None:
        self._context._rejected = rejected
        self._note("rejected", rejected.reason, change=change)

    def _keep(self, status: HandlerStatus, result: object = None) -> None:
        self._context._tool = self._turn._tool
        self._context._steps += self._turn._steps
        self._note(status, change=None if result is None else (self._turn._value, result))

    def _ask(self, ask: Ask) -> None:
        if not self._event.asks:
            name = self._binding.name
            reason = f"guard {name!r} asked, and nobody can be asked at {self._event.name!r}"
            self._deny(Deny(reason, ask.prompt), "denied")
            return
        self._note("asked", ask.prompt)
        if not self._dry_run:
            self._asks.append(ask.prompt)

    def _deny(self, verdict: Deny, status: HandlerStatus) -> None:
        self._note(status, verdict.reason)
        if not self._dry_run:
            self._context._denied = verdict

    def _fail(self, error: Exception) -> None:
        """Do what the handler's policy says about its *error*."""
        if self._turn._rejected:
            self._reject(self._turn._rejected)
            return
        event, binding = self._event.name, self._binding
        status, reason = explain(event, binding.name, error)
        if binding.policy == "closed" and not passes(error):
            log_failure(event, binding.name, error, reason, silent=True)
            verdict = Deny(f"{binding.kind} {binding.name!r} {reason}", detail_of(error))
            self._deny(verdict, status)
            return
        self._note(status, reason)
        if passes(error) or (binding.policy == "raise" and status == "contract"):
            raise error
        if binding.policy == "raise":
            raise HandlerError(event, binding.name, reason) from root_of(error)
        log_failure(event, binding.name, error, reason)

    def _breach(self, problem: str) -> HandlerContractError:
        return HandlerContractError(self._event.name, self._binding.name, problem)

    def _note(
        self,
        status: HandlerStatus,
        reason: str | None = None,
        *,
        change: tuple[object, object] | None = None,
    ) -> None:
        if self._trace is None:
            return
        binding, since, steps = self._binding, self._since, self._turn._steps
        if steps:
            self._trace.add_steps(binding, steps, status, since, reason, change=change)
        else:
            self._trace.add(binding, status, since, reason=reason, change=change)


async def observe(
    bindings: Iterable[Binding],
    context: EventContext[Any],
    *,
    trace: Trace | None = None,
    enqueue: Callable[[Binding, EventContext[Any]], None] | None = None,
) -> None:
    """Show the value to each of *bindings*; async ones go to *enqueue*, or are awaited here."""
    status: HandlerStatus
    for binding in bindings:
        since = 0 if trace is None else perf_counter_ns()
        status, reason, turn = "ran", None, context
        try:
            if binding.gate is not None and not binding.gate(context):
                status = "skipped"
            elif not binding.is_async:
                _ignore(binding, turn, binding.function(turn))
            elif enqueue is not None:
                enqueue(binding, context._turn("observer"))
                status = "queued"
            else:
                turn = context._turn("observer")
                _ignore(binding, turn, await binding.function(turn))
        except BaseException as error:
            status, reason = explain(binding.event.name, binding.name, error)
            if passes(error):
                raise
            log_failure(binding.event.name, binding.name, error, reason)
        finally:
            turn._forget_attempt()
            if trace is not None:
                trace.add(binding, status, since, reason=reason)


async def show(binding: Binding, context: EventContext[Any]) -> None:
    """Run the queued async observer *binding*; its failure is logged."""
    try:
        _ignore(binding, context, await binding.function(context))
    except Exception as error:  # noqa: BLE001 - observers never disturb
        event = binding.event.name
        log_failure(event, binding.name, error, explain(event, binding.name, error)[1])


def tell(receivers: Iterable[Callable[..., Any]], context: EventContext[Any]) -> None:
    """Show the end of a dispatch to plain blinker *receivers*; their failures are logged."""
    for receiver in receivers:
        event, name = context.event.name, name_of(receiver)
        try:
            result = receiver(context.scope.agent_id, ctx=context._turn("observer"))
        except Exception as error:
            if passes(error):
                raise
            log_failure(event, name, error, "raised an error")
        else:
            if iscoroutine(result):
                result.close()
                log("receiver %r of %r is async, so it was not run; use `bus.on`", name, event)


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what *coroutine* returns; it must not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # typeshed: StopIteration.value is Any
    coroutine.close()
    message = "a chain of sync handlers suspended"
    raise RuntimeError(message)


def _ignore(binding: Binding, context: EventContext[Any], result: object) -> None:
    """Drop what an observer gave back, and say so once."""
    if not context._forget_attempt() and result is None:
        return
    if iscoroutine(result):
        result.close()
    if not binding.told:
        binding.told = True
        log(
            "observer %r of %r gave an output, which changes nothing; to change values, "
            "subscribe to a transform event",
            binding.name,
            binding.event.name,
        )
