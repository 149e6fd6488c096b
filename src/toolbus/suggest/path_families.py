"""The patterns of a family of paths: their folder, and names of the same kind.

Files are never generalised to a whole folder: `docs/chapter-*.md` or `docs/[!.]*.md`, so that no
hidden file, no file of another kind and no link is covered. What a call writes is generalised only
for texts and data, which no program runs, and for numbered folders.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_MOST = 8
"""The most patterns of one family."""

_TEXTS = frozenset({".adoc", ".css", ".csv", ".log", ".md", ".po", ".rst", ".svg", ".tex", ".tsv"})
"""Endings of written files, whatever their names are."""

_NUMBERED = _TEXTS | {".html", ".json", ".jsonl", ".txt", ".xml", ".yaml", ".yml"}
"""Endings of written files whose names begin alike and have a number, such as `order-12.json`."""

_HEAD = re.compile(r"([A-Za-z][A-Za-z_. -]*)\d")
_NUMBERED_NAME = re.compile(r"(\D+)(\d+)")


def kind_of_name(path: str) -> str:
    """Return the kind of the last name of *path*: its ending, and whether it begins with a capital.

    Names in capitals are for programs and agents: `CLAUDE.md`, `CMakeLists.txt`.
    """
    name = posixpath.basename(path)
    return f"{'A' if name[0].isupper() else 'a'}{posixpath.splitext(name)[1]}"


def is_data(path: str) -> bool:
    """Return whether *path* has the ending of a text or of data, which no program runs."""
    return posixpath.splitext(path)[1] in _NUMBERED


def family_patterns(
    paths: Collection[str], *, is_written: bool, makes_folders: bool = False
) -> list[str] | None:
    """Return the patterns of the kind of *paths*, relative to a project; None if there are none.

    A call that *makes_folders* writes no file. A single path is its own pattern.
    """
    if len(paths) == 1:
        is_open = makes_folders or not is_written or all(map(is_data, paths))
        return [*paths] if is_open else None
    folder = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    heads = {match[1] if (match := _HEAD.match(posixpath.basename(p))) else "" for p in paths}
    head = heads.pop() if len(heads) == 1 else ""
    patterns = set()
    for path in paths:
        name = _name_pattern(posixpath.basename(path), head, is_written, makes_folders)
        if not name or not folder:
            return None
        depth = path.count("/") - folder.count("/") - 1
        patterns.add(f"{folder}/{'[!.]*/' * depth}{name}")
    return sorted(patterns) if len(patterns) <= _MOST else None


def _name_pattern(name: str, head: str, is_written: bool, makes_folders: bool) -> str:  # noqa: FBT001 - as above
    """Return the pattern for *name* and its kind, "" if there is none."""
    ending = posixpath.splitext(name)[1]
    if not ending:
        number = _NUMBERED_NAME.fullmatch(name)
        if not (head and number) or (is_written and not makes_folders):
            return ""
        return f"{number[1]}{'[0-9]' * len(number[2])}"
    if is_written and ending not in (_NUMBERED if head else _TEXTS):
        return ""
    if not head and is_written and name[0].isupper():
        return ""
    start = head or ("[!.A-Z]" if is_written else "[!.]")
    return f"{start}*{ending}"
