"""The dispatch: a loop over the handlers of an event in their order, and its twin that awaits.

All that can be decided before, such as whether a handler is async or has a predicate, was decided
when the groups were made (see `plans`). What a handler returned is looked at only if it is
something, or if the handler wrote into its context (see `results`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from toolbus.bus.dispatch.bindings import Binding
from toolbus.bus.dispatch.contexts import DispatchContext, EventContext, renewed
from toolbus.bus.dispatch.details import OVER, Failed
from toolbus.events.catalogue import ObserveEvent

if TYPE_CHECKING:
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.dispatch.nesting import Nesting
    from toolbus.bus.ledger.taps import DispatchRecorder
    from toolbus.bus.ledger.tracing import Trace
    from toolbus.events.catalogue import Event, Scope

ApplyResult: TypeAlias = (
    "Callable[[Binding, EventContext[Any], Any, Trace | None], EventContext[Any]]"
)
"""Returns the context of the next handler, after the result of this one."""


class Group(Struct, frozen=True, kw_only=True):
    """Handlers that have their turns in a row, as pairs with the functions that run them.

    If *fresh*, the first of them does not share the context of who had a turn before. What
    *is_async* is awaited; if *alone*, each has a context of its own. If *judging* they are guards.
    """

    rows: tuple[tuple[Binding, Callable[..., Any]], ...]
    apply_result: ApplyResult
    fresh: bool
    is_async: bool
    alone: bool
    judging: bool


class ObserverQueues(Protocol):
    """The queues of async observers, in all loops."""

    def ready(self, event: str) -> object:
        """Raise if there is no loop for the async observers of *event*."""

    def put(self, binding: Binding, context: EventContext[Any]) -> None:
        """Queue *context* for the observer *binding*; raises `DispatchDepthError`."""


class Surroundings(NamedTuple):
    """What the bus has for the dispatches of one event; what is None is not needed.

    *recorder* makes their records, *notify* shows the end to plain blinker receivers, *queues*
    are for async observers.
    """

    nesting: Nesting
    recorder: DispatchRecorder | None = None
    notify: Callable[[EventContext[Any]], None] | None = None
    queues: ObserverQueues | None = None


class Dispatch:
    """Dispatches *event* to the handlers of *groups*, for the sync verbs and for those that await.

    *notify* shows the end to plain blinker receivers, None if there are none.
    """

    __slots__ = ("_event", "_groups", "_nesting", "_notify", "_observes", "_permits")

    def __init__(
        self,
        event: Event,
        groups: tuple[Group, ...],
        nesting: Nesting,
        notify: Callable[[EventContext[Any]], None] | None,
    ) -> None:
        self._event, self._groups, self._nesting, self._notify = event, groups, nesting, notify
        self._permits, self._observes = nesting.permits, isinstance(event, ObserveEvent)

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
            level = self._nesting.enter()
        try:
            for group in self._groups:
                if group.fresh:
                    if context.ends(judging=group.judging):
                        continue
                    context = renewed(context)
                for binding, function in group.rows:
                    try:
                        result = function(context)
                    except BaseException as error:  # noqa: BLE001 - whether it passes is settled
                        result = Failed(error)
                    if result is not None or context._assigned is not None:
                        context = group.apply_result(binding, context, result, trace)
                        result = None  # Else an error would hold this frame, which holds it.
                        if context.ends(judging=group.judging):
                            break
                    elif trace is not None:
                        trace.add(binding, "ran")
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
        permits, level, previous = self._permits, None, None
        try:
            permits.pop()
        except IndexError:
            level = self._nesting.enter()
        try:
            for group in self._groups:
                if group.fresh:
                    if context.ends(judging=group.judging):
                        continue
                    context = renewed(context)
                for binding, function in group.rows:
                    if group.alone and context is previous:
                        context = renewed(context)
                    previous = context
                    try:
                        result = await function(context) if group.is_async else function(context)
                    except BaseException as error:  # noqa: BLE001 - whether it passes is settled
                        result = Failed(error)
                    if result is not None or context._assigned is not None:
                        context = group.apply_result(binding, context, result, trace)
                        result = None  # Else an error would hold this frame, which holds it.
                        if context.ends(judging=group.judging):
                            break
                    elif trace is not None:
                        trace.add(binding, "ran")
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
