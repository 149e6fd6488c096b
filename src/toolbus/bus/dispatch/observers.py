"""The ends of observers' turns: failures are logged, and results have no effect."""

from __future__ import annotations

from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.dispatch.contexts import QUEUED, SKIPPED, Failed, observer_context
from toolbus.bus.dispatch.details import NO_DETAILS
from toolbus.bus.dispatch.failures import detail_of, explain, log, log_failure, passes
from toolbus.bus.ledger.records import NO_CAUSE, Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.depth import Level
    from toolbus.bus.ledger.records import HandlerStatus
    from toolbus.events.catalogue import ObserveEvent


class ObserverResult:
    """Ends the turns of observers of *event*: warns once of a result, and logs failures."""

    __slots__ = ("_event",)

    def __init__(self, event: ObserveEvent[Any]) -> None:
        self._event = event

    def apply_result(
        self, binding: Binding, context: EventContext[Any], result: Any
    ) -> EventContext[Any]:
        """Return *context* for the next observer, after *result* of this one."""
        status: HandlerStatus
        status, cause, error = "ran", NO_CAUSE, None
        if type(result) is Failed:
            error = result.error
            status, reason = explain(self._event.name, binding.name, error)
            cause = Cause(reason, detail_of(error))
        elif result is SKIPPED:
            status = "skipped"
        elif result is QUEUED:
            status = "queued"
        if trace := (context._details or NO_DETAILS).trace:
            trace.add(binding, status, cause=cause)
        if error is not None:
            if passes(error):
                raise error
            log_failure(self._event.name, binding.name, error, cause.reason or "")
        elif status == "ran":
            _warn_once(binding, result)
        context._assigned = None
        return context


async def show(binding: Binding, context: EventContext[Any], level: Level) -> None:
    """Run the queued async observer *binding* in its turn, *level*; log its failure."""
    try:
        result = await binding.function(context)
    except Exception as error:  # noqa: BLE001 - observers never disturb
        event = binding.event.name
        log_failure(event, binding.name, error, explain(event, binding.name, error)[1])
    else:
        if result is not None or context._assigned is not None:
            _warn_once(binding, result)
    finally:
        level.over = True


def notify(receivers: Iterable[Callable[..., Any]], context: EventContext[Any]) -> None:
    """Show the end of a dispatch to plain blinker *receivers*; log their failures."""
    for receiver in receivers:
        event, name = context.event.name, name_of(receiver)
        try:
            result = receiver(context.scope.agent_id, ctx=observer_context(context))
        except Exception as error:
            if passes(error):
                raise
            log_failure(event, name, error, "raised an error")
        else:
            if iscoroutine(result):
                result.close()
                log("receiver %r of %r is async, so it was not run; use `bus.on`", name, event)


def _warn_once(binding: Binding, result: object) -> None:
    """Discard an observer's result, with a warning the first time."""
    if iscoroutine(result):
        result.close()
    if not binding.warned:
        binding.warned = True
        log(
            "observer %r of %r returned a result, which has no effect; to change values, "
            "subscribe to a transform event",
            binding.name,
            binding.event.name,
        )
