"""A bounded walk that looks below a folder for a file of a rule that a program would read there.

A search leaves out what `.gitignore`, `.ignore` and `.rgignore` name: the syntax is gitignore(5)'s,
and which lists count where, ripgrep's guide says. Where it is not certain that a file is left out,
it is not: `info/exclude` and a user's own list do not count here, and one line that takes a name
back does, wherever it is.
"""

from __future__ import annotations

import os
import posixpath
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import TreeRules
from toolbus.policy.paths.name_globs import NameGlob, name_glob, plain_name
from toolbus.policy.paths.path_patterns import (
    NameList,
    alternatives,
    components_of,
    meets,
    needle,
    starts_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolving import PathResolver


LONGEST_FILE = 100_000
"""Bytes of a list; a longer one is not read, so that nothing counts as left out by it."""

_OF_GIT = ".gitignore"
_OTHERS = (".ignore", ".rgignore")
_LISTS = (".git", _OF_GIT, *_OTHERS)


MOST_ENTRIES_BELOW = 400_000
"""Entries of folders that are looked at in one walk, which takes less than a second."""
ALL_BELOW = TreeRules()


class _IgnoreLine(NamedTuple):
    """One line of a list in *folder*."""

    folder: str
    components: tuple[NameGlob, ...]
    takes_back: bool
    only_folders: bool
    is_of_git: bool
    needle: str
    """What each path that it matches has in it, so that most are told apart at once."""


class IgnoreRules(NamedTuple):
    """The lines that hold in a folder; those of git only *in_repository*."""

    lines: tuple[_IgnoreLine, ...] = ()
    in_repository: bool = False

    def entered(self, folder: str, names: frozenset[str]) -> IgnoreRules:
        """Return what holds in *folder*, which is below, and has what `lists_in` says."""
        rules = self
        if ".git" in names:
            # The lists of a repository around it do not reach into another.
            rules = IgnoreRules(
                tuple([line for line in self.lines if not line.is_of_git]), in_repository=True
            )
        lists = [name for name in (_OF_GIT, *_OTHERS) if name in names]
        added = [line for name in lists for line in _read(folder, name)]
        return rules._replace(lines=(*rules.lines, *added)) if added else rules

    def leaves_out(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether *path* is left out; False if a line takes it back, None if none speaks."""
        left_out: bool | None = None
        for line in self.lines:
            if line.only_folders and not is_folder:
                continue
            if line.is_of_git and not self.in_repository:
                continue
            relative = path[len(line.folder.rstrip("/")) + 1 :]
            if line.needle in relative and _matches(line, relative):
                if line.takes_back:
                    return False
                left_out = True
        return left_out


def rules_above(folder: str) -> IgnoreRules:
    """Return what holds in the real *folder* because of the folders above it."""
    rules = IgnoreRules()
    path = "/"
    for part in ["", *folder.split("/")[1:-1]]:
        path = posixpath.join(path, part)
        rules = rules.entered(path, lists_in(path))
    return rules


def lists_in(folder: str) -> frozenset[str]:
    """Return the names of what matters here, as far as it is in *folder*."""
    return frozenset([name for name in _LISTS if posixpath.lexists(posixpath.join(folder, name))])


def _matches(line: _IgnoreLine, relative: str) -> bool:
    parts = [plain_name(part) for part in relative.split("/")]
    return meets(line.components, parts, below=False)


def _read(folder: str, name: str) -> list[_IgnoreLine]:
    try:
        with open(posixpath.join(folder, name), "rb") as stream:  # noqa: PTH123 - as elsewhere here
            data = stream.read(LONGEST_FILE + 1)
    except OSError:
        return []
    if len(data) > LONGEST_FILE:
        return []
    texts = data.decode("utf-8", "surrogateescape").splitlines()
    lines = [_line(folder, text, is_of_git=name == _OF_GIT) for text in texts]
    return [line for line in lines if line is not None]


def _line(folder: str, text: str, *, is_of_git: bool) -> _IgnoreLine | None:
    if not text.endswith("\\ "):
        text = text.rstrip(" ")
    if not text or text.startswith("#"):
        return None
    takes_back = text.startswith("!")
    text = text[takes_back:]
    only_folders = text.endswith("/")
    text = text.rstrip("/")
    floats = "/" not in text
    components = components_of(["**", text] if floats else text.split("/"))
    return _IgnoreLine(folder, components, takes_back, only_folders, is_of_git, needle(components))


class Discovery(NamedTuple):
    """A *path* below, and the text of the *pattern* that names it; or a *doubt* about it all."""

    path: str
    pattern: str = ""
    doubt: str = ""


class TreeListing(NamedTuple):
    """The *names* of what is read below a folder, and whether these are all."""

    names: NameList
    is_complete: bool


def find_below(
    folder: str, patterns: Sequence[PathPattern], resolver: PathResolver, rules: TreeRules
) -> Discovery | None:
    """Return a file below the real *folder* that one of *patterns* names and *rules* let through.

    None if there is none. The folder itself is not looked at, and may be anything.
    """
    doubt = None
    for pattern in patterns:
        place = _place_to_look(folder, pattern, resolver, rules)
        if place is None:
            continue
        walk = partial(_walk, place, rules, resolver)
        listing = resolver.once(("listing", place, rules), walk)
        hit = listing.names.find([pattern], resolver)
        if hit is not None:
            return Discovery(hit[0], pattern.text)
        if not listing.is_complete:
            doubt = Discovery(place, doubt=f"not all files below {place!r} can be looked at")
    return doubt


def _place_to_look(
    folder: str, pattern: PathPattern, resolver: PathResolver, rules: TreeRules
) -> str | None:
    """Return what to walk for *pattern*, so as not to walk a home folder for a part of it."""
    start = starts_of(pattern, resolver)[-1]
    if not start or rules.links or _is_in(folder, start):
        return folder
    if not _is_in(start, folder) or not posixpath.lexists(start):
        return None
    tree_filter = _TreeFilter(rules)
    path = folder
    for name in start[len(folder) :].strip("/").split("/"):
        ignore = rules_above(posixpath.join(path, name)) if tree_filter.looks_at_lists else _NONE
        path = posixpath.join(path, name)
        is_folder = posixpath.isdir(path)
        if tree_filter.leaves_out(path, name, ignore, is_folder=is_folder):
            return None
    return start


_NONE = IgnoreRules()


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


class _TreeFilter:
    """What *rules* leave out, by names."""

    def __init__(self, rules: TreeRules) -> None:
        self.rules = rules
        # Of a glob of paths the last component is enough to tell what may be read, and not
        # enough to tell what is left out.
        reaches_into = any("/" in text for text in rules.include)
        self.looks_at_lists = not (reaches_into or (rules.hidden and rules.ignored))
        # Names repeat in a large tree.
        self._may_read: dict[str, bool] = {}
        self._include = _globs(rules.include)
        names = [text.rstrip("/") for text in rules.exclude]
        self._exclude = tuple([name_glob(name) for name in names if "/" not in name])

    def may_read(self, name: str) -> bool:
        """Return whether a file of this *name* may be read."""
        known = self._may_read.get(name)
        if known is None:
            known = self._may_read[name] = self._is_let_through(name)
        return known

    def _is_let_through(self, name: str) -> bool:
        plain = plain_name(name)
        if self._include:
            return any(plain.meets(glob) for glob in self._include)
        return not any(plain.meets(glob) for glob in self._exclude)

    def leaves_out(self, path: str, name: str, ignore: IgnoreRules, *, is_folder: bool) -> bool:
        """Return whether nothing of *path*, of this *name*, is read."""
        if self._include and not is_folder:
            return not self.may_read(name)
        if not self._include and not self.may_read(name):
            return True
        if self.looks_at_lists:
            left_out = ignore.leaves_out(path, is_folder=is_folder)
            if left_out is False or (left_out and not self.rules.ignored):
                return left_out
        return not self.rules.hidden and name.startswith(".")


def _globs(texts: Sequence[str]) -> tuple[NameGlob, ...]:
    """Return what the last components of *texts* match, with braces and without: tools differ."""
    names = [text.rpartition("/")[2] or "*" for text in texts]
    with suppress(ValueError):
        names += [each.rpartition("/")[2] for text in texts for each in alternatives(text)]
        return tuple([name_glob(name) for name in names])
    return (name_glob("*"),)


def _walk(folder: str, rules: TreeRules, resolver: PathResolver) -> TreeListing:
    return _TreeWalk(folder, rules, resolver).run()


class _TreeWalk:
    """One walk below *folder*, and how much it has seen."""

    def __init__(self, folder: str, rules: TreeRules, resolver: PathResolver) -> None:
        self._rules, self._resolver = rules, resolver
        self._filter = _TreeFilter(rules)
        self._remaining = MOST_ENTRIES_BELOW
        self._pending: list[tuple[str, IgnoreRules]] = []
        self._followed: set[str] = set()
        self._names: list[str] = []
        self._is_complete = True
        self._add(folder)

    def run(self) -> TreeListing:
        """Return what is read, as far as the bound allows to look."""
        while self._pending:
            folder, ignore = self._pending.pop()
            if self._filter.looks_at_lists:
                ignore = ignore.entered(folder, lists_in(folder))
            # Nothing is read in a folder that is closed, or whose name no system takes.
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                for entry in entries:
                    self._remaining -= 1
                    if self._remaining < 0:
                        return TreeListing(NameList(self._names), is_complete=False)
                    self._take(entry, ignore)
        return TreeListing(NameList(self._names), is_complete=self._is_complete)

    def _add(self, folder: str) -> None:
        """Walk the real *folder* as well."""
        if folder not in self._followed:
            self._followed.add(folder)
            # What a pattern names may be the folder itself: then all in it is meant.
            if not posixpath.isdir(folder) or self._rules == ALL_BELOW:
                self._names.append(folder)
            above = rules_above(folder) if self._filter.looks_at_lists else _NONE
            self._pending.append((folder, above))

    def _take(self, entry: os.DirEntry[str], ignore: IgnoreRules) -> None:
        if self._rules.links and entry.is_symlink():
            resolved = self._resolver.resolve(entry.path)
            self._names.extend(resolved.names)
            self._is_complete = self._is_complete and not resolved.doubt
            if posixpath.isdir(resolved.path):
                self._add(resolved.path)
            return
        is_folder = entry.is_dir(follow_symlinks=False)
        if self._filter.leaves_out(entry.path, entry.name, ignore, is_folder=is_folder):
            return
        if is_folder:
            self._pending.append((entry.path, ignore))
        if not is_folder or self._rules == ALL_BELOW:
            self._names.append(entry.path)
