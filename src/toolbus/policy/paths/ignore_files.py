"""What a search leaves out because of `.gitignore`, `.ignore` and `.rgignore`.

The syntax is gitignore(5)'s; which files count where is what ripgrep's guide says. Where it is not
certain that a file is left out, it is not: `info/exclude` and a user's own list do not count here,
and one line that takes a name back does, wherever it stands.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from toolbus.policy.paths.name_globs import NameGlob, plain_name
from toolbus.policy.paths.path_patterns import components_of, meets, needle

LONGEST_FILE = 100_000
"""Bytes of a list; a longer one is not read, so that nothing counts as left out by it."""

_OF_GIT = ".gitignore"
_OTHERS = (".ignore", ".rgignore")
_LISTS = (".git", _OF_GIT, *_OTHERS)


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
        """Tell whether *path* is left out; False if a line takes it back, None if none speaks."""
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
