"""The dispatch: a loop over the ordered handlers of an event, sync and async.

Every decision that does not depend on the value, such as whether a handler is async or has a
predicate, is made once per row (see `Binding.row`). The loop leaves a result to `results`, and
skips that for a handler that returned None and wrote nothing into its context.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from toolbus.bus.dispatch.contexts import OVER, DispatchContext, EventContext, Failed, next_context
from toolbus.bus.dispatch.depth import enter
from toolbus.bus.dispatch.details import NO_DETAILS
from toolbus.bus.dispatch.observers import ObserverResult
from toolbus.bus.dispatch.results import TransformResult
from toolbus.events.catalogue import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.channels import Channel
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.depth import Level
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.ledger.taps import DispatchRecorder
    from toolbus.bus.queues import Queues
    from toolbus.events.catalogue import Scope

Verb: TypeAlias = Literal["do", "observe", "apply", "apply_sync"]


class Dispatch:
    """A plan: dispatches by *verb* to *bindings*, which are in order, the guards last.

    The first dispatch of an event marks its *channel* busy, without a level; any other may be
    inside it, and gets a level (see `depth`). *recorder* makes the ledger's records, *notify* shows
    the end to plain blinker receivers, *queues* are for async observers; None: it is not needed.
    """

    __slots__ = (
        *("_channel", "_event", "_guards", "_is_served", "_notify", "_observes", "_queues"),
        *("_recorder", "_results", "_rows"),
    )

    def __init__(
        self,
        verb: Verb,
        bindings: tuple[Binding, ...],
        channel: Channel,
        *,
        recorder: DispatchRecorder | None,
        notify: Callable[[EventContext[Any]], None] | None,
        queues: Queues | None,
        dry_run: bool,
    ) -> None:
        event, self._channel = channel.event, channel
        self._event, self._observes = event, isinstance(event, ObserveEvent)
        self._recorder, self._notify, self._queues = recorder, notify, queues
        self._is_served = (recorder or notify or queues) is not None
        self._results: TransformResult | ObserverResult
        if isinstance(event, TransformEvent):
            self._results = TransformResult(event, dry_run=dry_run)
        else:
            self._results = ObserverResult(event)
        traced = recorder is not None
        rows = tuple([binding.row(verb, queues, traced=traced) for binding in bindings])
        first_guard = bisect_left(bindings, 1, key=lambda binding: binding.kind == "guard")
        handlers, guards = rows[:first_guard], rows[first_guard:]
        self._rows, self._guards = (handlers, guards) if handlers else (guards, ())

    def run_sync(  # noqa: C901, PLR0912 - in one piece it can be read and stepped through
        self, value: Any, scope: Scope, details: Details | None = None
    ) -> EventContext[Any]:
        """Give each handler its turn, and return the last context."""
        served = self._is_served
        if served:
            details = self._begin(value, scope, details)
        # Assigned here: the call of a constructor would cost a fifth of a dispatch.
        context: EventContext[Any] = DispatchContext()
        context._event, context._scope, context._details = self._event, scope, details
        context._value = context._original = value
        context._assigned = None
        rows, guards, channel = self._rows, self._guards, self._channel
        level, finished = None, False
        if channel.is_busy:
            level = enter(channel, self._event)
        else:
            channel.is_busy = True
        try:
            while True:
                for binding, function in rows:
                    try:
                        result = function(context)
                    except BaseException as error:  # noqa: BLE001 - the handler's policy decides
                        result = Failed(error)
                    if result is not context._assigned:  # After most turns both are None.
                        context = self._results.apply_result(binding, context, result)
                        result = None  # Else an error and this frame would refer to each other.
                        if context.ends(judging=binding.kind == "guard"):
                            break
                if not guards or context.ends(judging=True):
                    break
                # A fresh context: guards do not see later writes of handlers.
                context = next_context(context, context._value, context._details)
                rows, guards = guards, ()
            if served:
                if self._notify is not None:
                    self._notify(context)
                finished = True
        finally:
            context._assigned = OVER  # Later writes are dropped.
            if served:
                self._end(context, level, finished=finished)
            elif level is None:
                channel.is_busy = False
            else:
                level.over = True
        return context

    async def run(  # noqa: C901, PLR0912 - as its twin
        self, value: Any, scope: Scope, details: Details | None = None
    ) -> EventContext[Any] | None:
        """Do the same, and await async handlers; return None for an observed event."""
        served = self._is_served
        if served:
            details = self._begin(value, scope, details)
        context: EventContext[Any] = DispatchContext()
        context._event, context._scope, context._details = self._event, scope, details
        context._value = context._original = value
        context._assigned = None
        rows, guards, channel = self._rows, self._guards, self._channel
        level, finished = None, False
        if channel.is_busy:
            level = enter(channel, self._event)
        else:
            channel.is_busy = True
        try:
            while True:
                for binding, function, is_async in rows:
                    try:
                        result = await function(context) if is_async else function(context)
                    except BaseException as error:  # noqa: BLE001 - the handler's policy decides
                        result = Failed(error)
                    if result is not context._assigned:  # After most turns both are None.
                        context = self._results.apply_result(binding, context, result)
                        result = None  # Else an error and this frame would refer to each other.
                        if context.ends(judging=binding.kind == "guard"):
                            break
                if not guards or context.ends(judging=True):
                    break
                # A fresh context: guards do not see later writes of handlers.
                context = next_context(context, context._value, context._details)
                rows, guards = guards, ()
            if served:
                if self._notify is not None:
                    self._notify(context)
                finished = True
        finally:
            context._assigned = OVER  # Later writes are dropped.
            if served:
                self._end(context, level, finished=finished)
            elif level is None:
                channel.is_busy = False
            else:
                level.over = True
        return None if self._observes else context

    def _begin(self, value: Any, scope: Scope, details: Details | None) -> Details | None:
        """Return *details* with a trace; raises before any handler runs if a loop is missing."""
        if self._queues is not None:
            self._queues.loop_for(self._event.name)
        if self._recorder is None:
            return details
        return replace(details or NO_DETAILS, trace=self._recorder.begin(value, scope))

    def _end(self, context: EventContext[Any], level: Level | None, *, finished: bool) -> None:
        """Record a dispatch that ended with *context*, then leave its *level*."""
        try:
            if self._recorder is not None and context._details is not None:
                self._recorder.record(context._value, context._details, finished=finished)
        finally:
            # Not before: a dispatch by a sink counts as inside this one.
            if level is None:
                self._channel.is_busy = False
            else:
                level.over = True
