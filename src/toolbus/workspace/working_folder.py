"""The working folder of an agent, and the resolution of paths in it."""

from __future__ import annotations

import stat
from pathlib import Path

from toolbus.errors import RegistrationError
from toolbus.settings.files import reason_of


class FileToolError(Exception):
    """A failed file operation; its text tells the model what to do instead."""


class WorkingFolder:
    """The folder *root*, which must exist; raises `RegistrationError` if it does not."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser().resolve()
        if not self.root.is_dir():
            raise RegistrationError("root", f"there is no folder {str(root)!r}")

    def path(self, path: str) -> Path:
        """Return the real path of *path*, relative to the root, with symlinks resolved."""
        if "\0" in path:
            raise FileToolError(f"a path cannot contain a null byte: {path!r}")
        try:
            return (self.root / Path(path).expanduser()).resolve()
        except (OSError, RuntimeError) as error:
            # A loop of symlinks, an unknown user, a name that is too long.
            raise FileToolError(f"{path!r} cannot be resolved: {error}") from None

    def is_inside(self, path: str) -> bool:
        """Return whether *path* is inside the folder; False if it cannot be resolved."""
        try:
            return self.path(path).is_relative_to(self.root)
        except FileToolError:
            return False

    def shown(self, path: Path) -> str:
        """Return *path* for display: relative to the root if it is inside."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def check_regular(path: Path) -> None:
    """Raise `FileToolError` unless *path* is a regular file: pipes and devices may never end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise FileToolError(f"{path.name!r}: {reason_of(error)}") from None
    if stat.S_ISDIR(mode):
        raise FileToolError(f"{path.name!r} is a folder; use list_files to list it")
    if not stat.S_ISREG(mode):
        raise FileToolError(f"{path.name!r} is not a regular file but a device, socket or pipe")
