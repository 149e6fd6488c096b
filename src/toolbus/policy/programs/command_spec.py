"""The specs of programs and subcommands, as read from the TOML files (see `README.md`)."""

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
"""The kind of an argument, which determines its effects."""


class OptionData(Struct, frozen=True, forbid_unknown_fields=True):
    """An option with effects beyond the output format."""

    takes: Kind | None = None
    """The kind of its value; None without a value."""
    attached: bool = False
    """Its value is optional and part of the same word: ``-i.bak``, ``--color=never``."""
    pair: bool = False
    """A name precedes its value: ``--arg NAME VALUE``."""
    effects: tuple[Effect, ...] = ()
    """Its additional effects."""
    instead: tuple[Effect, ...] | None = None
    """The only effects of the command with this option: ``--dry-run``, ``--list``."""
    harmless: tuple[str, ...] = ()
    """Values without additional effects: ``GET`` for a method."""
    operands: tuple[Kind, ...] | None = None
    """The kinds of the operands with this option: ``grep -r`` reads folders."""
    final: Kind | None = None
    """The kind of the last operand with this option."""
    hidden: bool = False
    """Dot files are read as well, if the command skips them otherwise."""
    ignored: bool = False
    """Files named in `.gitignore` are read as well."""
    links: bool = False
    """Links are followed."""
    implies: tuple[str, ...] = ()
    """Other options that it includes, for rules that name them."""
    asks: str = ""
    """Why it always requires approval."""
    before: tuple[str, ...] = ()
    """Words inserted before the ``wrapped`` command: ``python -m``."""
    appends: bool = False
    """The program appends words to the ``wrapped`` command, whatever its placeholders."""


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
    """Subcommands with the same data; *names* are paths whose parts may be globs."""

    names: tuple[str, ...]


HELP: tuple[Effect, ...] = ("read",)
_READING = frozenset({None, "text", "path", "tree", "include", "exclude", "glob", "revision"})
RUN_INSIDE: frozenset[Kind | None] = frozenset({"wrapped", "shell"})
"""Kinds of arguments that are a command, or a text for a shell."""
_HELPING = frozenset({"--help", "-h", "-help"})


class Option(OptionData, frozen=True, kw_only=True):
    """An option with all its *names*; *helps* if it only prints the usage."""

    names: frozenset[str]
    helps: bool = False

    @property
    def is_harmless(self) -> bool:
        """Whether the option at most reads, if an unknown word turns out to be this option."""
        kinds = {self.takes, self.final, *(self.operands or ())}
        return kinds <= _READING and not (self.effects or self.asks)


class CommandSpec:
    """A program or subcommand made from *data*; a subcommand inherits from *outer*."""

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
        """Inherit the shared options and settings of *outer*."""
        self.words = self.words or outer.words
        self.file_prefixes = self.file_prefixes or outer.file_prefixes
        if not outer.data.leads:
            self.options = {**outer.inheritable(), **self.options}

    @cached_property
    def wraps(self) -> bool:
        """Whether it, or a subcommand, may run another command that is judged separately."""
        return _wraps(self.data)

    def inheritable(self) -> dict[str, Option]:
        """Return the options that subcommands inherit; of printing options only help."""
        return {
            name: option
            for name, option in self.options.items()
            if name not in {"-*", "-NUM"} and (not option.helps or name in _HELPING)
        }

    def leads_on(self, groups: tuple[str, ...], word: str) -> bool:
        """Return whether *word* after *groups* begins the path of a subcommand."""
        return word in self.data.groups or " ".join((*groups, word)) in self._beginnings

    def is_command(self, word: str) -> bool:
        """Return whether *word*, which looks like an option, is a subcommand: ``brew --prefix``."""
        dashed = [glob for glob in self._globs if glob.startswith("-")]
        return word in self._named or any(fnmatchcase(word, glob) for glob in dashed)

    def subcommand(self, groups: tuple[str, ...], word: str) -> tuple[str, CommandSpec] | None:
        """Return the name and spec of the subcommand *word* after *groups*, None if unknown.

        A full path takes precedence over its last word, a name over a glob.
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
        """Return the options that the prefix *text* of a long option may abbreviate."""
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
    """Return whether *name* in a file of programs is a glob."""
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
