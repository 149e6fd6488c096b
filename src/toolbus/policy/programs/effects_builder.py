"""The builder of a command's effects, from its arguments and their kinds."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import PathUse, TreeRules, Unreadable, Word
from toolbus.policy.programs.variables import is_harmless_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.policy.commands import Command
    from toolbus.policy.programs.command_spec import Kind

# The terminal, devices without content, and descriptors that are already open.
_NO_FILE = re.compile(r"/dev/(?:null|zero|full|random|urandom|tty|stdin|stdout|stderr|fd/\d+)")
_OPEN = re.compile(r"/dev/(?:null|tty|stdout|stderr|fd/\d+)")
_NETWORK = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/.+")
_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:[+]?=.*)?", re.DOTALL)
_FILE_URL = re.compile(r"file:(?://(?:localhost|127\.0\.0\.1)?(?=/))?", re.IGNORECASE)
"""The beginning of a file URL; curl also accepts `file:/x` and `file:x`."""
_CHANGES = re.compile(r"[%{}\[\]?#]")
"""Characters in a file URL that may change the file's name."""
_PATTERN_OF_URLS = re.compile(r"(?!\[[0-9a-f:.]+\])[^:/]*[{\[]", re.IGNORECASE)
"""An address that curl expands to several, of any scheme."""
_HOME = re.compile(r"~(?:/[^*?\[\\]*)?")
"""The home folder, or a folder in it, as a shell expands it."""
_PATHSPEC = re.compile(r":(?:\([a-z,:_-]*\)|[/!^]+(?!fix)|(?=[*]))")
"""The magic signature of a pathspec (gitglossary(7))."""


class EffectsBuilder:
    """Collects the effects, files, hosts, branches and unknown pieces of one *command*."""

    def __init__(self, command: Command) -> None:
        self.effects: set[str] = set()
        self.paths: list[PathUse] = []
        self.hosts: list[Word] = []
        self.branches: list[Word] = []
        self.unknown: list[Unreadable] = []
        self.folder = command.folder
        self.tree_hidden = self.tree_ignored = True
        self.tree_links = False
        self.reads_files = False
        self.paths_stable = command.paths_stable
        self.include: list[str] = []
        self.exclude: list[str] = []

    def take(self, word: Word, kind: Kind, *, of_option: bool = False) -> None:
        """Add the effects of *word*, an argument of *kind*."""
        if kind == "write" and of_option and word.known and word.text == "-":
            return  # Standard output.
        if kind in {"code", "command"}:
            self.effects.add("run-code")
            self.note(
                word, "it is executed as code" if kind == "code" else "it is run as a command"
            )
        elif kind == "none":
            self.note(word, "the effect of this argument is unknown")
        elif kind not in {"text", "wrapped", "shell", "module", "place"}:
            _ADD_BY_KIND[kind](self, word)

    def prefixed(self, word: Word, prefixes: tuple[str, ...]) -> None:
        """Add a read of the file named by *word* after one of *prefixes*."""
        for file in _behind(word, prefixes):
            self.read(file)

    def written(self, word: Word, prefixes: tuple[str, ...]) -> None:
        """Add a write to the file named by *word* after one of *prefixes*."""
        for file in _behind(word, prefixes):
            self.write(file)

    def note(self, word: Word, reason: str) -> None:
        """Add *word* as unknown."""
        self.unknown.append(Unreadable(word.text, reason))

    def read(self, word: Word) -> None:
        """Add a file that is read; "-" is standard input."""
        if word.known and (network := _NETWORK.fullmatch(word.text)):
            self.effects.add("network")
            self.hosts.append(Word(network[1]))
        elif not (word.known and (word.text in {"-", ""} or _NO_FILE.fullmatch(word.text))):
            self.paths.append(PathUse(word, "read", self.folder))

    def read_environment(self) -> None:
        """Add a read of the environment, as a read of Linux's file of it.

        Rules name the environment by that file, on every system.
        """
        self.paths.append(PathUse(Word("/proc/self/environ"), "read"))

    def write(self, word: Word) -> None:
        """Add a file that is written, except for standard output and the null device."""
        if word.known and (network := _NETWORK.fullmatch(word.text)):
            self.effects |= {"network", "write"}
            self.hosts.append(Word(network[1]))
        elif not (word.known and _OPEN.fullmatch(word.text)):
            self.effects.add("write")
            self.paths.append(PathUse(word, "write", self.folder))

    def fill(self, word: Word) -> None:
        """Add a folder in which files of any name may be written, also through links below it."""
        self.effects.add("write")
        self.paths.append(PathUse(word, "write", self.folder, TreeRules(links=True)))

    def tree(self, word: Word) -> None:
        """Add a folder that is read recursively."""
        rules = TreeRules(
            self.tree_hidden,
            self.tree_ignored,
            self.tree_links,
            tuple(self.include),
            tuple(self.exclude),
        )
        if not (word.known and word.text == "-"):
            self.paths.append(PathUse(word, "read-tree", self.folder, rules))

    def name(self, word: Word) -> None:
        """Add a folder whose names are listed without their content."""
        self.paths.append(PathUse(word, "names", self.folder))

    def may_read(self, word: Word) -> None:
        """Add a read of any file: *word* is unknown, and may be an option that reads."""
        if self.reads_files:
            self.paths.append(PathUse(word, "read-tree", self.folder))

    def destroy(self, word: Word) -> None:
        """Add a file that is destroyed."""
        self.effects.add("destroy")
        self.paths.append(PathUse(word, "destroy", self.folder))


