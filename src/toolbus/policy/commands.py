"""Records of what a shell's text runs: programs with their words, and what cannot be known."""

from typing import Literal

from msgspec import Struct


class Word(Struct, frozen=True):
    r"""One argument.

    *text* is what the program gets, without quotes and backslashes; of a word that is not *known*
    it is the piece as written. A *pattern* has an unquoted ``*``, ``?`` or ``[`` (or an extended
    glob), or an unquoted ``~name`` that only the running shell can expand: then *text* is the
    pattern, with glob characters that were quoted (and backslashes) escaped by a backslash. In a
    loop over a pattern, words with the loop's variable are patterns, too: of what they may be.
    """

    text: str
    known: bool = True
    pattern: bool = False
    several: bool = False
    """Whether it may become no word, or several: an unquoted variable, ``"$@"``."""
    start: str = ""
    """What a word that is not known, and is certainly one, begins with: ``./`` of ``"./$x"``."""


class Redirection(Struct, frozen=True):
    """A file that the shell opens for a command; here-documents are `Command.stdin`."""

    operator: str
    """One of ``<``, ``>``, ``>>``, ``<>``, ``>|``, ``&>``, ``&>>``, ``>&`` (of a file)."""
    target: Word


class Command(Struct, frozen=True):
    """One program, function or builtin that will be run, with its words."""

    program: Word
    """As written: ``git``, ``/usr/bin/git``, ``./git``; empty if no program is run, but variables
    are set (*settings*) or files opened (*redirections*)."""
    words: tuple[Word, ...]
    """What follows the program."""
    settings: tuple[tuple[str, Word], ...] = ()
    """Variables set in front of it, or before in the same text (they may be the environment's, and
    then they reach the program): name and value, the last one counts."""
    redirections: tuple[Redirection, ...] = ()
    """Also those of groups, loops and functions around it."""
    stdin: str | None = None
    """The here-document or here-string that it reads, where that is known."""
    piped: bool = False
    """Whether its input is another command's output."""
    folder: str | None = "."
    """Where it runs: absolute, or relative to where the shell began (``./~`` is a folder of that
    name there, ``~/x`` one in the home folder); None if that is unknown."""
    assumed: tuple[str, ...] = ()
    """Folders like *folder* that must exist already, or it may run elsewhere: of each ``cd`` before
    it that need not have worked, as in ``cd x; ls`` (and not in ``cd x && ls``)."""
    settled: bool = True
    """False if an earlier or parallel part of the text may have changed files or links."""
    inside: tuple[str, ...] = ()
    """Through what it is run, outermost first: ``("sudo", "bash -c", "$(…)")``."""
    source: str = ""
    """The piece of the text, for people."""


class Unreadable(Struct, frozen=True):
    """A piece of which nobody can know what it runs, without running it."""

    source: str
    """The piece, as written."""
    reason: str
    """Why: ``the command is a variable``, ``eval runs what it is given``."""


class CommandReading(Struct, frozen=True):
    """All that a text runs, at any depth, in the order of the text."""

    commands: tuple[Command, ...]
    unreadable: tuple[Unreadable, ...]
    final_folder: str | None = None
    """The folder that the shell is in after it, as `Command.folder`; None if that is unknown."""


class TreeRules(Struct, frozen=True):
    """Which of the files below a folder a recursive reader reads, by the options it was given."""

    hidden: bool = True
    """Also those that begin with a dot, and what is in such folders."""
    ignored: bool = True
    """Also those that `.gitignore` and the like leave out."""
    links: bool = False
    """Also what links lead to."""
    include: tuple[str, ...] = ()
    """Globs of names, of which a file must match one if there are any: ``grep --include``."""
    exclude: tuple[str, ...] = ()
    """Globs of names of files and folders that are left out."""


class PathUse(Struct, frozen=True):
    """A file or folder that a command names."""

    word: Word
    kind: Literal["names", "read", "write", "read-tree", "destroy"]
    """``read-tree``: what is below is read as well (``grep -r``, ``rg``, ``cp -r``, ``tar c``).

    ``names``: names alone are listed (``ls``, ``find``), of which rules that deny or ask are not.
    """
    folder: str | None = "."
    """Where a relative one begins, as `Command.folder`."""
    tree: TreeRules = TreeRules()
    """Of a ``read-tree``; with ``links`` also of a folder that is filled: ``tar x``."""


class CommandEffects(Struct, frozen=True):
    """What a command does, as far as its words tell."""

    effects: frozenset[str]
    """Of ``read``, ``write``, ``network``, ``destroy``, ``run-code``; only ``read``: no more."""
    paths: tuple[PathUse, ...] = ()
    hosts: tuple[Word, ...] = ()
    """URLs and hosts, as written."""
    unknown: tuple[Unreadable, ...] = ()
    """What is not known, and why: the program, a subcommand, an option, code that is run."""
    action: tuple[str, ...] = ()
    """The program's plain name and its subcommands: ``("git", "push")``.

    Of a program that is not known: its name and its operands; empty if it has no known name.
    """
    options: frozenset[str] = frozenset()
    """Each option by all its names and as written: ``-r``, ``-f`` and ``--force`` of ``-rf``."""
    folder: str | None = "."
    """Where it works at last, as `Command.folder`: after ``git -C dir``, ``make -C dir``."""
    globs: tuple[Word, ...] = ()
    """Patterns that become options where names of files begin with a dash: ``sort *``."""
    branches: tuple[Word, ...] = ()
    """The branches that it changes in another repository, patterns too: ``main``, ``*``."""
