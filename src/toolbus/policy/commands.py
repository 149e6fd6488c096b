"""Records of the commands in a shell text: programs with their words, and unreadable pieces."""

from typing import Literal

from msgspec import Struct


class Word(Struct, frozen=True):
    r"""One argument.

    *text* is the argument that the program receives, without quotes and backslashes; for a word
    that is not *known* it is the source text. A *pattern* has an unquoted ``*``, ``?`` or ``[`` (or
    an extended glob), or an unquoted ``~name`` that only the running shell can expand: then *text*
    is the pattern, with quoted glob characters and backslashes escaped by a backslash. In a loop
    over a pattern, words with the loop variable are patterns of their possible values.
    """

    text: str
    known: bool = True
    pattern: bool = False
    several: bool = False
    """Whether it may expand to no word or to several: an unquoted variable, ``"$@"``."""
    start: str = ""
    """The known beginning of a single unknown word: ``./`` of ``"./$x"``."""


class Redirection(Struct, frozen=True):
    """A file that the shell opens for a command; here-documents are `Command.stdin`."""

    operator: str
    """``<``, ``>``, ``>>``, ``<>``, ``>|``, ``&>``, ``&>>`` or ``>&`` (of a file)."""
    target: Word


class Command(Struct, frozen=True):
    """One program, function or builtin that will be run, with its words."""

    program: Word
    """As written: ``git``, ``/usr/bin/git``, ``./git``; empty if the command only sets variables
    (*settings*) or opens files (*redirections*)."""
    words: tuple[Word, ...]
    """The words after the program."""
    settings: tuple[tuple[str, Word], ...] = ()
    """Names and values of variables set before the program, or earlier in the text (these reach the
    program if they are in its environment); the last value of a name counts."""
    redirections: tuple[Redirection, ...] = ()
    """Includes the redirections of enclosing groups, loops and functions."""
    stdin: str | None = None
    """The text of its here-document or here-string, if known."""
    piped: bool = False
    """Whether its input is the output of another command."""
    rewired: bool = False
    """Whether its input or an output may be a file that is opened elsewhere: by an ``exec`` of the
    same text, as in ``exec < x; cat``, or as a copied descriptor, as in ``<&3`` (not ``2>&1``)."""
    folder: str | None = "."
    """Its working folder: absolute, or relative to the shell's starting folder (``./~`` is a folder
    named ``~``, ``~/x`` a folder in the home folder); None if unknown."""
    assumed: tuple[str, ...] = ()
    """Folders, written like *folder*, that must exist or the command runs elsewhere: one for each
    earlier ``cd`` whose failure is ignored, as in ``cd x; ls`` (but not ``cd x && ls``)."""
    paths_stable: bool = True
    """False if an earlier or parallel part of the text may have changed files or links."""
    inside: tuple[str, ...] = ()
    """The commands that run it, outermost first: ``("sudo", "bash -c", "$(…)")``."""
    source: str = ""
    """Its source text, for display."""


class Unreadable(Struct, frozen=True):
    """A piece of text whose commands cannot be known without running it."""

    source: str
    """The piece, as written."""
    reason: str
    """The reason: ``the command is a variable``."""


class CommandReading(Struct, frozen=True):
    """All commands of a text, at any depth, in the order of the text."""

    commands: tuple[Command, ...]
    unreadable: tuple[Unreadable, ...]
    final_folder: str | None = None
    """The folder of the shell afterwards, as `Command.folder`; None if unknown."""


class TreeRules(Struct, frozen=True):
    """The files below a folder that a recursive reader reads, given its options."""

    hidden: bool = True
    """Whether dot files, and files in dot folders, are read."""
    ignored: bool = True
    """Whether files named by `.gitignore` and similar lists are read."""
    links: bool = False
    """Whether links are followed."""
    include: tuple[str, ...] = ()
    """Globs of file names to read, or all files if empty: ``grep --include``."""
    exclude: tuple[str, ...] = ()
    """Globs of names of files and folders to skip."""


class PathUse(Struct, frozen=True):
    """A file or folder that a command names."""

    word: Word
    kind: Literal["names", "read", "write", "read-tree", "destroy"]
    """``read-tree`` includes everything below (``grep -r``, ``rg``, ``cp -r``, ``tar c``).

    ``names`` only lists names (``ls``, ``find``), which deny and ask rules ignore.
    """
    folder: str | None = "."
    """The base of a relative path, as `Command.folder`."""
    tree: TreeRules = TreeRules()
    """The rules of a ``read-tree``; ``links`` also applies to writes below a folder: ``tar x``."""


CHANGES = frozenset({"write", "destroy"})
"""Effects, and kinds of path uses, that change files."""
ONLY_READS = frozenset({"read", "network"})
"""Effects that change nothing."""
KEEPS_FILES = ONLY_READS | {"message"}
"""Effects that change no file."""


class CommandEffects(Struct, frozen=True):
    """The effects of a command, derived from its words."""

    effects: frozenset[str]
    """A subset of ``read``, ``write``, ``network``, ``destroy``, ``run-code``."""
    paths: tuple[PathUse, ...] = ()
    hosts: tuple[Word, ...] = ()
    """URLs and hosts, as written."""
    unknown: tuple[Unreadable, ...] = ()
    """Unknown pieces with reasons: the program, a subcommand, an option, code that is run."""
    action: tuple[str, ...] = ()
    """The program's canonical name and its subcommands: ``("git", "push")``.

    For an unknown program: its name and operands; empty if the name is unknown.
    """
    options: frozenset[str] = frozenset()
    """Each option under all its names and as written: ``-r``, ``-f`` and ``--force`` of ``-rf``."""
    folder: str | None = "."
    """The final working folder, as `Command.folder`: after ``git -C dir``, ``make -C dir``."""
    globs: tuple[Word, ...] = ()
    """Patterns that expand to options if a file name begins with a dash: ``sort *``."""
    branches: tuple[Word, ...] = ()
    """The remote branches that it changes, or patterns of them: ``main``, ``*``."""
