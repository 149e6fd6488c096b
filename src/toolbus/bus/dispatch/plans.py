"""The plan of one event: its handlers in rows for the loop, with all that is known before."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolbus.bus.dispatch.contexts import DispatchContext
from toolbus.bus.dispatch.details import OVER
from toolbus.bus.dispatch.loop import Dispatch
from toolbus.bus.dispatch.observers import ObserverResult
from toolbus.bus.dispatch.results import TransformResult
from toolbus.events.catalogue import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.dispatch.loop import DispatchServices, Results
    from toolbus.events.catalogue import Event, Scope

Verb: TypeAlias = Literal["do", "observe", "apply", "apply_sync"]


def make_plan(
    verb: Verb,
    event: Event,
    bindings: tuple[Binding, ...],
    services: DispatchServices,
    *,
    dry_run: bool,
) -> Callable[..., Any]:
    """Return the function that dispatches *event* to *bindings*, which are in order, by *verb*."""
    awaits = verb in {"apply", "observe"}
    if not (bindings or services.recorder or services.notify):
        idle = NoListeners(event)
        return idle.run if awaits else idle.run_sync
    traced = services.recorder is not None
    rows = tuple([binding.row(verb, services.queues, traced=traced) for binding in bindings])
    first_guard = bisect_left(bindings, 1, key=lambda binding: binding.kind == "guard")
    results: Results
    if isinstance(event, TransformEvent):
        results = TransformResult(event, dry_run=dry_run)
    else:
        results = ObserverResult(event)
    dispatch = Dispatch(event, results, rows[:first_guard], rows[first_guard:], services)
    return dispatch.run if awaits else dispatch.run_sync


class NoListeners:
    """The dispatches of an event that has no listeners: nothing to do, nor to count."""

    __slots__ = ("_event", "_observes")

    def __init__(self, event: Event) -> None:
        self._event, self._observes = event, isinstance(event, ObserveEvent)

    def run_sync(
        self, value: Any, scope: Scope, details: Details | None = None
    ) -> EventContext[Any] | None:
        """Return the context, for a transform event."""
        if self._observes:
            return None
        context = DispatchContext()
        context._event, context._scope, context._details = self._event, scope, details
        context._value = context._original = value
        context._assigned = OVER
        return context

    async def run(
        self, value: Any, scope: Scope, details: Details | None = None
    ) -> EventContext[Any] | None:
        """Do the same for the verbs that are awaited."""
        return self.run_sync(value, scope, details)
