"""The plan of one event: its handlers in stages for the loop, with all that is known before."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolbus.bus.dispatch.contexts import begun
from toolbus.bus.dispatch.details import OVER, SKIPPED
from toolbus.bus.dispatch.loop import Dispatch, Stage
from toolbus.bus.dispatch.settling import Settling
from toolbus.bus.dispatch.showing import Disregarding
from toolbus.events.catalogue import TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.bindings import Binding, Gate
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.dispatch.loop import Outside, Settle
    from toolbus.events.catalogue import Event, Scope

Verb: TypeAlias = Literal["do", "observe", "apply", "apply_sync"]


def make_plan(
    verb: Verb, event: Event, bindings: tuple[Binding, ...], outside: Outside, *, dry_run: bool
) -> Callable[..., Any]:
    """Return the function that dispatches *event* to *bindings* with *verb*."""
    awaits, observes = verb in {"apply", "observe"}, not isinstance(event, TransformEvent)
    if not (bindings or outside.recorder or outside.tell):
        unheard = Unheard(event, observes=observes)
        return unheard.run if awaits else unheard.run_sync
    settle, judge = _settling(event, dry_run=dry_run)
    stages = []
    for _, group in groupby(enumerate(bindings), _stage_of):
        numbered = tuple(group)
        first, one = numbered[0]  # In what follows those of a stage are alike.
        stages.append(
            Stage(
                rows=tuple([(each, _function(verb, each, outside)) for _, each in numbered]),
                first=first,
                settle=judge if one.kind == "guard" else settle,
                own=first > 0 and not observes,
                is_async=one.is_async and verb != "apply_sync",
                judging=one.kind == "guard",
            )
        )
    dispatch = Dispatch(event, tuple(stages), outside, observes=observes)
    return dispatch.run if awaits else dispatch.run_sync


class Unheard:
    """Dispatches *event*, to which nobody listens: there is nothing to do, nor to count."""

    __slots__ = ("_event", "_observes")

    def __init__(self, event: Event, *, observes: bool) -> None:
        self._event, self._observes = event, observes

    def run_sync(
        self, value: Any, scope: Scope, more: Details | None = None
    ) -> EventContext[Any] | None:
        """Return the context, for a transform event."""
        if self._observes:
            return None
        context = begun(self._event, value, scope, more)
        context._mine = OVER
        return context

    async def run(
        self, value: Any, scope: Scope, more: Details | None = None
    ) -> EventContext[Any] | None:
        """Do the same for the verbs that are awaited."""
        return self.run_sync(value, scope, more)


def _stage_of(numbered: tuple[int, Binding]) -> tuple[object, ...]:
    """Return what is equal for handlers of one stage, which share their contexts."""
    number, binding = numbered
    # What an async handler writes after its turn must not come in, so it shares with nobody; and
    # nothing that transformers write once the guards have begun. From observers nothing comes in.
    shares = binding.kind == "observer" or not binding.is_async
    return binding.kind, binding.is_async, None if shares else number


def _settling(event: Event, *, dry_run: bool) -> tuple[Settle, Settle]:
    """Return what settles what transformers or observers gave, and what guards gave."""
    if isinstance(event, TransformEvent):
        settling = Settling(event, dry_run=dry_run)
        return settling.settle, settling.judge
    disregarding = Disregarding(event)
    return disregarding.settle, disregarding.settle


def _function(verb: Verb, binding: Binding, outside: Outside) -> Callable[..., Any]:
    """Return what runs *binding*, or queues it; its predicate, if it has one, is asked first."""
    predicate, function = binding.predicate, binding.function
    if verb == "apply_sync" and binding.blocking is not None:
        function = binding.blocking
    elif verb == "do" and binding.is_async and outside.put is not None:
        return partial(_queue, outside.put, binding)
    elif binding.is_async and predicate is not None:
        return partial(_ask_and_await, predicate, function)
    return function if predicate is None else partial(_ask, predicate, function)


def _ask(predicate: Gate, function: Callable[..., Any], context: EventContext[Any]) -> Any:
    return function(context) if predicate(context) else SKIPPED


async def _ask_and_await(
    predicate: Gate, function: Callable[..., Any], context: EventContext[Any]
) -> Any:
    return await function(context) if predicate(context) else SKIPPED


def _queue(
    put: Callable[..., None], binding: Binding, queues: object, context: EventContext[Any]
) -> Any:
    if binding.predicate is not None and not binding.predicate(context):
        return SKIPPED
    return put(queues, binding, context)
