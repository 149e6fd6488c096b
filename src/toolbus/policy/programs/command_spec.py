"""What a file says of a program, as `README.md` beside this one explains, and its look-up."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Iterable

Effect: TypeAlias = Literal["read", "write", "network", "destroy", "run-code"]

Kind: TypeAlias = Literal[
    "text",
    "path",
    "tree",
    "names",
    "write",
    "destroy",
    "move",
    "url",
    "host",
    "revision",
    "data",
    "include",
    "exclude",
    "glob",
    "folder",
    "variable",
    "git-setting",
    "script",
    "code",
    "command",
    "wrapped",
    "shell",
    "module",
    "place",
    "none",
]
"""What an argument is, which says what the program does with it."""


class OptionData(Struct, frozen=True, forbid_unknown_fields=True):
    """An option that does more than change what is printed."""

    takes: Kind | None = None
    """What its value is; None if it has none."""
    attached: bool = False
    """Its value may be missing, and stands in the same word: ``-i.bak``, ``--color=never``."""
    pair: bool = False
    """A name stands before its value: ``--arg NAME VALUE``."""
    effects: tuple[Effect, ...] = ()
    """What it adds."""
    instead: tuple[Effect, ...] | None = None
    """With it the command does only this, whatever its operands: ``--dry-run``, ``--list``."""
    harmless: tuple[str, ...] = ()
    """Values with which it adds nothing: ``GET`` of a method."""
    operands: tuple[Kind, ...] | None = None
    """What the operands are with it: ``grep -r`` reads folders."""
    final: Kind | None = None
    """What the last operand is with it."""
    hidden: bool = False
    """With it what begins with a dot is read, too, where the command leaves it out."""
    ignored: bool = False
    """With it what `.gitignore` names is read, too."""
    links: bool = False
    """With it links are followed."""
    implies: tuple[str, ...] = ()
    """Other options that it stands for, as rules may name them."""
    asks: str = ""
    """Why it is always asked about."""
    before: tuple[str, ...] = ()
    """Words that stand before the ``wrapped`` command with it: ``python -m``."""
    appends: bool = False
    """With it the program puts words behind the ``wrapped`` command, whatever places it has."""


class CommandData(Struct, frozen=True, forbid_unknown_fields=True):
    """A program, or one of its subcommands."""

    source: str = ""
    aliases: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    attached: tuple[str, ...] = ()
    options: dict[str, OptionData] = {}
    help: tuple[str, ...] | None = None
    operands: tuple[Kind, ...] | None = None
    final: Kind | None = None
    default: Kind | None = None
    effects: tuple[Effect, ...] = ("read",)
    more_than: dict[str, tuple[Effect, ...]] = {}
    fewer_than: dict[str, tuple[Effect, ...]] = {}
    file_prefixes: tuple[str, ...] = ()
    written_prefixes: tuple[str, ...] = ()
    asks: str = ""
    environment: bool = False
    assigns: bool = False
    elsewhere: bool = False
    opens_shell: bool = False
    appends: bool = False
    places: tuple[str, ...] = ()
    interpreters: dict[str, str] = {}
    runs_itself: bool = False
    reader: str = ""
    stop: bool = False
    words: bool = False
    raw: bool = False
    leads: bool = field(default=False, name="own")
    input: bool = False
    bundle: bool = False
    hidden: bool = True
    ignored: bool = True
    groups: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    commands: dict[str, CommandData] = {}
    alike: tuple[AlikeData, ...] = ()


class AlikeData(CommandData, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Subcommands of which the same is to be said; *names* are paths, each part may be a glob."""

    names: tuple[str, ...]


HELP: tuple[Effect, ...] = ("read",)
_READING = frozenset({None, "text", "path", "tree", "include", "exclude", "glob", "revision"})
RUN_INSIDE: frozenset[Kind | None] = frozenset({"wrapped", "shell"})
"""Kinds of what is a command of its own, or several for a shell."""
_HELPING = frozenset({"--help", "-h", "-help"})


class Option(OptionData, frozen=True, kw_only=True):
    """An option with all its *names*, and whether it only prints how the program is used."""

    names: frozenset[str]
    helps: bool = False

    @property
    def is_harmless(self) -> bool:
        """Whether a word that turns out to be this option makes no more than read something."""
        kinds = {self.takes, self.final, *(self.operands or ())}
        return kinds <= _READING and not (self.effects or self.asks)


