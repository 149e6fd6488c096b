"""A bounded walk that looks below a folder for a file of a rule that a program would read there."""

from __future__ import annotations

import os
import posixpath
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import TreeRules
from toolbus.policy.paths.ignore_files import IgnoreRules, lists_in, rules_above
from toolbus.policy.paths.name_globs import DOUBLE, NameGlob, fold, name_glob, plain_name
from toolbus.policy.paths.path_matching import matching
from toolbus.policy.paths.path_patterns import alternatives, first_states, needle, next_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolving import PathResolver

MOST_ENTRIES_BELOW = 50_000
"""Entries of folders that are looked at in one walk."""


ALL_BELOW = TreeRules()


class Discovery(NamedTuple):
    """A *path* below, and the text of the *pattern* that names it; or a *doubt* about it all."""

    path: str
    pattern: str = ""
    doubt: str = ""


def find_below(
    folder: str, patterns: Sequence[PathPattern], resolver: PathResolver, rules: TreeRules
) -> Discovery | None:
    """Return a file below the real *folder* that one of *patterns* names and *rules* let through.

    None if there is none. The folder itself is not looked at, and may be anything.
    """
    return _TreeWalk(patterns, resolver, rules, folder).run()


_States = tuple[frozenset[int], ...]


class _TreeChoices(NamedTuple):
    """What the entries of a folder lead to, where some states hold.

    A name that is none of the *literals* and matches none of the *globs*, each with its needle,
    leads to the states *others*.
    """

    literals: frozenset[str]
    globs: tuple[tuple[str, NameGlob], ...]
    others: _States

    def concern(self, name: str) -> bool:
        """Tell whether *name* is one of those that matter."""
        return name in self.literals or any(
            each in name and glob.meets(plain_name(name)) for each, glob in self.globs
        )


class _TreeEntry(NamedTuple):
    name: str
    is_folder: bool
    is_link: bool


class _TreeFilter:
    """What *rules* leave out, by names."""

    def __init__(self, rules: TreeRules) -> None:
        self.rules = rules
        # Of a glob of paths the last component is enough to tell what may be read, and not
        # enough to tell what is left out.
        reaches_into = any("/" in text for text in rules.include)
        self.looks_at_lists = not (reaches_into or (rules.hidden and rules.ignored))
        self._include = _globs(rules.include)
        names = [text.rstrip("/") for text in rules.exclude]
        self._exclude = tuple([name_glob(name) for name in names if "/" not in name])

    def may_read(self, name: str) -> bool:
        """Tell whether a file of this *name* may be read."""
        plain = plain_name(name)
        if self._include:
            return any(plain.meets(glob) for glob in self._include)
        return not any(plain.meets(glob) for glob in self._exclude)

    def leaves_out(self, path: str, name: str, ignore: IgnoreRules, *, is_folder: bool) -> bool:
        """Tell whether nothing of *path*, of this *name*, is read."""
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


