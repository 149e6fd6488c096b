"""The arguments that a handler looks up by name in a call, and calls that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import force_setattr, replace

from toolbus.events.catalogue import ToolCallFailure
from toolbus.messages.immutable import FrozenDict, freeze, thaw
from toolbus.messages.records import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Path: TypeAlias = tuple[str, ...]
"""The path of an argument: its keys, with `_ITEM` for the items of a list."""
_ITEM = "[]"
NOTHING: Any = ...
"""The answer that leaves an argument missing."""
# Models may give any type; a handler may look into objects and into lists of them.
ANSWERS: tuple[Any, ...] = (NOTHING, None, True, 0, "", "a", [], {}, ["a"], [{}])


class ArgumentLookups:
    """The arguments that a handler looks up by name: the *missed* ones, and the found ones.

    Iteration over all arguments is not a lookup. A missed argument gets the next of *answers*, also
    inside of an earlier answer.
    """

    def __init__(self, answers: Iterable[Any] = ()) -> None:
        self._answers = iter(answers)
        self.missed: dict[Path, None] = {}
        self._answered: set[Path] = set()

    @property
    def unanswered(self) -> list[str]:
        """The arguments that were never found, as code: `arguments['edit']['path']`."""
        return [_code(path) for path in self.missed if path not in self._answered]

    def attach(self, value: Any) -> Any:
        """Return *value* with arguments that record each lookup, if it is about one call."""

        def noted(call: ToolCall) -> ToolCall:
            copy = replace(call)
            # The constructor would convert it to a plain `FrozenDict`.
            force_setattr(copy, "arguments", ObservedArguments.of(call.arguments, self, ()))
            return copy

        return _changed(value, noted)

    def chosen(self, value: Any) -> Any:
        """Return the attached *value* with plain arguments: only those that were looked up."""
        names = {path[0] for path in (*self.missed, *self._answered)}

        def plain(call: ToolCall) -> ToolCall:
            arguments = thaw(call.arguments)
            asked = {name: argument for name, argument in arguments.items() if name in names}
            return replace(call, arguments=asked if names else arguments)

        return _changed(value, plain)

    def ask(self, path: Path, arguments: FrozenDict) -> None:
        """Record a lookup of *path*, whose last name is looked up in *arguments*."""
        if dict.__contains__(arguments, path[-1]):
            self._answered.add(path)
        elif path not in self.missed:
            self.missed[path] = None
            if (answer := next(self._answers, NOTHING)) is not NOTHING:
                dict.__setitem__(arguments, path[-1], freeze(answer))


class ObservedArguments(FrozenDict):
    """Arguments at *path* that report to *lookups*; equal to a plain dict, and encoded as one.

    Only access by name is a lookup; iteration is not.
    """

    __slots__ = ("_lookups", "_path")

    _lookups: ArgumentLookups
    _path: Path

    @classmethod
    def of(cls, value: Any, lookups: ArgumentLookups, path: Path) -> Any:
        """Return *value*, frozen JSON at *path*, as observed arguments; nested ones come later."""
        match value:
            case ObservedArguments():
                return value
            case FrozenDict():
                noted = dict.__new__(cls)
                dict.update(noted, value)
                object.__setattr__(noted, "_lookups", lookups)
                object.__setattr__(noted, "_path", path)
                return noted
            case tuple():
                return tuple([cls.of(item, lookups, (*path, _ITEM)) for item in value])
        return value

    def __getitem__(self, name: str) -> Any:
        self._ask(name)
        noted = self.of(super().__getitem__(name), self._lookups, (*self._path, name))
        # Stored, so that answers inside of it stay.
        dict.__setitem__(self, name, noted)
        return noted

    def __contains__(self, name: object) -> bool:
        self._ask(name)
        return super().__contains__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the argument *name*, else *default*."""
        self._ask(name)
        return self[name] if super().__contains__(name) else default

    def _ask(self, name: object) -> None:
        if isinstance(name, str):
            self._lookups.ask((*self._path, name), self)


# Errors of handlers show the usual class of arguments.
ObservedArguments.__name__ = FrozenDict.__name__


def _changed(value: Any, change: Callable[[ToolCall], ToolCall]) -> Any:
    """Return *value* with *change* applied to its call, if it is a call or a failed one."""
    match value:
        case ToolCall():
            return change(value)
        case ToolCallFailure():
            return replace(value, call=change(value.call))
    return value


def _code(path: Path) -> str:
    return "arguments" + "".join("[…]" if name == _ITEM else f"[{name!r}]" for name in path)