def _behind(word: Word, prefixes: tuple[str, ...]) -> Iterator[Word]:
    for prefix in prefixes:
        if word.known and word.text.startswith(prefix):
            yield Word(word.text.removeprefix(prefix), pattern=word.pattern)


def _move(builder: EffectsBuilder, word: Word) -> None:
    builder.effects.add("write")
    builder.paths.append(PathUse(word, "read-tree", builder.folder))
    builder.paths.append(PathUse(word, "write", builder.folder))


def _reach(builder: EffectsBuilder, word: Word) -> None:
    if word.known and "::" in word.text.partition("/")[0]:
        builder.effects.add("run-code")
        builder.note(word, "the helper program of this address is unknown")
    elif word.known and (file := _FILE_URL.match(word.text)):
        name = word.text[file.end() :]
        builder.read(Word(name, known=not _CHANGES.search(name)))
    else:
        if word.known and _PATTERN_OF_URLS.match(word.text):
            builder.note(word, "the addresses that it expands to are unknown")
        builder.hosts.append(word)


def _revision(builder: EffectsBuilder, word: Word) -> None:
    text = word.text
    if word.known and text.startswith(":") and (magic := _PATHSPEC.match(text)):
        if not re.search("[!^]|exclude", magic[0]):
            _pathspec(builder, text[magic.end() :])
        return
    if word.known and ":" in text:
        # `HEAD:file`, and `-L 1,5:file`, `-L :name:file`.
        for path in dict.fromkeys((text.partition(":")[2], text.rpartition(":")[2])):
            builder.read(Word(path.removeprefix("./"), pattern=word.pattern))
    if word.known and re.search(r"[*?]", text):
        _pathspec(builder, text)
    else:
        builder.read(word)


def _pathspec(builder: EffectsBuilder, text: str) -> None:
    """Add the files matched by git's glob *text*, whose wildcards also match leading dots."""
    builder.read(Word(text, pattern=True))
    folder, slash, name = text.rpartition("/")
    if name[:1] in {"*", "?"}:
        builder.read(Word(f"{folder}{slash}.{name}", pattern=True))
    if name.startswith("*."):
        builder.read(Word(f"{folder}{slash}{name[1:]}", pattern=True))


def _data(builder: EffectsBuilder, word: Word) -> None:
    head, sign, path = word.text.partition("@")
    if not word.known:
        builder.note(word, "it may name a file that is sent")
    elif "=<" in word.text:
        builder.read(Word(word.text.partition("=<")[2].partition(";")[0]))
    elif sign and (not head or head.endswith("=") or "=" not in path):
        builder.read(Word(path.partition(";")[0]))


def _include(builder: EffectsBuilder, word: Word) -> None:
    builder.include.append(word.text if word.known else "*")


def _exclude(builder: EffectsBuilder, word: Word) -> None:
    builder.exclude += [word.text] if word.known else []


def _glob(builder: EffectsBuilder, word: Word) -> None:
    if word.text.startswith("!"):
        _exclude(builder, Word(word.text[1:], word.known))
    else:
        _include(builder, word)
        builder.tree_hidden = builder.tree_ignored = True


def _change_folder(builder: EffectsBuilder, word: Word) -> None:
    is_home = word.pattern and _HOME.fullmatch(word.text) and ".." not in word.text
    is_plain = word.known and not word.pattern
    if is_home or (is_plain and word.text[:1] == "/"):
        builder.folder = word.text
    elif builder.folder is not None and is_plain and word.text[:1] != "~":
        builder.folder = posixpath.join(builder.folder, word.text)
    else:
        builder.folder = None


def _variable(builder: EffectsBuilder, word: Word) -> None:
    if not _VARIABLE.fullmatch(word.text):
        builder.note(word, "the name of a variable may contain a command")


def _git_setting(builder: EffectsBuilder, word: Word) -> None:
    if not (word.known and is_harmless_setting(word.text)):
        builder.effects.add("run-code")
        builder.note(word, "the effect of this git setting is unknown")


def _script(builder: EffectsBuilder, word: Word) -> None:
    builder.effects.add("run-code")
    builder.read(word)
    if not word.known or word.text.startswith(("/dev/", "/proc/")) or word.text == "-":
        builder.note(word, "the script that it runs is known only at run time")
    elif not builder.paths_stable:
        builder.note(word, "the script may have been written just before it runs")


_ADD_BY_KIND: Mapping[Kind, Callable[[EffectsBuilder, Word], None]] = {
    "path": EffectsBuilder.read,
    "tree": EffectsBuilder.tree,
    "names": EffectsBuilder.name,
    "write": EffectsBuilder.write,
    "destroy": EffectsBuilder.destroy,
    "move": _move,
    "url": _reach,
    "host": lambda builder, word: builder.hosts.append(word),
    "revision": _revision,
    "data": _data,
    "include": _include,
    "exclude": _exclude,
    "glob": _glob,
    "folder": _change_folder,
    "variable": _variable,
    "git-setting": _git_setting,
    "script": _script,
}
