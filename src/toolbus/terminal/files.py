"""A file that is written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO

from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Give a stream to a file that takes the place of *path* at the end, if nothing was raised.

    Its owner alone may read it, unless it takes the place of one that others may. Raises
    `UsageError` for a *path* that cannot be written, or that is there already, without *force*.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(path, target, force=force)
    number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(number, "wb") as stream:  # noqa: PTH123 - a descriptor, no path
            yield stream
            stream.flush()
            if mode is not None:
                os.fchmod(number, mode)
            os.fsync(number)
        Path(name).replace(target)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def _mode(path: Path, target: Path, *, force: bool) -> int | None:
    """Return the permissions of what is at *path*, None if there is nothing."""
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {str(target.parent)!r}; make it first")
    try:
        permissions = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not S_ISREG(permissions):
        raise UsageError(f"{path} is no regular file; give the name of one")
    if not force:
        raise UsageError(f"{path} is there already; give another name, or --force")
    return permissions & 0o777
