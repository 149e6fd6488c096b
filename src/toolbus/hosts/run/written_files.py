"""Files that a host's own tools write, so that redaction can restore the secrets in them.

The host runs the tool, so a file is read when its call is judged. Another program can still
replace the file before the host writes it.
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
"""Paths that every host uses unchanged; tildes, variables and URLs may be expanded."""


@runtime_checkable
class FileKeeper(Protocol):
    """A component that restores redacted values in the file that they came from."""

    enabled: bool

    async def written_back(self, call: ToolCall, scope: Scope) -> ToolCall | Deny:
        """Return *call* as its tool runs it, or the denial."""
        ...


def is_file_writer(call: ToolCall) -> bool:
    """Return whether the tool of *call* writes files."""
    return any(fnmatchcase(call.name, pattern) for pattern in file_writers())


def text_before(call: ToolCall, scope: Scope) -> str | None:
    """Return the current text of the file that *call* writes; None for any other tool.

    It is "" unless the call names a single text file in the session's folder, without symlinks.
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
    """Yield the values in *value*, at any depth, whose names denote paths."""
    match value:
        case Mapping():
            for name, item in value.items():
                yield from [item] if kind_of(name) == "path" else _paths(item)
        case list() | tuple():
            for item in value:
                yield from _paths(item)
