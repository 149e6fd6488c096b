"""The dispatch: a loop over the handlers of an event in their order, and its twin that awaits.

All that can be decided before, such as whether a handler is async or has a predicate, was decided
when the stages were made (see `plans`). What a handler gave is looked at only if it is something,
or if the handler wrote into its context.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from toolbus.bus.dispatch.bindings import Binding
from toolbus.bus.dispatch.contexts import EventContext, again, begun
from toolbus.bus.dispatch.details import OVER, Failed
from toolbus.bus.dispatch.nesting import Nesting

if TYPE_CHECKING:
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.dispatch.nesting import Level
    from toolbus.bus.ledger.tracing import Trace
    from toolbus.events.catalogue import Event, Scope

Settle: TypeAlias = (
    "Callable[[Binding, EventContext[Any], Any, Trace | None, int], EventContext[Any]]"
)
"""Returns the context of the next handler, after what this one gave."""


class Stage(Struct, frozen=True, kw_only=True):
    """Handlers that have their turns in a row, as pairs with the functions that run them.

    The first of all is number *first*. Those of an *own* stage do not share the context of who had
    a turn before. What *is_async* is awaited; `do` gives it the queues as well, for a later turn.
    If *judging* they are guards.
    """

    rows: tuple[tuple[Binding, Callable[..., Any]], ...]
    first: int
    settle: Settle
    own: bool = False
    is_async: bool = False
    judging: bool = False


class Recorder(Protocol):
    """Makes the records of dispatches."""

    def begin(self, value: object, scope: Scope) -> Trace:
        """Begin a trace of a dispatch."""

    def finished(self, trace: Trace, context: EventContext[Any]) -> None:
        """Record a dispatch that came to its end."""

    def broken(self, trace: Trace, context: EventContext[Any]) -> None:
        """Record a dispatch that an exception leaves."""


class Outside(Struct, frozen=True, kw_only=True):
    """What the bus has for the dispatches of one event; what is None is not needed.

    *tell* shows the end to plain blinker receivers, *ready* returns the queues of async observers
    or raises, *put* enters a context there.
    """

    nesting: Nesting
    recorder: Recorder | None = None
    tell: Callable[[EventContext[Any]], None] | None = None
    ready: Callable[[], Any] | None = None
    put: Callable[[Any, Binding, EventContext[Any]], None] | None = None


class Dispatch:
    """Dispatches *event* to the handlers of *stages*, for the sync verbs and for those that await.

    If they are observers, it gives nothing back.
    """

    __slots__ = ("_bindings", "_event", "_observes", "_outside", "_stages")

    def __init__(
        self, event: Event, stages: tuple[Stage, ...], outside: Outside, *, observes: bool
    ) -> None:
        self._event, self._stages, self._observes = event, stages, observes
        self._outside = outside
        self._bindings = tuple([binding for stage in stages for binding, _ in stage.rows])

    def run_sync(  # noqa: C901 - in one piece it can be read and stepped through
        self, value: Any, scope: Scope, more: Details | None = None
    ) -> EventContext[Any] | None:
        """Give each handler its turn; async observers are queued."""
        outside = self._outside
        queues = None if outside.ready is None else outside.ready()
        context, given = begun(self._event, value, scope, more), None
        trace = None if outside.recorder is None else outside.recorder.begin(value, scope)
        since, finished = 0, False
        level = outside.nesting.enter()
        try:
            for stage in self._stages:
                if context._more is not None and context._more.ends(judging=stage.judging):
                    continue
                if trace is not None:
                    trace.missing(self._bindings[trace.turns : stage.first])
                if stage.own and context is given:
                    context = again(context)
                is_async = stage.is_async
                for binding, function in stage.rows:
                    given = context
                    if trace is not None:
                        since = perf_counter_ns()
                    try:
                        result = function(queues, context) if is_async else function(context)
                    except BaseException as error:  # noqa: BLE001 - whether it passes is settled
                        result = Failed(error)
                    if result is not None or context._mine is not None:
                        context = stage.settle(binding, context, result, trace, since)
                        result = None  # Else an error would hold this frame, which holds it.
                        if context._more is not None and context._more.ends(judging=stage.judging):
                            break
                    elif trace is not None:
                        trace.ran(binding, since, "queued" if is_async else "ran")
            if outside.tell is not None:
                outside.tell(context)
            finished = True
        finally:
            self._end(context, trace, level, finished=finished)
        return None if self._observes else context

    async def run(  # noqa: C901 - as its twin
        self, value: Any, scope: Scope, more: Details | None = None
    ) -> EventContext[Any] | None:
        """Do the same, and await async handlers."""
        outside = self._outside
        context, given = begun(self._event, value, scope, more), None
        trace = None if outside.recorder is None else outside.recorder.begin(value, scope)
        since, finished = 0, False
        level = outside.nesting.enter()
        try:
            for stage in self._stages:
                if context._more is not None and context._more.ends(judging=stage.judging):
                    continue
                if trace is not None:
                    trace.missing(self._bindings[trace.turns : stage.first])
                if stage.own and context is given:
                    context = again(context)
                is_async = stage.is_async
                for binding, function in stage.rows:
                    given = context
                    if trace is not None:
                        since = perf_counter_ns()
                    try:
                        result = await function(context) if is_async else function(context)
                    except BaseException as error:  # noqa: BLE001 - whether it passes is settled
                        result = Failed(error)
                    if result is not None or context._mine is not None:
                        context = stage.settle(binding, context, result, trace, since)
                        result = None  # Else an error would hold this frame, which holds it.
                        if context._more is not None and context._more.ends(judging=stage.judging):
                            break
                    elif trace is not None:
                        trace.ran(binding, since)
            if outside.tell is not None:
                outside.tell(context)
            finished = True
        finally:
            self._end(context, trace, level, finished=finished)
        return None if self._observes else context

    def _end(
        self, context: EventContext[Any], trace: Trace | None, level: Level, *, finished: bool
    ) -> None:
        context._mine = OVER  # What anybody writes from now on is dropped.
        recorder = self._outside.recorder
        try:
            if trace is not None and recorder is not None:
                (recorder.finished if finished else recorder.broken)(trace, context)
        finally:
            level.over = True  # Only now: sinks may dispatch, and that counts as inside.
