"""Names of arguments that are files or addresses, and names of tools that write a file.

A policy reads calls by them, and so do the hooks of coding agents.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["path", "host", ""]

FILE_WRITERS = (
    "[Ww]rite",
    "write_file",
    "file_system.write*",
    "create",
    "[Ee]dit",
    "MultiEdit",
    "NotebookEdit",
    "file_system.edit*",
    "file_system.search_replace",
    "replace",
    "apply_patch",
)
"""The tools of coding agents that write the file which an argument names, or a patch."""

_PATH_NAMES = frozenset(
    {
        *("source", "sources", "src", "destination", "dest", "dst", "target", "root"),
        *("cwd", "workdir"),
    }
)
_PATH_ENDS = frozenset(
    {
        *("path", "paths", "pathname", "file", "files", "filename", "filenames"),
        *("filepath", "filepaths", "dir", "dirs", "directory", "directories"),
        *("folder", "folders"),
    }
)
_HOST_ENDS = frozenset(
    {
        *("url", "urls", "uri", "uris", "href", "host", "hosts", "hostname", "hostnames"),
        *("endpoint", "domain", "domains"),
    }
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def kind_of(name: str) -> Kind:
    """Return what the argument *name* holds, as its name says."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return ""
    if words[-1] in _HOST_ENDS:
        return "host"
    return "path" if words[-1] in _PATH_ENDS or "_".join(words) in _PATH_NAMES else ""
