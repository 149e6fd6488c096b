"""The parsed file of a configuration: `toolbus.toml`, or a table of `pyproject.toml`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import ConfigurationError
from toolbus.toml.files import decode_text, locate_keys, parse_toml, read_bytes

if TYPE_CHECKING:
    from toolbus.toml.key_lines import KeyPath

NAME = "toolbus.toml"
_PROJECT = "pyproject.toml"
NAMES = (NAME, _PROJECT)
_LONGEST = 2**26
"""The most bytes of a project's file that are read."""


class Document(NamedTuple):
    """The *table* of toolbus in *file*, and the *lines* of all keys by their path in it."""

    file: Path
    table: dict[str, Any]
    lines: dict[KeyPath, int]

    def error(self, reason: str, *path: str | int) -> ConfigurationError:
        """Return an error at the key *path*, or at the table that lacks it."""
        while path and path not in self.lines:
            path = path[:-1]
        return ConfigurationError(reason, str(self.file), self.lines.get(path))


def find(folder: Path | None = None) -> Path | None:
    """Return the nearest configuration in *folder* (default: the current one) or above, or None.

    The search ends at the root of the repository (with `.git`) or at the home folder, whichever
    comes first; outside of both it covers *folder* alone. In one folder a `toolbus.toml` precedes
    a `pyproject.toml` with `[tool.toolbus]`. Raises `ConfigurationError` for an unreadable
    `pyproject.toml` that mentions toolbus.
    """
    for place in search_places(folder):
        if (place / NAME).is_file():
            return place / NAME
        project = place / _PROJECT
        if project.is_file() and _mentions_toolbus(project):
            return project
    return None


def search_places(folder: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that `find` searches, the nearest first."""
    here = Path.cwd() if folder is None else folder
    end = _end_of_search(here)
    nearest = Path() if folder is None else folder
    return (nearest, *[above for above in here.parents if above.is_relative_to(end)])


def repository_of(folder: Path) -> Path | None:
    """Return the root of the repository around *folder*, or None.

    A `.git` of another user does not count: it may lie in a folder that all may write.
    """
    for root in (folder, *folder.parents):
        with suppress(OSError):
            if (root / ".git").lstat().st_uid in {0, os.geteuid()}:
                return root
    return None


def _end_of_search(here: Path) -> Path:
    ends = [here]
    repository = repository_of(here)
    if repository is not None:
        ends.append(repository)
    with suppress(OSError, RuntimeError):
        home = Path(os.path.realpath(Path.home()))
        # A service may have the root of the file system as its home; that ends no search.
        if here.is_relative_to(home) and home != home.parent:
            ends.append(home)
    return max(ends[1:] or ends, key=lambda end: len(end.parts))


def read_document(file: Path, data: bytes | None = None) -> Document:
    """Return the document of *file*, or of its bytes *data*; raises `ConfigurationError`."""
    text = decode_text(file, read_bytes(file) if data is None else data)
    table: Any = parse_toml(file, text)
    lines = locate_keys(file, text)
    root: KeyPath = ("tool", "toolbus") if file.name == _PROJECT else ()
    for key in root:
        table = table.get(key) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigurationError("there is no [tool.toolbus] in it; add one", str(file))
    depth = len(root)
    ours = {path[depth:]: line for path, line in lines.items() if path[:depth] == root}
    return Document(file, table, ours)


def _mentions_toolbus(project: Path) -> bool:
    text = decode_text(project, read_bytes(project, _LONGEST))
    # A file without a mention of toolbus may be broken.
    tools = parse_toml(project, text).get("tool") if "toolbus" in text else None
    return isinstance(tools, dict) and "toolbus" in tools
