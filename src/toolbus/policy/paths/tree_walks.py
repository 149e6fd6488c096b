"""A bounded walk below a folder, for files of a rule that a program would read there.

A search ignores files named in `.gitignore`, `.ignore` and `.rgignore`, with the syntax of
gitignore(5) and the precedence of ripgrep's guide. A file that may not be ignored counts as read:
`info/exclude` and a user's own list are not used here, and a line that re-includes a name counts
wherever it is.
"""

from __future__ import annotations

import os
import posixpath
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import TreeRules
from toolbus.policy.paths.name_globs import NameGlob, name_glob, plain_name
from toolbus.policy.paths.path_patterns import (
    NameList,
    alternatives,
    components_of,
    is_in,
    meets,
    needle,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.paths.resolver import PathResolver


LONGEST_FILE = 100_000
"""Bytes of an ignore list; a longer list is not read, so that it ignores nothing."""

MOST_ENTRIES_BELOW = 400_000
"""Folder entries of one walk, which takes less than a second."""

ALL_BELOW = TreeRules()
_OF_GIT = ".gitignore"
_OTHERS = (".ignore", ".rgignore")
_LISTS = (".git", _OF_GIT, *_OTHERS)


def names_below(
    folder: str, start: str, rules: TreeRules, resolver: PathResolver
) -> tuple[NameList, bool]:
    """Return the names of the files below the real *folder* that pass *rules*.

    Only *start*, paths below it and paths on the way to it are visited. The second value says
    whether the names are complete.
    """
    walk = partial(_TreeWalk, folder, start, rules, resolver)
    return resolver.cached(("names below", folder, start, rules), lambda: walk().run())


class _TreeWalk:
    """One walk below *folder*, but only on the way to *start* and below that."""

    def __init__(self, folder: str, start: str, rules: TreeRules, resolver: PathResolver) -> None:
        # With links followed, targets outside of *folder* count as well.
        self._start = "" if start == folder else start
        self._rules, self._resolver = rules, resolver
        self._filter = _TreeFilter(rules)
        self._remaining = MOST_ENTRIES_BELOW
        self._pending: list[tuple[str, IgnoreRules]] = []
        self._followed: set[str] = set()
        self._names: list[str] = []
        self._is_complete = True
        self._add(folder)

    def run(self) -> tuple[NameList, bool]:
        """Return the names of the files read, and whether they are complete."""
        while self._pending and self._remaining >= 0:
            folder, ignore = self._pending.pop()
            entries: list[os.DirEntry[str]] = []
            # An unreadable folder, or one with an invalid name, contributes nothing.
            with suppress(OSError, ValueError), os.scandir(folder) as listing:
                entries.extend(islice(listing, self._remaining + 1))
            self._remaining -= len(entries)
            if self._filter.looks_at_lists:
                ignore = ignore.entered(folder, [entry.name for entry in entries])
            for entry in entries:
                self._add_entry(entry, ignore)
        return NameList(self._names), self._is_complete and self._remaining >= 0

    def _add(self, folder: str) -> None:
        """Add the real *folder* to the walk."""
        if folder in self._followed:
            return
        self._followed.add(folder)
        # A pattern may name the folder itself, and then covers everything in it.
        if not posixpath.isdir(folder) or self._rules == ALL_BELOW:
            self._names.append(folder)
        ignore = IgnoreRules.above(folder) if self._filter.looks_at_lists else IgnoreRules()
        self._pending.append((folder, ignore))

    def _follow(self, link: str) -> None:
        resolved = self._resolver.resolve(link)
        self._names.extend(resolved.names)
        self._is_complete = self._is_complete and not resolved.doubt
        if posixpath.isdir(resolved.path):
            self._add(resolved.path)

    def _add_entry(self, entry: os.DirEntry[str], ignore: IgnoreRules) -> None:
        path = entry.path
        if self._rules.links and entry.is_symlink():
            self._follow(path)
            return
        start = self._start
        if start and not (is_in(path, start) or is_in(start, path)):
            return
        is_folder = entry.is_dir(follow_symlinks=False)
        if self._filter.leaves_out(path, entry.name, ignore, is_folder=is_folder):
            return
        if is_folder:
            self._pending.append((path, ignore))
        if not is_folder or self._rules == ALL_BELOW:
            self._names.append(path)


class _TreeFilter:
    """The filter of a walk, made from *rules*."""

    def __init__(self, rules: TreeRules) -> None:
        self.rules = rules
        # The last component of a path glob decides which files may be read, but not which files
        # are skipped.
        reaches_into = any("/" in text for text in rules.include)
        self.looks_at_lists = not (reaches_into or (rules.hidden and rules.ignored))
        self._include = _last_components(rules.include)
        names = [text.rstrip("/") for text in rules.exclude]
        self._exclude = tuple([name_glob(name) for name in names if "/" not in name])
        # Names repeat in a large tree.
        self._may_read: dict[str, bool] = {}

    def leaves_out(self, path: str, name: str, ignore: IgnoreRules, *, is_folder: bool) -> bool:
        """Return whether *path*, with this *name*, is skipped entirely."""
        if self._include and not is_folder:
            return not self._is_let_through(name)
        if not self._include and not self._is_let_through(name):
            return True
        if self.looks_at_lists:
            left_out = ignore.leaves_out(path, is_folder=is_folder)
            if left_out is False or (left_out and not self.rules.ignored):
                return left_out
        return not self.rules.hidden and name.startswith(".")

    def _is_let_through(self, name: str) -> bool:
        known = self._may_read.get(name)
        if known is None:
            globs = self._include or self._exclude
            is_met = any(plain_name(name).meets(glob) for glob in globs)
            known = self._may_read[name] = is_met == bool(self._include)
        return known


def _last_components(texts: Sequence[str]) -> tuple[NameGlob, ...]:
    """Return the last components of *texts*, with and without brace expansion: tools differ."""
    names = [text.rpartition("/")[2] or "*" for text in texts]
    try:
        names += [each.rpartition("/")[2] for text in texts for each in alternatives(text)]
    except ValueError:
        return (name_glob("*"),)
    return tuple([name_glob(name) for name in names])


class _IgnoreLine(NamedTuple):
    """One line of an ignore list in *folder*."""

    folder: str
    components: tuple[NameGlob, ...]
    reincludes: bool
    only_folders: bool
    needle: str
    """A text in every matching path, for a quick rejection of most paths."""

    def matches(self, path: str) -> bool:
        """Return whether the line matches *path*, which is below its folder."""
        relative = path[len(self.folder.rstrip("/")) + 1 :]
        parts = relative.split("/") if self.needle in relative else []
        return bool(parts) and meets(self.components, map(plain_name, parts), below=False)


class IgnoreRules(NamedTuple):
    """The ignore lines that apply in a folder; *of_git* is None outside of repositories."""

    lines: tuple[_IgnoreLine, ...] = ()
    of_git: tuple[_IgnoreLine, ...] | None = None

    @classmethod
    def above(cls, folder: str) -> IgnoreRules:
        """Return the lines that the real *folder* inherits from its parents."""
        rules, path = cls(), "/"
        for part in ["", *folder.split("/")[1:-1]]:
            path = posixpath.join(path, part)
            rules = rules.entered(
                path, [name for name in _LISTS if posixpath.lexists(posixpath.join(path, name))]
            )
        return rules

    def entered(self, folder: str, names: Sequence[str]) -> IgnoreRules:
        """Return the lines for the subfolder *folder*, which contains *names*."""
        lines, of_git = self
        if ".git" in names:
            of_git = ()  # Lists of an outer repository do not apply in an inner one.
        if of_git is not None and _OF_GIT in names:
            of_git = (*of_git, *_lines(folder, _OF_GIT))
        added = [line for name in _OTHERS if name in names for line in _lines(folder, name)]
        return IgnoreRules((*lines, *added), of_git)

    def leaves_out(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether *path* is ignored; False if re-included, None if no line matches."""
        matching = [
            line.reincludes
            for line in chain(self.lines, self.of_git or ())
            if (is_folder or not line.only_folders) and line.matches(path)
        ]
        return not any(matching) if matching else None


def _lines(folder: str, name: str) -> Iterator[_IgnoreLine]:
    """Yield the lines of the list *name* in *folder*, if it exists."""
    try:
        with open(posixpath.join(folder, name), "rb") as stream:  # noqa: PTH123 - as elsewhere here
            data = stream.read(LONGEST_FILE + 1)
    except OSError:
        return
    texts = data.decode("utf-8", "surrogateescape").splitlines()
    for text in texts if len(data) <= LONGEST_FILE else ():
        plain = text if text.endswith("\\ ") else text.rstrip(" ")
        path = plain.removeprefix("!").rstrip("/")
        if not path or plain.startswith("#"):
            continue
        components = components_of(path.split("/") if "/" in path else ["**", path])
        yield _IgnoreLine(
            folder,
            components,
            reincludes=plain.startswith("!"),
            only_folders=plain.endswith("/"),
            needle=needle(components),
        )
