"""The functions that dispatch: one for each row of handlers, written for it and compiled.

For an event with the handlers `h0` and `h1` there is one line `result = h0(context)` and one line
`result = h1(context)`, each with a call site of its own, which the interpreter makes fast for that
very function; whether a handler is async, is asked beforehand or may keep its context is decided
when the text is written, and costs nothing where it is not so. What a
handler gave is looked at only if it is not None. The text depends on the *shape* alone, so it is
compiled once per shape; each function gets a copy of the code, because the interpreter
keeps what it learned about a call in the code itself. From `LIMIT` handlers on it is a loop, since
compiling takes longer the more there are. `EventBus.explain` prints the text.
"""

from __future__ import annotations

from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolbus.dispatch.turns import CROWD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LIMIT = 128
"""How many handlers are written out; more are looped over."""

Verb: TypeAlias = Literal["do", "observe", "apply", "apply_sync"]


class Slot(NamedTuple):
    """What the text must know of a handler: whether it is a guard, is async, and so on."""

    is_guard: bool = False
    is_async: bool = False
    has_gate: bool = False
    may_keep: bool = False


class Shape(NamedTuple):
    """All that decides about the text; if it *loops*, a slot stands for all of its kind.

    Each has a sister that is *crowded*, to which it hands over when `CROWD` are under way.
    """

    verb: Verb
    slots: tuple[Slot, ...]
    traced: bool = False
    has_strangers: bool = False
    loops: bool = False
    crowded: bool = False

    @property
    def transforms(self) -> bool:
        """Whether values can change."""
        return self.verb in {"apply", "apply_sync"}

    @property
    def awaits(self) -> bool:
        """Whether it is a coroutine function."""
        return self.verb in {"apply", "observe"}

    @property
    def queues(self) -> bool:
        """Whether async handlers get the context later."""
        return self.verb == "do" and any(slot.is_async for slot in self.slots)


def function(shape: Shape, names: dict[str, Any], file: str) -> Callable[..., Any]:
    """Return the function for *shape*; *names* are what its text calls by name.

    A `CellType` in *names* is shared: what one function writes into it another one reads.
    """
    code = _code(shape).replace(co_filename=file, co_qualname=shape.verb)
    cells = [names[name] for name in code.co_freevars]
    closure = tuple([one if type(one) is CellType else CellType(one) for one in cells])
    return FunctionType(code, {}, code.co_name, None, closure)


def text(shape: Shape) -> str:
    """Return the text of the function for *shape*."""
    return "\n".join(_lines(shape))


@lru_cache(maxsize=1024)
def _code(shape: Shape) -> CodeType:
    # Names of the function that it does not bind itself are made free variables by an outer one.
    names = ", ".join(_free(shape))
    outer = f"def outer({names}):\n" + "\n".join(_indented(_lines(shape)))
    module = compile(outer, "<toolbus>", "exec")
    return _inner(_inner(module))


def _inner(code: CodeType) -> CodeType:
    return next(one for one in code.co_consts if isinstance(one, CodeType))


_FREE = (
    *("event", "Context", "settle", "judge", "Failed", "SKIPPED", "OVER", "again"),
    *("references", "ALONE", "now", "begin", "broken", "finished", "tell", "ready", "put"),
    *("enter", "leave", "busy", "sister", "bindings", "transformers", "guards"),
)


def _free(shape: Shape) -> Iterator[str]:
    yield from _FREE
    if not shape.loops:
        for number in range(len(shape.slots)):
            yield from (f"h{number}", f"b{number}", f"g{number}")


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _lines(shape: Shape) -> Iterator[str]:
    more = ", more" if shape.transforms else ""
    yield f"{'async ' if shape.awaits else ''}def {shape.verb}(value, scope{more}):"
    if not (shape.slots or shape.traced or shape.has_strangers):
        yield from _indented(_nobody(shape))
        return
    yield "    nonlocal busy"
    yield from _indented(_head(shape))
    yield "    try:"
    yield from _indented(_indented(_middle(shape)))
    yield "    finally:"
    yield from _indented(_indented(_end(shape)))


def _nobody(shape: Shape) -> Iterator[str]:
    if not shape.transforms:
        yield "pass"
        return
    yield from _context(shape, "OVER")
    yield "return context"


