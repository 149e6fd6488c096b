"""The state of a shell at one point of a text, its scope, and the program being started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.policy.commands import Redirection, Word
from toolbus.policy.programs.parsed_command import is_one

if TYPE_CHECKING:
    from toolbus.policy.shell.syntax import FunctionNode

# Variables that the shell itself sets, so that an assignment does not determine the value.
DYNAMIC = frozenset(
    """_ BASHOPTS BASHPID BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_COMMAND BASH_LINENO BASH_REMATCH
    BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO COLUMNS COPROC DIRSTACK EPOCHREALTIME EPOCHSECONDS
    EUID FUNCNAME GROUPS HISTCMD LINENO LINES MAPFILE OLDPWD OPTARG OPTIND PIPESTATUS PPID PWD
    RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM UID""".split()
)
# Variables whose value the shell runs, or uses to read commands.
RUN_BY_SHELL = frozenset("BASH_ALIASES BASH_CMDS BASH_ENV PROMPT_COMMAND PS0 PS1 PS4".split())
# In POSIX shells no function replaces these, and variables set in front of them persist.
SPECIAL_BUILTINS = frozenset(
    """: . break continue eval exec exit export readonly return set shift source times trap
    unset""".split()
)
# Variables in which the shell itself keeps a number.
_NUMBERS = frozenset(
    """# ? $ BASHPID BASH_SUBSHELL COLUMNS EPOCHSECONDS EUID HISTCMD LINENO LINES OPTIND PIPESTATUS
    PPID RANDOM SECONDS SHLVL SRANDOM UID""".split()
)


UNKNOWN = Word("", known=False)
NUMBER = Word("a number", known=False)


class FunctionDefinition:
    """A function, and the text that contains it."""

    __slots__ = ("data", "node")

    def __init__(self, node: FunctionNode, data: bytes) -> None:
        self.node, self.data = node, data


class ShellScope(Struct, frozen=True):
    """The context shared by all commands of a piece of text."""

    inside: tuple[str, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    stdin: str | None = None
    piped: bool = False
    rewired: bool = False
    calls: tuple[str, ...] = ()
    """Functions that are running."""
    settings: tuple[tuple[str, Word], ...] = ()
    """Variables that a shell inherits from an outer shell."""

    def through(self, wrapper: str) -> ShellScope:
        """Return the scope inside *wrapper*."""
        return replace(self, inside=(*self.inside, wrapper))


class ProgramStart(Struct, frozen=True):
    """The details of a program start, besides its words."""

    source: str
    place: int
    """The index of its command among all commands read; those inside its words come later."""
    redirections: tuple[Redirection, ...] = ()
    stdin: str | None = None
    has_stdin: bool = False
    """Whether its standard input is redirected, to a known text or not."""
    redirected: bool = False
    """Whether it has any redirection, also of a descriptor."""
    rewired: bool = False
    """As `Command.rewired`, by its own redirections."""
    settings: tuple[tuple[str, Word], ...] = ()
    functions: bool = True
    """Whether the name may be a function."""
    shell: bool = True
    """Whether the name may be a builtin of this shell."""


class ShellState(Struct):
    """The knowledge at one point of a text; a branch works on a `copy`."""

    folder: str | None = "."
    failed: str | None = None
    """The folder that a ``cd`` could not enter, if its failure leads to this point."""
    assumed: tuple[str, ...] = ()
    """The folders that must exist for *folder* to be right."""
    previous: str | None = None
    variables: dict[str, Word] = {}
    inherited: frozenset[str] = frozenset()
    """Variables that an outer shell may have passed on."""
    functions: dict[str, FunctionDefinition | None] = {}
    """By name; None for several possible definitions."""
    positional: tuple[Word, ...] | None = None
    splits: bool = True
    """Whether unquoted variables are split at blanks only."""
    globs: bool = True
    """Whether patterns have their default meaning."""

    def copy(self) -> ShellState:
        """Return an independent copy."""
        return replace(self, variables=dict(self.variables), functions=dict(self.functions))

    def replace_with(self, other: ShellState) -> None:
        """Replace the contents with those of *other*."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    def forget(self) -> None:
        """Mark the values of all variables as unknown."""
        self.variables = dict.fromkeys(self.variables, UNKNOWN)

    def assign(self, name: str, value: Word) -> None:
        """Set the variable *name* to *value*, or to unknown if the shell sets it itself."""
        self.variables[name] = UNKNOWN if name in DYNAMIC else value
        if name == "IFS":
            self.splits = False
        elif name == "GLOBIGNORE":
            self.globs = False

    def value(self, name: str) -> Word | None:
        """Return the value of *name*; None for a variable that this text does not set."""
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
            return UNKNOWN  # The expansion of an earlier pattern may shift the parameters.
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
        """Return whether the shell keeps a number in *name*, unchanged by this text."""
        return name in _NUMBERS and name not in self.variables and name not in self.inherited

    def merge(self, other: ShellState) -> None:
        """Keep the facts that are true in both states: either may lead to this point."""
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
