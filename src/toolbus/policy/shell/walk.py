"""What a walk through a text collects, and the bounds of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from toolbus.policy.commands import Redirection, Unreadable, Word
from toolbus.policy.shell.shell_state import SPECIAL_BUILTINS, Definition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.commands import Command
    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.tree import FunctionNode, Node, Statement

# A text of a person has a few dozen; functions that call each other twice would have thousands.
MAX_COMMANDS = 1000
MAX_DEPTH = 40


class TooMuchError(Exception):
    """A text whose reading has no end that is worth waiting for."""


class ShellScope(Struct, frozen=True):
    """What holds for all commands of a part of a text."""

    inside: tuple[str, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    stdin: str | None = None
    piped: bool = False
    calls: tuple[str, ...] = ()
    """Functions that are running."""
    settings: tuple[tuple[str, Word], ...] = ()
    """Variables that a shell inherits from the one around it."""

    def through(self, wrapper: str) -> ShellScope:
        """Return the scope of what *wrapper* runs."""
        return replace(self, inside=(*self.inside, wrapper))


class ReadList(Protocol):
    """Reads *statements*, which run one after the other; *state* becomes the one behind them."""

    def __call__(
        self,
        statements: tuple[Statement, ...],
        walk: TextWalk,
        state: ShellState,
        scope: ShellScope,
    ) -> None:
        """Add what they run to *walk*."""


class RunWords(Protocol):
    """Reads what *words* run; *state* becomes the one after it, that of a failure is returned."""

    def __call__(
        self, words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
    ) -> ShellState:
        """Add what they run to *walk*."""


class TextWalk:
    """The commands and unreadable pieces of one text, and of those that stand in it as strings."""

    def __init__(self, text: str, read_list: ReadList, run_words: RunWords) -> None:
        self.data = text.encode()
        self.read_list = read_list
        self.run_words = run_words
        self.commands: list[Command] = []
        self.unreadable: list[Unreadable] = []
        self.changing: list[bool] = []
        """Of each command, whether it may move what paths lead to."""
        self.uncalled: dict[int, Definition] = {}
        """The functions that nothing has called yet, by the place of their text."""
        self.depth = 0

    @contextmanager
    def nested(self, data: bytes) -> Iterator[None]:
        """Read another text for a while, *data* in UTF-8: it is what nodes are pieces of."""
        outer, self.data = self.data, data
        try:
            yield
        finally:
            self.data = outer

    def define(self, node: FunctionNode, state: ShellState) -> None:
        """Note the definition of a function."""
        definition = Definition(node, self.data)
        if node.name.value in SPECIAL_BUILTINS:
            self.refuse(node, "a function with the name of a builtin that POSIX calls instead")
        self.uncalled.setdefault(id(node), definition)
        state.functions[node.name.value] = definition

    def source(self, node: Node) -> str:
        """Return the piece of the text that *node* stands for."""
        return self.data[node.pos.offset : node.end.offset].decode(errors="replace")

    def add(self, command: Command, place: int, *, changing: bool) -> None:
        """Put *command* to *place*, in front of those that stand in its words."""
        if len(self.commands) >= MAX_COMMANDS:
            raise TooMuchError
        if any(self.changing):
            command = replace(command, settled=False)
        self.commands.insert(place, command)
        self.changing.insert(place, changing)

    def refuse(self, part: Node | str, reason: str) -> None:
        """Note that nobody can know what *part* runs."""
        source = part if isinstance(part, str) else self.source(part)
        entry = Unreadable(source, reason)
        if entry not in self.unreadable[-8:]:
            self.unreadable.append(entry)
        if len(self.unreadable) >= MAX_COMMANDS:
            raise TooMuchError

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Hold one more level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooMuchError
        try:
            yield
        finally:
            self.depth -= 1

    def unsettle(self, start: int, *, itself: bool = False) -> None:
        """Note that the commands from *start* on run at the same time, or again and again.

        With *itself* a command may change the paths of its own next run.
        """
        changers = [i for i in range(start, len(self.changing)) if self.changing[i]]
        for index in range(start, len(self.commands)):
            if changers and (itself or changers != [index]):
                self.commands[index] = replace(self.commands[index], settled=False)
