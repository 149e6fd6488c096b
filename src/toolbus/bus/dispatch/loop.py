"""The dispatch: a loop over the handlers of an event in their order, and its twin that awaits.

All that can be decided before, such as whether a handler is async or has a predicate, was decided
when its row was made (see `plans`). The result of a handler is looked at only if there is one, or
if the handler wrote into its context (see `results`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from toolbus.bus.dispatch.contexts import DispatchContext, EventContext, next_context
from toolbus.bus.dispatch.details import OVER, Failed
from toolbus.bus.dispatch.nesting import enter
from toolbus.events.catalogue import ObserveEvent

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.ledger.taps import DispatchRecorder
    from toolbus.bus.ledger.tracing import Trace
    from toolbus.events.catalogue import Event, Scope

SyncRow: TypeAlias = "tuple[Binding, Callable[..., Any]]"
"""A handler and the function that runs it."""

AwaitedRow: TypeAlias = "tuple[Binding, Callable[..., Any], bool]"
"""A handler, the function that runs it, and whether that is async."""


class Results(Protocol):
    """The treatment of handlers' results, by the kind of event."""

    def apply_result(
        self, binding: Binding, context: EventContext[Any], result: Any, trace: Trace | None, /
    ) -> EventContext[Any]:
        """Return the context of the next handler, after *result* of this one."""


class ObserverQueues(Protocol):
    """The queues of async observers, in all loops."""

    def ready(self, event: str) -> object:
        """Raise if there is no loop for the async observers of *event*."""

    def put(self, binding: Binding, context: EventContext[Any]) -> object:
        """Queue *context* for the observer *binding*; raises `DispatchDepthError`."""


class DispatchServices(NamedTuple):
    """The bus's part in the dispatches of one event; None where a dispatch needs none.

    *permits* holds one permit, *recorder* makes the ledger's records, *notify* shows the end to
    plain blinker receivers, *queues* are for async observers.
    """

    permits: deque[None]
    recorder: DispatchRecorder | None = None
    notify: Callable[[EventContext[Any]], None] | None = None
    queues: ObserverQueues | None = None


class Dispatch:
    """Dispatches *event* to the handlers of *rows* and then to its *guards*.

    The first dispatch of an event takes the permit and counts no depth; any other one may be
    inside it, and is a level (see `nesting`).
    """

    __slots__ = ("_event", "_guards", "_notify", "_observes", "_permits", "_results", "_rows")

    def __init__(
        self,
        event: Event,
        results: Results,
        rows: tuple[Any, ...],
        guards: tuple[Any, ...],
        services: DispatchServices,
    ) -> None:
        self._event, self._results, self._observes = event, results, isinstance(event, ObserveEvent)
        self._rows, self._guards = (rows, guards) if rows else (guards, ())
        self._permits, self._notify = services.permits, services.notify

    def run_sync(  # noqa: C901, PLR0912 - in one piece it can be read and stepped through
        self, value: Any, scope: Scope, details: Details | None = None, trace: Trace | None = None
    ) -> EventContext[Any]:
        """Give each handler its turn, tell *trace* of it, and return the last context."""
        # Filled in here: a constructor's call would cost a fifth of a dispatch.
        context: EventContext[Any] = DispatchContext()
        context._event, context._scope, context._details = self._event, scope, details
        context._value = context._original = value
        context._assigned = None
        permits, level = self._permits, None
        try:
            permits.pop()
        except IndexError:
            level = enter(permits, self._event)
        rows, guards = self._rows, self._guards
        try:
            while True:
                for binding, function in rows:
                    try:
                        result = function(context)
                    except BaseException as error:  # noqa: BLE001 - its policy decides
                        result = Failed(error)
                    if result is not context._assigned:  # After most turns both are None.
                        context = self._results.apply_result(binding, context, result, trace)
                        result = None  # Else an error would hold this frame, which holds it.
                        if context.ends(judging=binding.kind == "guard"):
                            break
                    elif trace is not None:
                        trace.add(binding, "ran")
                if not guards or context.ends(judging=True):
                    break
                # A fresh one: what is written into the handlers' context does not come in.
                context = next_context(context, context._value, context._details)
                rows, guards = guards, ()
            if self._notify is not None:
                self._notify(context)
            if trace is not None:
                trace.finished = True
        finally:
            context._assigned = OVER  # What anybody writes from now on is dropped.
            try:
                if trace is not None:
                    trace.recorder.record(trace, context)
            finally:
                # Only now: sinks may dispatch, and that counts as inside.
                if level is None:
                    permits.append(None)
                else:
                    level.over = True
        return context

    async def run(  # noqa: C901, PLR0912 - as its twin
        self, value: Any, scope: Scope, details: Details | None = None, trace: Trace | None = None
    ) -> EventContext[Any] | None:
        """Do the same, and await async handlers; observers give nothing back."""
        context: EventContext[Any] = DispatchContext()
        context._event, context._scope, context._details = self._event, scope, details
        context._value = context._original = value
        context._assigned = None
        permits, level = self._permits, None
        try:
            permits.pop()
        except IndexError:
            level = enter(permits, self._event)
        rows, guards = self._rows, self._guards
        try:
            while True:
                for binding, function, is_async in rows:
                    try:
                        result = await function(context) if is_async else function(context)
                    except BaseException as error:  # noqa: BLE001 - its policy decides
                        result = Failed(error)
                    if result is not context._assigned:  # After most turns both are None.
                        context = self._results.apply_result(binding, context, result, trace)
                        result = None  # Else an error would hold this frame, which holds it.
                        if context.ends(judging=binding.kind == "guard"):
                            break
                    elif trace is not None:
                        trace.add(binding, "ran")
                if not guards or context.ends(judging=True):
                    break
                # A fresh one: what is written into the handlers' context does not come in.
                context = next_context(context, context._value, context._details)
                rows, guards = guards, ()
            if self._notify is not None:
                self._notify(context)
            if trace is not None:
                trace.finished = True
        finally:
            context._assigned = OVER  # What anybody writes from now on is dropped.
            try:
                if trace is not None:
                    trace.recorder.record(trace, context)
            finally:
                # Only now: sinks may dispatch, and that counts as inside.
                if level is None:
                    permits.append(None)
                else:
                    level.over = True
        return None if self._observes else context
