"""Files that a host's own tools write: redaction keeps the secrets that they have.

The host runs the tool, so the text of a file is read when its call is judged. A program beside it
can still put another file there before the host writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from toolbus.policy.argument_names import file_writers, kind_of
from toolbus.settings.files import read_own_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.events.catalogue import Deny, Scope
    from toolbus.messages.records import ToolCall

_PLAIN = re.compile(r"(?!.*\.\.)[\w/.-][\w/.+@=, -]*")
"""Paths that each host takes as they are: a tilde, a variable or an address may lead elsewhere."""


@runtime_checkable
class FileKeeper(Protocol):
    """A component that puts into a file what redaction took out of the same file."""

    enabled: bool

    async def written_back(self, call: ToolCall, scope: Scope) -> ToolCall | Deny:
        """Return *call* as its tool is to run, or why it does not run."""
        ...


def is_file_writer(call: ToolCall) -> bool:
    """Return whether the tool of *call* is one that writes a file."""
    return any(fnmatchcase(call.name, pattern) for pattern in file_writers())


def text_before(call: ToolCall, scope: Scope) -> str | None:
    """Return the text of the file that *call* of a host's tool writes; None for another tool.

    It is "" where that is not one text file in the folder of the session, without a link.
    """
    if not is_file_writer(call):
        return None
    paths = [*_paths(call.arguments)]
    path = paths[0] if len(paths) == 1 and scope.folder else None
    if not isinstance(path, str) or not _PLAIN.fullmatch(path):
        return ""
    folder = Path(os.path.realpath(scope.folder))
    inside = bool(scope.project) and folder.is_relative_to(scope.project)
    return read_own_text(path, scope.folder, Path(scope.project) if inside else folder)


def _paths(value: object) -> Iterator[object]:
    """Yield the values in *value* that are files by their names, at any depth."""
    match value:
        case Mapping():
            for name, item in value.items():
                yield from [item] if kind_of(name) == "path" else _paths(item)
        case list() | tuple():
            for item in value:
                yield from _paths(item)
