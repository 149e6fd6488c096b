"""The plan of one event: its handlers as a shape, and the names that the shape's text needs."""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from toolbus.dispatch.contexts import ALONE, First, Shown, again, references
from toolbus.dispatch.details import OVER, SKIPPED, Failed
from toolbus.dispatch.keeping import may_keep
from toolbus.dispatch.settling import Settling
from toolbus.dispatch.showing import Disregarding
from toolbus.dispatch.unrolled import LIMIT, Shape, Slot, Verb, function, text
from toolbus.events import TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.dispatch.bindings import Binding
    from toolbus.events import Event


def shape_of(
    verb: Verb, bindings: tuple[Binding, ...], *, traced: bool, has_strangers: bool
) -> Shape:
    """Return what decides about the text of a dispatch to *bindings*."""
    loops = len(bindings) > LIMIT
    slots = _kinds(verb, bindings) if loops else tuple([_slot(verb, one) for one in bindings])
    return Shape(verb, slots, traced, has_strangers, loops)


def make_plan(
    shape: Shape, event: Event, bindings: tuple[Binding, ...], *, dry_run: bool, **names: Any
) -> Callable[..., Any]:
    """Return the function that dispatches *event* to *bindings*; *names* are the bus's part."""
    if isinstance(event, TransformEvent):
        settling = Settling(event, dry_run=dry_run)
        names |= {"Context": First, "settle": settling.settle, "judge": settling.judge}
    else:
        names |= {"Context": Shown, "settle": Disregarding(event).settle}
    names |= {
        "event": event,
        "Failed": Failed,
        "SKIPPED": SKIPPED,
        "OVER": OVER,
        "references": references,
        "ALONE": ALONE,
        "again": again,
        "now": perf_counter_ns,
        "bindings": bindings,
    }
    names |= _rows(shape, bindings) if shape.loops else _numbered(shape, bindings)
    file = f"<toolbus {shape.verb} {event.name}>"
    names["sister"] = Sister(partial(function, shape._replace(crowded=True), names, file))
    return function(shape, names, file)


class Sister:
    """A function that is made when it is first called, since most never are."""

    __slots__ = ("_function", "_make")

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        self._function = self._function or self._make()
        return self._function(*arguments)


def explanation(event: Event, bindings: tuple[Binding, ...], shapes: Iterable[Shape]) -> str:
    """Return the texts of the plans for *shapes*, under the handlers that they speak of."""
    lines = [f"# {event.name}: {len(bindings)} handlers"]
    for number, binding in enumerate(bindings):
        place = f", {binding.where}" if binding.where else ""
        lines.append(f"# h{number}: {binding.kind} {binding.name}, {binding.priority}{place}")
    return "\n".join([*lines, *[text(shape) for shape in shapes]])


def _slot(verb: Verb, binding: Binding) -> Slot:
    gate = binding.predicate is not None
    return Slot(
        is_guard=binding.kind == "guard",
        is_async=binding.is_async and verb != "apply_sync",
        has_gate=gate,
        # A predicate gets the context too.
        may_keep=verb in {"apply", "apply_sync"} and (gate or may_keep(_call(verb, binding))),
    )


def _kinds(verb: Verb, bindings: tuple[Binding, ...]) -> tuple[Slot, ...]:
    """Return a slot for the transformers or observers, and one for the guards, if any."""
    is_async = verb != "apply_sync" and any(binding.is_async for binding in bindings)
    kinds = sorted({binding.kind == "guard" for binding in bindings})
    return tuple([Slot(is_guard=kind, is_async=is_async, may_keep=True) for kind in kinds])


def _call(verb: Verb, binding: Binding) -> Callable[..., Any]:
    return binding.blocking if verb == "apply_sync" and binding.blocking else binding.function


def _numbered(shape: Shape, bindings: tuple[Binding, ...]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for number, binding in enumerate(bindings):
        names[f"b{number}"], names[f"h{number}"] = binding, _call(shape.verb, binding)
        names[f"g{number}"] = binding.predicate
    return names


def _rows(shape: Shape, bindings: tuple[Binding, ...]) -> dict[str, Any]:
    transformers: list[tuple[Any, ...]] = []
    guards: list[tuple[Any, ...]] = []
    for binding in bindings:
        later = binding.is_async and shape.verb != "apply_sync"
        row = (binding, _call(shape.verb, binding), binding.predicate, later)
        (guards if binding.kind == "guard" else transformers).append(row)
    return {"transformers": tuple(transformers), "guards": tuple(guards)}