class CommandSpec:
    """The *data* of a program or subcommand, *outer* being what it is a subcommand of."""

    def __init__(self, data: CommandData, outer: CommandSpec | None = None) -> None:
        self.data = data
        self.words: bool = data.words
        self.file_prefixes = data.file_prefixes
        self.effects = frozenset(data.effects)
        self.operands = data.operands or ("text",)
        self.options = dict(_options(data, is_program=outer is None))
        self.any_flag = "-*" in self.options
        self.numbers = "-NUM" in self.options
        if outer is not None:
            self._inherit(outer)
        options = self.options.values()
        self.takes_any_option = self.any_flag and all(option.is_harmless for option in options)
        self.reads_files = any(option.takes == "path" or option.operands for option in options)
        self.has_commands = bool(data.commands or data.alike or data.groups)
        self._named = _by_name(data)
        self._globs = [name for name in self._named if is_glob(name)]
        self._beginnings = {*data.groups, *_beginnings(self._named)}
        self._specs: dict[int, CommandSpec] = {}

    def _inherit(self, outer: CommandSpec) -> None:
        """Take over what subcommands share with what they are subcommands of."""
        self.words = self.words or outer.words
        self.file_prefixes = self.file_prefixes or outer.file_prefixes
        if not outer.data.leads:
            self.options = {**outer.inheritable(), **self.options}

    @cached_property
    def wraps(self) -> bool:
        """Whether it may run a command that is judged by itself, be it by a subcommand."""
        return _wraps(self.data)

    def inheritable(self) -> dict[str, Option]:
        """Return the options that subcommands know as well: of what only prints, only help."""
        return {
            name: option
            for name, option in self.options.items()
            if name not in {"-*", "-NUM"} and (not option.helps or name in _HELPING)
        }

    def leads_on(self, groups: tuple[str, ...], word: str) -> bool:
        """Return whether *word* behind *groups* leads on to a subcommand of this same level."""
        return word in self.data.groups or " ".join((*groups, word)) in self._beginnings

    def is_command(self, word: str) -> bool:
        """Return whether *word*, which looks like an option, is a subcommand: ``brew --prefix``."""
        dashed = [glob for glob in self._globs if glob.startswith("-")]
        return word in self._named or any(fnmatchcase(word, glob) for glob in dashed)

    def subcommand(self, groups: tuple[str, ...], word: str) -> tuple[str, CommandSpec] | None:
        """Return the name and level of the subcommand *word* behind *groups*, None if unknown.

        Its path goes before its last word, a name before a glob.
        """
        path = " ".join((*groups, word))
        data = self._named.get(path) or self._by_glob(path, is_path=True)
        data = data or self._named.get(word) or self._by_glob(word, is_path=False)
        if data is None:
            return None
        if id(data) not in self._specs:
            self._specs[id(data)] = CommandSpec(data, self)
        names = [name for name, each in self.data.commands.items() if word in each.aliases]
        return (names[0] if names else word), self._specs[id(data)]

    def _by_glob(self, path: str, *, is_path: bool) -> CommandData | None:
        globs = (glob for glob in self._globs if (" " in glob) == is_path)
        return next((self._named[glob] for glob in globs if fnmatchcase(path, glob)), None)

    def abbreviated(self, text: str) -> list[Option]:
        """Return the options that *text*, a beginning of a long option, may stand for."""
        return [option for name, option in self.options.items() if name.startswith(text)]


def _wraps(data: CommandData) -> bool:
    options = data.options.values()
    kinds = {*(data.operands or ()), *(option.takes for option in options)}
    kinds.update(*(option.operands or () for option in options))
    return not kinds.isdisjoint(RUN_INSIDE) or any(
        map(_wraps, (*data.commands.values(), *data.alike))
    )


def _beginnings(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        words = name.split(" ")
        yield from (" ".join(words[:end]) for end in range(1, len(words)))


def is_glob(name: str) -> bool:
    """Return whether *name* of a file of programs is a pattern of names."""
    return not {*"*?["}.isdisjoint(name)


def _by_name(data: CommandData) -> dict[str, CommandData]:
    named: dict[str, CommandData] = {}
    for alike in data.alike:
        named.update(dict.fromkeys(alike.names, alike))
    for name, command in data.commands.items():
        named.update(dict.fromkeys((name, *command.aliases, *command.also), command))
    return named


def _options(data: CommandData, *, is_program: bool) -> Iterable[tuple[str, Option]]:
    helping = data.help
    if helping is None:
        helping = ("--help", "--version") if is_program else ("--help",)
    for names in helping:
        yield from _named(names, OptionData(instead=HELP), helps=True)
    for names in data.flags:
        for spelling in _spellings(names):
            yield from _named(spelling, OptionData())
    for names in data.values:
        yield from _named(names, OptionData(takes="text"))
    for names in data.attached:
        yield from _named(names, OptionData(takes="text", attached=True))
    for names, option in data.options.items():
        yield from _named(names, option)


def _named(names: str, data: OptionData, *, helps: bool = False) -> Iterable[tuple[str, Option]]:
    all_names = frozenset((*names.split(), *data.implies))
    option = Option(names=all_names, helps=helps, **asdict(data))
    return ((name, option) for name in names.split())


def _spellings(names: str) -> tuple[str, ...]:
    if "[no-]" not in names:
        return (names,)
    negative = " ".join(name for name in names.split() if "[no-]" in name)
    return (names.replace("[no-]", ""), negative.replace("[no-]", "no-"))