class _TreeWalk:
    """One walk, and how much it has seen."""

    def __init__(
        self, patterns: Sequence[PathPattern], resolver: PathResolver, rules: TreeRules, folder: str
    ) -> None:
        self._patterns, self._resolver, self._rules, self._root = patterns, resolver, rules, folder
        self._folds = resolver.folds_names(folder)
        self._parts = [self._all_parts(pattern) for pattern in patterns]
        self._choices: dict[_States, _TreeChoices] = {}
        self._entries = 0
        self._filter = _TreeFilter(rules)
        self._pending: list[tuple[str, _States, IgnoreRules]] = []
        self._followed: set[str] = set()

    def run(self) -> Discovery | None:
        self._add(self._root)
        while self._pending:
            path, states, ignore = self._pending.pop()
            try:
                entries = self._list(path, states)
            except OSError:
                continue  # Who may not look into it reads nothing there.
            if self._entries > MOST_ENTRIES_BELOW:
                return Discovery(path, doubt=f"too many files are below {self._root!r}")
            if self._filter.looks_at_lists:
                ignore = ignore.entered(path, lists_in(path))
            for entry in entries:
                if (discovery := self._take(path, entry, states, ignore)) is not None:
                    return discovery
        return None

    def _add(self, folder: str) -> None:
        """Walk the real *folder* as well."""
        if folder in self._followed:
            return
        self._followed.add(folder)
        states = tuple([first_states(parts) for parts in self._parts])
        for name in folder.split("/"):
            if name:
                states = self._after(states, name)
        if any(states):
            self._pending.append((folder, states, rules_above(folder)))

    def _take(
        self, folder: str, entry: _TreeEntry, states: _States, ignore: IgnoreRules
    ) -> Discovery | None:
        path = posixpath.join(folder, entry.name)
        after = self._after(states, entry.name)
        if entry.is_link and self._rules.links:
            return self._take_link(path, entry.name)
        if not any(after) or self._filter.leaves_out(
            path, entry.name, ignore, is_folder=entry.is_folder
        ):
            return None
        if entry.is_folder:
            self._pending.append((path, after, ignore))
            if self._rules != ALL_BELOW:
                return None
        for pattern, parts, reached in zip(self._patterns, self._parts, after, strict=True):
            if len(parts) in reached:
                return Discovery(path, pattern.text)
        return None

    def _take_link(self, path: str, name: str) -> Discovery | None:
        resolved = self._resolver.resolve(path)
        if posixpath.isdir(resolved.path):
            self._add(resolved.path)
        elif not self._filter.may_read(name):
            return None
        for each in resolved.names:
            if (pattern := matching(each, self._patterns, self._resolver)) is not None:
                return Discovery(each, pattern.text)
        return None

    def _list(self, path: str, states: _States) -> list[_TreeEntry]:
        """Return the entries of the folder at *path* that may matter."""
        choices = self._choices_at(states)
        if self._rules.links or self._folds or choices.globs or any(choices.others):
            with os.scandir(path) as entries:
                return [self._entry(each) for each in islice(entries, self._remaining())]
        paths = [(name, posixpath.join(path, name)) for name in sorted(choices.literals)]
        return [
            _TreeEntry(
                name, posixpath.isdir(each) and not posixpath.islink(each), posixpath.islink(each)
            )
            for name, each in paths
            if posixpath.lexists(each)
        ]

    def _remaining(self) -> int:
        return MOST_ENTRIES_BELOW + 1 - self._entries

    def _entry(self, entry: os.DirEntry[str]) -> _TreeEntry:
        self._entries += 1
        return _TreeEntry(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink())

    def _after(self, states: _States, name: str) -> _States:
        choices = self._choices_at(states)
        name = fold(name) if self._folds else name
        if not choices.concern(name):
            return choices.others
        plain = plain_name(name)
        return tuple(
            [
                next_states(parts, reached, plain)
                for parts, reached in zip(self._parts, states, strict=True)
            ]
        )

    def _choices_at(self, states: _States) -> _TreeChoices:
        if states not in self._choices:
            expected = [
                parts[state]
                for parts, reached in zip(self._parts, states, strict=True)
                for state in reached
                if state < len(parts) and parts[state] is not DOUBLE
            ]
            literals = frozenset([each.literal for each in expected if each.literal is not None])
            globs = dict.fromkeys([each for each in expected if each.literal is None])
            # What matches nothing else: no name has a zero byte.
            others = tuple(
                [
                    next_states(
                        parts,
                        [state for state in reached if parts[state : state + 1] == (DOUBLE,)],
                        plain_name("\0"),
                    )
                    for parts, reached in zip(self._parts, states, strict=True)
                ]
            )
            needles = tuple([(needle([glob]), glob) for glob in globs])
            self._choices[states] = _TreeChoices(literals, needles, others)
        return self._choices[states]

    def _all_parts(self, pattern: PathPattern) -> tuple[NameGlob, ...]:
        """Return *pattern* from the root on, and for all below what it names."""
        start = self._resolver.resolve(pattern.start).path if pattern.start else ""
        components = pattern.components
        if self._folds:
            start, components = fold(start), pattern.folded
        names = [plain_name(name) for name in start.split("/") if name]
        return (*names, *components, DOUBLE)
