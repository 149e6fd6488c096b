"""The pattern of a family of paths: names of one kind in one folder.

A folder is never opened as a whole: `docs/chapter-[0-9]*.md` or `docs/[!.]*.md` covers no hidden
file, no file of another kind and no deeper folder. A name without a number is generalised only for
texts: settings, data and code of other names may hold a secret. What a call writes is generalised
only for texts and data, which no program runs, and for numbered folders.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_TEXTS = frozenset({".adoc", ".css", ".csv", ".log", ".md", ".po", ".rst", ".svg", ".tex", ".tsv"})
"""Endings of files whose names need no number."""

_NUMBERED = _TEXTS | {".html", ".json", ".jsonl", ".txt", ".xml", ".yaml", ".yml"}
"""Endings of written files whose names begin alike and have a number, such as `order-12.json`."""

_HEAD = re.compile(r"[A-Za-z][A-Za-z_. -]*(?=\d)")


def kind_of_path(path: str) -> str:
    """Return the kind of *path*: its folder, the ending, and whether the name begins in capitals.

    Names in capitals are for programs and agents: `CLAUDE.md`, `CMakeLists.txt`.
    """
    folder, name = posixpath.split(path)
    return f"{folder}/{'A' if name[:1].isupper() else 'a'}{posixpath.splitext(name)[1]}"


def is_data(path: str) -> bool:
    """Return whether *path* has the ending of a text or of data, which no program runs."""
    return posixpath.splitext(path)[1] in _NUMBERED


def family_patterns(
    paths: Collection[str], *, is_written: bool, makes_folders: bool = False
) -> list[str]:
    """Return the patterns of *paths* of one kind in a project; none if they cannot be generalised.

    A call that *makes_folders* writes no file. A single path is its own pattern.
    """
    folder, first = posixpath.split(min(paths))
    ending, is_open = posixpath.splitext(first)[1], makes_folders or not is_written
    if not is_open and ending not in _NUMBERED:
        return []
    if len(paths) == 1:
        return [*paths]
    names = [posixpath.basename(path) for path in paths]
    if head := _head_of(names):
        patterns = [f"{head}[0-9]*{ending}"] if ending else _numbered(names, head)
    else:
        patterns = _texts(first, ending, "[!.]" if is_open else "[!.A-Z]")
    return [f"{folder}/{each}" for each in patterns]


def _texts(name: str, ending: str, start: str) -> list[str]:
    """Return the pattern for texts of the kind of *name*, none for other files."""
    is_fit = ending in _TEXTS and not ("A-Z" in start and name[0].isupper())
    return [f"{start}*{ending}"] if is_fit else []


def _numbered(names: Collection[str], head: str) -> list[str]:
    """Return the patterns of *names* that are *head* and a number."""
    lengths = {len(name) - len(head) for name in names if name[len(head) :].isdecimal()}
    return [f"{head}{'[0-9]' * length}" for length in sorted(lengths)]


def _head_of(names: Collection[str]) -> str:
    """Return the beginning of all *names* before a number, "" if they differ in it."""
    heads = {match[0] if (match := _HEAD.match(name)) else "" for name in names}
    return heads.pop() if len(heads) == 1 else ""
