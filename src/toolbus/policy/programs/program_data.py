"""What a file says of a program, as `README.md` beside this one explains."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

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
    asks: str = ""
    environment: bool = False
    assigns: bool = False
    elsewhere: bool = False
    opens_shell: bool = False
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
