"""Links to folders below one in which a program puts files whose names nobody knows.

`tar` unpacks through a link that is there already, wherever it leads.
"""

from __future__ import annotations

import os
import posixpath
from typing import NamedTuple

MOST_ENTRIES = 50_000
"""Entries of folders that are looked at in one walk."""


class LinkedFolders(NamedTuple):
    """The real *paths* outside of a folder to which links below it lead; maybe not all."""

    paths: tuple[str, ...]
    is_complete: bool = True


def linked_folders(folder: str) -> LinkedFolders:
    """Return the folders outside of the real *folder* to which links below it lead."""
    paths: dict[str, None] = {}
    pending, entries = [folder], 0
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                for entry in listing:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        return LinkedFolders(tuple(paths), is_complete=False)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.is_symlink() and posixpath.isdir(entry.path):
                        path = os.path.realpath(entry.path)
                        if posixpath.commonpath([path, folder]) != folder:
                            paths[path] = None
        except OSError:
            continue
    return LinkedFolders(tuple(paths))
