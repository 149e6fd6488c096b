"""The arguments that a handler asks a call for by name, and calls that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import force_setattr, replace

from toolbus.events.catalogue import ToolCallFailure
from toolbus.messages.immutable import FrozenDict, freeze, thaw
from toolbus.messages.records import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Path: TypeAlias = tuple[str, ...]
"""The place of an argument: the keys that lead to it, `_ITEM` for the items of a list."""
_ITEM = "[]"
NOTHING: Any = ...
"""The answer that leaves a question open."""
# Models give every type in any case; a handler may look into objects and lists of them.
ANSWERS: tuple[Any, ...] = (NOTHING, None, True, 0, "", "a", [], {}, ["a"], [{}])
# A handler that asks for ever deeper or ever new arguments is left at that.
_MOST_ROUTES = 2_000


class Questions:
    """The arguments that a handler asked for by name: those it missed, and those it found.

    A handler that walks through all arguments asks for none of them.
    """

    def __init__(self) -> None:
        self.missed: dict[Path, None] = {}
        self.answered: set[Path] = set()
        # Of one call: the arguments that were missed, and the names of all that was asked for.
        self._asked: list[Path] = []
        self.names: set[str] = set()

    @property
    def unanswered(self) -> list[str]:
        """The arguments that no call had, as code: `arguments['edit']['path']`."""
        return [_code(path) for path in self.missed if path not in self.answered]

    def routes(self) -> Iterator[tuple[Any, ...]]:
        """Give answers for calls to come: to each question that they raise, each JSON type."""
        routes: list[tuple[Any, ...]] = [()]
        followed = set[Path]()
        for route in routes:
            self._asked = []
            yield route
            # The question to which these answers lead.
            path = next(iter(self._asked[len(route) :]), None)
            if path is not None and path not in followed and len(routes) < _MOST_ROUTES:
                followed.add(path)
                routes += [(*route, answer) for answer in ANSWERS]

    def attach(self, value: Any) -> Any:
        """Return *value* with arguments that note each question, if it is about one call."""
        return _changed(value, lambda call: self._noted(call, None))

    def answer(self, value: Any, answers: Iterable[Any], run: Callable[[Any], object]) -> Any:
        """Return *value* with the arguments that *run* asks it for, as far as there are *answers*.

        Each argument that is missed gets the next answer, also below one that was given so. What
        nothing asked for is left out, if anything was.
        """
        self._asked, self.names = [], set()
        open_value = _changed(value, lambda call: self._noted(call, iter(answers)))
        run(open_value)
        names = self.names

        def closed(call: ToolCall) -> ToolCall:
            arguments = thaw(call.arguments)
            chosen = {name: value for name, value in arguments.items() if name in names}
            return replace(call, arguments=chosen if names else arguments)

        return _changed(open_value, closed)

    def note_missed(self, path: Path) -> bool:
        """Note that the argument at *path* was missed; return whether it is the first time here."""
        is_new = path not in self._asked
        self.missed[path] = None
        self._asked += [path] * is_new
        return is_new

    def _noted(self, call: ToolCall, answers: Iterator[Any] | None) -> ToolCall:
        noted = replace(call)
        # The constructor would make a plain `FrozenDict` of it.
        force_setattr(noted, "arguments", NotedArguments.of(call.arguments, self, answers))
        return noted


class NotedArguments(FrozenDict):
    """Arguments that note each question; equal to a like dict, and encoded as that.

    Only a look-up by name is a question, so walking through all of them asks for nothing. With
    *answers* it is a rehearsal: what is missed there is put in, and nothing counts as found.
    """

    __slots__ = ("_answers", "_path", "_questions")

    _questions: Questions
    _answers: Iterator[Any] | None
    _path: Path

    @classmethod
    def of(
        cls, value: Any, questions: Questions, answers: Iterator[Any] | None, path: Path = ()
    ) -> Any:
        """Return *value*, frozen JSON at *path*, with such objects; those below follow later."""
        match value:
            case NotedArguments():
                return value
            case FrozenDict():
                noted = dict.__new__(cls)
                dict.update(noted, value)
                object.__setattr__(noted, "_questions", questions)
                object.__setattr__(noted, "_answers", answers)
                object.__setattr__(noted, "_path", path)
                return noted
            case tuple():
                return tuple([cls.of(item, questions, answers, (*path, _ITEM)) for item in value])
        return value

    def __getitem__(self, name: str) -> Any:
        self._ask(name)
        path = (*self._path, name)
        noted = self.of(super().__getitem__(name), self._questions, self._answers, path)
        # Kept, so that what is answered below it stays.
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
        if not isinstance(name, str):
            return
        path = (*self._path, name)
        self._questions.names.add(path[0])
        if not super().__contains__(name):
            is_new = self._questions.note_missed(path)
            if is_new and self._answers and (answer := next(self._answers, ...)) is not NOTHING:
                dict.__setitem__(self, name, freeze(answer))
        elif self._answers is None:
            self._questions.answered.add(path)


# A handler's error speaks of the class that arguments have elsewhere.
NotedArguments.__name__ = FrozenDict.__name__


def _changed(value: Any, change: Callable[[ToolCall], ToolCall]) -> Any:
    """Return *value* with *change* of its call, if it is about one that failed or is to run."""
    match value:
        case ToolCall():
            return change(value)
        case ToolCallFailure():
            return replace(value, call=change(value.call))
    return value


def _code(path: Path) -> str:
    return "arguments" + "".join("[…]" if name == _ITEM else f"[{name!r}]" for name in path)
