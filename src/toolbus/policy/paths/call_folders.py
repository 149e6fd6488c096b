"""In which folder a command runs, and in which one a shell that keeps its state is afterwards."""

from __future__ import annotations

import posixpath
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from toolbus.policy.commands import CommandReading
    from toolbus.policy.paths.resolving import PathResolver

MOST_MISSING = 3
"""Folders of one path that are not there yet; with more of them it is unknown where a shell is."""


class FolderChoice(NamedTuple):
    """The absolute *paths* of which one is the folder, the likeliest first; or why it is unknown.

    With a *doubt* it may be none of them.
    """

    paths: tuple[str, ...]
    doubt: str = ""


def find_folders(folder: str | None, resolver: PathResolver) -> FolderChoice:
    """Return where the *folder* of a command is for a call where *resolver* stands.

    If it is not there, a ``cd`` may fail, and the command run elsewhere on the way.
    """
    start = resolver.place.folder
    if folder is not None and folder.startswith("~"):
        folder = _at_home(folder, resolver)
    if folder is None or (start is None and not folder.startswith("/")):
        return FolderChoice((), "the folder it runs in is unknown")
    written = posixpath.join(start or "/", folder)
    plain = posixpath.normpath(f"/{written.lstrip('/')}")
    # A shell's `cd x/..` undoes `cd x`, the kernel's goes up from where x leads to.
    if ".." in written.split("/") and _differ(plain, written, resolver):
        return FolderChoice((), f"{folder!r} leads behind a link and up again")
    if posixpath.isdir(plain):
        return FolderChoice((plain,))
    return _missing(plain, start)


def next_folder(reading: CommandReading, resolver: PathResolver) -> str | None:
    """Return where a shell that keeps its state is after *reading*, None if that is unknown.

    It began where *resolver* stands. Ask when the call has run: what it made is there then.
    """
    if reading.unreadable:
        return None
    choice = find_folders(reading.final_folder, resolver)
    return choice.paths[0] if len(choice.paths) == 1 and not choice.doubt else None


def _missing(plain: str, start: str | None) -> FolderChoice:
    doubt = f"there is no folder {plain!r}"
    if start is None:
        return FolderChoice((plain,), doubt)
    inside = plain.removeprefix(start).strip("/") if plain.startswith(f"{start}/") else ""
    steps = inside.split("/") if inside else []
    if not 0 < len(steps) <= MOST_MISSING:
        exists = posixpath.isdir(posixpath.dirname(plain))
        return FolderChoice((plain, start), "" if exists and not steps else doubt)
    ways = [way for size in range(len(steps)) for way in combinations(steps, size)]
    return FolderChoice((plain, *[posixpath.join(start, *way) for way in ways]))


def _at_home(folder: str, resolver: PathResolver) -> str | None:
    name, slash, rest = folder.partition("/")
    home = resolver.home() if name == "~" else posixpath.expanduser(name)
    return f"{home}{slash}{rest}" if home.startswith("/") else None


def _differ(plain: str, written: str, resolver: PathResolver) -> bool:
    return resolver.resolve(plain).path != resolver.resolve(written).path
