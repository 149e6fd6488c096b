"""The folder that an agent works in, and which paths are outside of it."""

from __future__ import annotations

import stat
from pathlib import Path

from toolbus.errors import RegistrationError
from toolbus.settings.files import reason_of


class FileToolError(Exception):
    """What a model asked for cannot be done with a file; the text says what to do instead."""


class WorkingFolder:
    """The folder *root*, which must be there; raises `RegistrationError` if it is not."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser().resolve()
        if not self.root.is_dir():
            raise RegistrationError("root", f"there is no folder {str(root)!r}")

    def path(self, path: str) -> Path:
        """Return where *path* leads, links followed; a relative one begins at the root."""
        if "\0" in path:
            raise FileToolError(f"no path has a zero byte: {path!r}")
        try:
            return (self.root / Path(path).expanduser()).resolve()
        except (OSError, RuntimeError) as error:
            # A loop of links, a user who is not there, a name that is too long.
            raise FileToolError(f"{path!r} leads nowhere: {error}") from None

    def is_inside(self, path: str) -> bool:
        """Tell whether *path* leads into the folder; what leads nowhere does not."""
        try:
            return self.path(path).is_relative_to(self.root)
        except FileToolError:
            return False

    def shown(self, path: Path) -> str:
        """Return *path* as a model is told it: from the root on, if it is inside."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def check_regular(path: Path) -> None:
    """Raise `FileToolError` unless *path* is a file: a pipe or a device might never end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise FileToolError(f"{path.name!r}: {reason_of(error)}") from None
    if stat.S_ISDIR(mode):
        raise FileToolError(f"{path.name!r} is a folder; list_files shows what is in it")
    if not stat.S_ISREG(mode):
        raise FileToolError(f"{path.name!r} is no file but a device, a socket or a pipe")
