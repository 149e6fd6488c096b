"""The settings files of hosts: read with checks, and replaced atomically.

Symlinks of the user's own files are followed, since people keep such files elsewhere; the plan
shows their targets. A project's symlinks are refused: its author would choose the edited file.
"""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE

from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.settings.private_files import (
    UnfitFileError,
    read_regular,
    remove_partial_files,
    writable_by_others,
    write_private,
)

LARGEST = 2_000_000
"""The most bytes of an edited file; usual ones have some thousands."""


class SettingsFile(Struct, frozen=True, kw_only=True):
    """A file as it was read.

    Args:
        path: the host's path of the file.
        real: the real path of the file; it differs if *path* is a symlink.
        data: the content; None if the file does not exist.
        mode: the permissions of the file, or of the new file.
    """

    path: Path
    real: Path
    data: bytes | None
    mode: int = 0o600

    @property
    def text(self) -> str | None:
        """The text with original line ends; raises `ConfigurationError` if it is not UTF-8."""
        if self.data is None:
            return None
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise ConfigurationError("expected UTF-8", str(self.path), line) from None


def read_settings(path: Path, project: Path | None = None) -> SettingsFile:
    """Return the file at *path*, existing or not; *project* is the real folder of its project.

    Raises `ConfigurationError` for a file that others may change, for a symlink in a project, and
    unless it is a regular file of at most 2 MB.
    """
    if project is not None:
        _refuse_symlinks(path, project)
    file = read_any(path)
    existing = next(each for each in (file.real, *file.real.parents) if each.exists())
    reason = writable_by_others(existing)
    if reason is None and file.data is not None and file.real.stat().st_uid != os.geteuid():
        reason = "it belongs to root"
    if reason is not None:
        place = "" if existing == file.real else f" of {str(existing)!r}"
        text = f"refused{place}: {reason}; make it yours alone"
        raise ConfigurationError(text, str(path))
    return file


def read_any(path: Path) -> SettingsFile:
    """Return the file at *path* for reading only, even if others may write it.

    Raises `ConfigurationError` unless it is a regular file of at most 2 MB.
    """
    real = Path(os.path.realpath(path))
    try:
        data, status = read_regular(real, LARGEST)
    except (FileNotFoundError, NotADirectoryError):
        return SettingsFile(path=path, real=real, data=None)
    except UnfitFileError as error:
        raise ConfigurationError(error.reason, str(path)) from None
    except OSError as error:
        text = f"it cannot be read: {error.strerror}"
        raise ConfigurationError(text, str(path)) from error
    return SettingsFile(path=path, real=real, data=data, mode=S_IMODE(status.st_mode))


def replace_settings(file: SettingsFile, data: bytes | None) -> None:
    """Replace the content of *file* by *data*; None removes it.

    Raises `ConfigurationError` if it has changed since it was read, or cannot be written.
    """
    try:
        current = file.real.read_bytes() if file.real.exists() else None
        if current != file.data or Path(os.path.realpath(file.path)) != file.real:
            raise ConfigurationError("the file has changed meanwhile; try again", str(file.path))
        if data is None:
            file.real.unlink(missing_ok=True)
        else:
            write_private(file.real, data, file.mode)
            remove_partial_files(file.real.parent)
    except OSError as error:
        reason = f"it cannot be written: {error.strerror}"
        raise ConfigurationError(reason, str(file.path)) from error


def _refuse_symlinks(path: Path, project: Path) -> None:
    parts = path.relative_to(project).parts
    for length in range(1, len(parts) + 1):
        part = project.joinpath(*parts[:length])
        if part.is_symlink():
            target = os.path.realpath(part)
            text = f"refused: {str(part)!r} is a symlink to {target!r}; make it a plain file"
            raise ConfigurationError(text, str(path))