def _head(shape: Shape) -> Iterator[str]:
    if shape.queues:
        yield "queues = ready()"
    if not shape.crowded:
        more = ", more" if shape.transforms else ""
        awaits = "await " if shape.awaits else ""
        yield f"if busy >= {CROWD}: return {awaits}sister(value, scope{more})"
    yield from _context(shape)
    if shape.traced:
        yield "trace, end = begin(value, scope), broken"
    if shape.crowded:
        yield "token = enter()"
    yield "busy += 1"


def _context(shape: Shape, mine: str = "None") -> Iterator[str]:
    yield "context = Context()"
    yield "context._event, context._scope = event, scope"
    yield f"context._value, context._mine = value, {mine}"
    if shape.transforms:
        yield "context._more = more"


def _middle(shape: Shape) -> Iterator[str]:
    guards = sum(slot.is_guard for slot in shape.slots)
    first_guard = len(shape.slots) - guards
    if first_guard:
        yield from _row(shape, "transformers", range(first_guard))
    if guards:
        if shape.traced:
            end = "len(transformers)" if shape.loops else first_guard
            yield f"trace.missing(bindings[trace.turns:{end}])"
        yield "if context._more is None or not context._more.closed:"
        yield from _indented(_row(shape, "guards", range(first_guard, len(shape.slots))))
    if shape.traced:
        yield "end = finished"
    if shape.has_strangers:
        yield "tell(context)"
    if shape.transforms:
        yield "return context"


def _end(shape: Shape) -> Iterator[str]:
    if shape.transforms:
        yield "context._mine = OVER"
    counted = ["busy -= 1", *(["leave(token)"] if shape.crowded else [])]
    if not shape.traced:
        yield from counted
        return
    # Sinks may dispatch, so they count as inside.
    yield "try: end(trace, context)"
    yield "finally:"
    yield from _indented(counted)


def _row(shape: Shape, name: str, numbers: range) -> Iterator[str]:
    """Give each of *numbers* its turn; a verdict breaks out."""
    if shape.loops:
        yield f"for b, h, g, is_async in {name}:"
        yield from _indented(_turn(shape, shape.slots[numbers[0]], ""))
        return
    if shape.transforms:
        yield "while True:"
        for number in numbers:
            yield from _indented(_turn(shape, shape.slots[number], str(number)))
        yield "    break"
        return
    for number in numbers:
        yield from _turn(shape, shape.slots[number], str(number))


def _turn(shape: Shape, slot: Slot, number: str) -> Iterator[str]:
    ends = "closed" if slot.is_guard else "over"
    if shape.traced:
        yield "since = now()"
    yield f"try: result = {_call(shape, slot, number)}"
    yield "except BaseException as error: result = Failed(error)"
    yield "if result is not context._mine:"
    traced = "trace, since" if shape.traced else "None, 0"
    settle = "judge" if slot.is_guard else "settle"
    yield f"    context = {settle}(b{number}, context, result, {traced})"
    yield "    result = None"
    if shape.transforms:
        yield f"    if context._more is not None and context._more.{ends}: break"
    keeps = shape.transforms and (slot.may_keep or shape.loops)
    if shape.traced:
        yield f"else: trace.ran({', '.join(_ran(shape, slot, number))})"
    if keeps:
        asked = "if" if shape.traced else "elif"
        yield f"{asked} references(context) != ALONE: context = again(context)"


def _ran(shape: Shape, slot: Slot, number: str) -> Iterator[str]:
    yield f"b{number}"
    yield "since"
    if shape.queues and shape.loops:
        yield '"queued" if is_async else "ran"'
    elif shape.queues and slot.is_async:
        yield '"queued"'


def _call(shape: Shape, slot: Slot, number: str) -> str:
    call = f"h{number}(context)"
    if slot.is_async:
        later = f"put(queues, b{number}, context)" if shape.queues else f"await {call}"
        call = f"({later} if is_async else {call})" if shape.loops else later
    if shape.loops:
        return f"{call} if g is None or g(context) else SKIPPED"
    return f"{call} if g{number}(context) else SKIPPED" if slot.has_gate else call
