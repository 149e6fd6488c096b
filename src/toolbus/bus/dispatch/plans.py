"""The plan of one event: its handlers in groups for the loop, with all that is known before."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolbus.bus.dispatch.contexts import DispatchContext, observer_context
from toolbus.bus.dispatch.details import OVER, QUEUED, SKIPPED
from toolbus.bus.dispatch.loop import Dispatch, Group
from toolbus.bus.dispatch.observers import ObserverResult
from toolbus.bus.dispatch.results import TransformResult
from toolbus.events.catalogue import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.dispatch.loop import ObserverQueues, Surroundings
    from toolbus.bus.dispatch.options import Predicate
    from toolbus.bus.ledger.taps import DispatchRecorder
    from toolbus.events.catalogue import Event, Scope

Verb: TypeAlias = Literal["do", "observe", "apply", "apply_sync"]


def make_plan(
    verb: Verb, event: Event, bindings: tuple[Binding, ...], around: Surroundings, *, dry_run: bool
) -> Callable[..., Any]:
    """Return the function that dispatches *event* to *bindings* with *verb*."""
    awaits = verb in {"apply", "observe"}
    if not (bindings or around.recorder or around.notify):
        unheard = Unheard(event)
        return unheard.run if awaits else unheard.run_sync
    groups = _groups(verb, event, bindings, around.queues, dry_run=dry_run)
    dispatch = Dispatch(event, groups, around.nesting, around.notify)
    run: Callable[..., Any] = dispatch.run if awaits else dispatch.run_sync
    if around.recorder is not None:
        run = partial(_traced, run, around.recorder)
    return run if around.queues is None else partial(_when_ready, run, around.queues, event.name)


def _traced(
    run: Callable[..., Any],
    recorder: DispatchRecorder,
    value: object,
    scope: Scope,
    details: Details | None = None,
) -> Any:
    return run(value, scope, details, recorder.begin(value, scope))


def _when_ready(  # noqa: PLR0917 - the first three are bound, as in `_traced`
    run: Callable[..., Any],
    queues: ObserverQueues,
    event: str,
    value: object,
    scope: Scope,
    details: Details | None = None,
) -> Any:
    queues.ready(event)
    return run(value, scope, details)


class Unheard:
    """Dispatches *event*, to which nobody listens: there is nothing to do, nor to count."""

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


def _groups(
    verb: Verb,
    event: Event,
    bindings: tuple[Binding, ...],
    queues: ObserverQueues | None,
    *,
    dry_run: bool,
) -> tuple[Group, ...]:
    """Return *bindings*, which are in their order, in groups of those that are alike."""
    if isinstance(event, TransformEvent):
        results = TransformResult(event, dry_run=dry_run)
        apply_result, apply_verdict = results.apply_result, results.apply_verdict
    else:
        apply_result = apply_verdict = ObserverResult(event).apply_result
    groups: list[Group] = []
    for _, numbered in groupby(enumerate(bindings), partial(_likeness, verb)):
        alike = [binding for _, binding in numbered]
        first, transforms = alike[0], alike[0].kind != "observer"
        group = Group(
            rows=tuple([(binding, _function(verb, binding, queues)) for binding in alike]),
            apply_result=apply_verdict if first.kind == "guard" else apply_result,
            # From observers nothing comes in, so they may share whatever they are.
            fresh=transforms and bool(groups),
            is_async=first.is_async and verb in {"apply", "observe"},
            alone=transforms and first.is_async,
            judging=first.kind == "guard",
        )
        groups.append(group)
    return tuple(groups)


def _likeness(verb: Verb, numbered: tuple[int, Binding]) -> tuple[object, ...]:
    """Return what is equal for handlers of one group."""
    number, binding = numbered
    # What runs in a thread may write after its turn. `apply` sees to that by itself.
    is_late = binding.is_async and verb == "apply_sync"
    return binding.kind, binding.is_async and verb != "do", number if is_late else None


def _function(verb: Verb, binding: Binding, queues: ObserverQueues | None) -> Callable[..., Any]:
    """Return what runs *binding*, or queues it; its predicate, if it has one, is asked first."""
    predicate, function = binding.predicate, binding.function
    if verb == "apply_sync" and binding.blocking is not None:
        function = binding.blocking
    elif verb == "do" and binding.is_async and queues is not None:
        function = partial(_queue, queues, binding)
    elif binding.is_async and predicate is not None:
        return partial(_ask_and_await, predicate, function)
    return function if predicate is None else partial(_ask, predicate, function)


def _ask(predicate: Predicate, function: Callable[..., Any], context: EventContext[Any]) -> Any:
    return function(context) if predicate(context) else SKIPPED


async def _ask_and_await(
    predicate: Predicate, function: Callable[..., Any], context: EventContext[Any]
) -> Any:
    return await function(context) if predicate(context) else SKIPPED


def _queue(queues: ObserverQueues, binding: Binding, context: EventContext[Any]) -> Any:
    queues.put(binding, observer_context(context))
    return QUEUED
