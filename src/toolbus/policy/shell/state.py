"""What a shell knows at one point of a text, what holds around it, and what is being started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.policy.commands import Redirection, Word
from toolbus.policy.programs.parsed_command import is_one

if TYPE_CHECKING:
    from toolbus.policy.shell.syntax import FunctionNode

# What the shell itself sets, so that an assignment says nothing of the value.
DYNAMIC = frozenset(
    """_ BASHOPTS BASHPID BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_COMMAND BASH_LINENO BASH_REMATCH
    BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO COLUMNS COPROC DIRSTACK EPOCHREALTIME EPOCHSECONDS
    EUID FUNCNAME GROUPS HISTCMD LINENO LINES MAPFILE OLDPWD OPTARG OPTIND PIPESTATUS PPID PWD
    RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM UID""".split()
)
# What the shell runs, or reads commands by, as soon as it holds something.
RUN_BY_SHELL = frozenset("BASH_ALIASES BASH_CMDS BASH_ENV PROMPT_COMMAND PS0 PS1 PS4".split())
# In shells of POSIX no function stands for these, and what is set in front of them stays.
SPECIAL_BUILTINS = frozenset(
    """: . break continue eval exec exit export readonly return set shift source times trap
    unset""".split()
)
# What the shell itself keeps a number in.
_NUMBERS = frozenset(
    """# ? $ BASHPID BASH_SUBSHELL COLUMNS EPOCHSECONDS EUID HISTCMD LINENO LINES OPTIND PIPESTATUS
    PPID RANDOM SECONDS SHLVL SRANDOM UID""".split()
)


UNKNOWN = Word("", known=False)
NUMBER = Word("a number", known=False)


class FunctionDefinition:
    """A function, and the text that it is a piece of."""

    __slots__ = ("data", "node")

    def __init__(self, node: FunctionNode, data: bytes) -> None:
        self.node, self.data = node, data


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


class Run(Struct, frozen=True):
    """What a statement says of the program that it starts, beside its words."""

    source: str
    place: int
    """Where its command belongs in the reading: before those that stand in its words."""
    redirections: tuple[Redirection, ...] = ()
    stdin: str | None = None
    has_stdin: bool = False
    """Whether it has an input of its own, be it known or not."""
    settings: tuple[tuple[str, Word], ...] = ()
    functions: bool = True
    """Whether a function may be meant."""
    shell: bool = True
    """Whether a builtin of this shell may be meant."""


class ShellState(Struct):
    """What is known at one point; whoever may go two ways, takes a `copy` for the second."""

    folder: str | None = "."
    failed: str | None = None
    """The folder that a ``cd`` could not enter, where that is why this point is reached."""
    assumed: tuple[str, ...] = ()
    """The folders that must exist, for *folder* to be right."""
    previous: str | None = None
    variables: dict[str, Word] = {}
    inherited: frozenset[str] = frozenset()
    """Variables that a shell around this one may have passed on."""
    functions: dict[str, FunctionDefinition | None] = {}
    """By name; None of one that may be defined in several ways."""
    positional: tuple[Word, ...] | None = None
    splits: bool = True
    """Whether unquoted variables are split at blanks, and nowhere else."""
    globs: bool = True
    """Whether patterns mean what they usually mean."""

    def copy(self) -> ShellState:
        """Return a second state, which may change alone."""
        return replace(self, variables=dict(self.variables), functions=dict(self.functions))

    def replace_with(self, other: ShellState) -> None:
        """Take over all that *other* knows."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    def forget(self) -> None:
        """Forget what the variables hold."""
        self.variables = dict.fromkeys(self.variables, UNKNOWN)

    def assign(self, name: str, value: Word) -> None:
        """Set the variable *name*, as far as anybody can know what it holds then."""
        self.variables[name] = UNKNOWN if name in DYNAMIC else value
        if name == "IFS":
            self.splits = False
        elif name == "GLOBIGNORE":
            self.globs = False

    def value(self, name: str) -> Word | None:
        """Return what *name* holds; None of a variable that this text does not set."""
        if name in self.variables:
            return self.variables[name]
        if name.isdigit():
            return self._parameter(int(name) - 1)
        if self.is_number(name):
            return NUMBER
        if name == "HOME":
            return Word("~", pattern=True)
        if name == "PWD" and self.folder is not None and self.folder.startswith("/"):
            return Word(self.folder)
        return UNKNOWN if self.is_set(name) else None

    def _parameter(self, index: int) -> Word:
        """Return the value of a positional parameter; the shell's name comes before the first."""
        if self.positional is None or index < 0:
            return UNKNOWN
        if not all(map(is_one, self.positional[:index])):
            return UNKNOWN  # What a pattern became may stand here, too.
        inside = index < len(self.positional)
        return self.positional[index] if inside else Word("")

    def shift(self, count: int) -> None:
        """Drop the first *count* positional parameters."""
        words = self.positional or ()
        known = self.positional is not None and all(map(is_one, words[:count]))
        self.positional = words[count:] if known else None

    def is_set(self, name: str) -> bool:
        """Return whether this text, or the shell itself, may have set *name*."""
        return name in self.variables or name in DYNAMIC or name in self.inherited

    def is_number(self, name: str) -> bool:
        """Return whether the shell keeps a number in *name*, and this text has not touched it."""
        return name in _NUMBERS and name not in self.variables and name not in self.inherited

    def merge(self, other: ShellState) -> None:
        """Keep what holds here as well as in *other*: the text may have come either way."""
        self._merge_folders(other)
        for name in self.variables.keys() | other.variables.keys():
            if self.variables.get(name) != other.variables.get(name):
                self.variables[name] = UNKNOWN
        for name in other.functions.keys() | self.functions.keys():
            if self.functions.get(name) != other.functions.get(name):
                self.functions[name] = None
        if self.positional != other.positional:
            self.positional = None
        self.splits = self.splits and other.splits
        self.globs = self.globs and other.globs

    def _merge_folders(self, other: ShellState) -> None:
        assumed = {*self.assumed, *other.assumed}
        if self.folder == other.folder:
            self.failed = self.failed if self.failed == other.failed else None
        elif other.failed is not None and self.failed is None:
            assumed |= {other.failed} - {"."}
        elif self.failed is not None and other.failed is None:
            assumed |= {self.failed} - {"."}
            self.folder, self.failed = other.folder, None
        else:
            self.folder = self.failed = None
        self.assumed = tuple(sorted(assumed))
        if self.previous != other.previous:
            self.previous = None
