"""What a handler asks calls for: which arguments, and whether a case ever had them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import force_setattr, replace

from toolbus.events.catalogue import ToolCallFailure
from toolbus.messages.immutable import FrozenDict
from toolbus.messages.records import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Path: TypeAlias = tuple[str, ...]
"""Where an argument stands: the keys that lead to it, `_ITEM` for what is in a list."""
_ITEM = "[]"
# Models give every type in any case; a handler may look into objects and lists of them.
_LEAF = {"type": ["string", "object", "array"], "items": {"type": ["object", "string"]}}
_ANSWERS: tuple[Any, ...] = (None, True, 0, "", "a", [], {}, ["a"], [{}])


class Questions:
    """The arguments that a handler asked for by name and once did not find.

    Whoever walks through all arguments asks for none of them.
    """

    def __init__(self) -> None:
        self._missed: dict[Path, None] = {}
        self._tried: set[Path] = set()
        self._answered: set[Path] = set()

    @property
    def asked(self) -> frozenset[Path]:
        """All that was asked for and not there, at least once."""
        return frozenset(self._missed)

    @property
    def unanswered(self) -> list[str]:
        """What was never there, as code: `arguments['edit']['path']`."""
        return [_code(path) for path in self._missed if path not in self._answered]

    def attach(self, value: Any) -> Any:
        """Return *value* with arguments that tell what they are asked for, if it has any."""
        match value:
            case ToolCall():
                call = replace(value)
                # The constructor would make a plain `FrozenDict` of it.
                force_setattr(call, "arguments", NotedArguments.of(value.arguments, self.note, ()))
                return call
            case ToolCallFailure():
                return replace(value, call=self.attach(value.call))
        return value

    def note(self, path: Path, *, is_there: bool) -> None:
        """Note that somebody asked for the argument at *path*."""
        if is_there:
            self._answered.add(path)
        else:
            self._missed[path] = None

    def answers(self) -> Iterator[dict[str, Any]]:
        """Give arguments with each JSON type in each place that was asked for and not tried yet.

        Once with nothing else in them, and once beside texts for all else that was asked for.
        """
        for path in [path for path in self._missed if path not in self._tried]:
            self._tried.add(path)
            beside = {name: "a" for name, *below in self._missed if not below}
            for value in _ANSWERS:
                arguments = value
                for name in reversed(path):
                    arguments = [arguments] if name == _ITEM else {name: arguments}
                yield arguments
                yield {**beside, **arguments}

    def schema(self, path: Path = ()) -> dict[str, Any]:
        """Return the schema of arguments, or of the one at *path*, with all that was asked for."""
        depth = len(path)
        below = [each for each in self._missed if len(each) > depth and each[:depth] == path]
        names = dict.fromkeys(each[depth] for each in below)
        if _ITEM in names:
            return {"type": "array", "items": self.schema((*path, _ITEM))}
        if not names and path:
            return _LEAF
        properties = {name: self.schema((*path, name)) for name in names}
        return {"type": "object", "properties": properties}


class NotedArguments(FrozenDict):
    """Arguments that tell *note* of each lookup; equal to a like dict, and encoded as that."""

    __slots__ = ("_note", "_path")

    _note: Callable[..., None]
    _path: Path

    @classmethod
    def of(cls, value: Any, note: Callable[..., None], path: Path) -> Any:
        """Return *value*, frozen JSON at *path*, with such objects; what is below follows later.

        Only what is looked up by name is noted, so walking through all of it asks for nothing.
        """
        match value:
            case FrozenDict():
                noted = dict.__new__(cls)
                dict.update(noted, value)
                object.__setattr__(noted, "_note", note)
                object.__setattr__(noted, "_path", path)
                return noted
            case tuple():
                return tuple([cls.of(item, note, (*path, _ITEM)) for item in value])
        return value

    def __getitem__(self, name: str) -> Any:
        # Asked first, so that it is noted, and dict's own error is raised.
        path = self._ask(name)
        return self.of(super().__getitem__(name), self._note, path)

    def __contains__(self, name: object) -> bool:
        self._ask(name)
        return super().__contains__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the argument *name*, else *default*."""
        path = self._ask(name)
        return self.of(super().get(name, default), self._note, path)

    def _ask(self, name: Any) -> Path:
        path = (*self._path, name)
        if isinstance(name, str):
            self._note(path, is_there=super().__contains__(name))
        return path


# A handler's error speaks of the class that arguments have elsewhere.
NotedArguments.__name__ = FrozenDict.__name__


def _code(path: Path) -> str:
    return "arguments" + "".join("[…]" if name == _ITEM else f"[{name!r}]" for name in path)
