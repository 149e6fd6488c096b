"""A file that is written whole or not at all, and the text of a file that no link leads to."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO

from toolbus.settings.private_files import replacing_file
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST = 10_000_000


@contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Give a stream to a file that takes the place of *path* at the end, if nothing was raised.

    Its owner alone may read it, unless it takes the place of one that others may. Raises
    `UsageError` for a *path* that cannot be written, or that is there already, without *force*.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(path, target, force=force)
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(replacing_file(target, mode))
        except OSError as error:
            folder = str(target.parent)
            reason = f"{reason_of(error)}; give another one, or make that writable"
            raise UsageError(
                f"{path}: no file can be made in the folder {folder!r}: {reason}"
            ) from error
        yield stream


def read_own_text(path: str, folder: str, root: Path) -> str:
    """Return the text of the file that *path* names in *folder*, line ends as they are.

    It is "" where the path leads out of *root*, a real path, or past a link, and for all but a
    text in UTF-8 of at most ten million bytes.
    """
    below = Path(path)
    if below.is_relative_to(folder):
        below = below.relative_to(folder)  # The folder itself may be named by a link.
    with suppress(OSError, ValueError):
        joined = os.path.join(os.path.realpath(folder), below)  # noqa: PTH118 - it stays as it is
        named = Path(os.path.normpath(joined))
        if named != Path(os.path.realpath(joined)) or not named.is_relative_to(root):
            return ""
        # A pipe would not be waited for, nor a link be followed that was put there meanwhile.
        number = os.open(named, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(number, encoding="utf-8", newline="") as file:  # noqa: PTH123 - it has a number
            state = os.fstat(number)
            if S_ISREG(state.st_mode) and state.st_size <= _LARGEST:
                return file.read()
    return ""


def worded(error: OSError) -> str:
    """Return what the system says of a file, without the number of the error."""
    name = f"{os.fsdecode(error.filename)!r}: " if error.filename is not None else ""
    return f"{name}{reason_of(error)}"


def reason_of(error: OSError) -> str:
    """Return why the system refused, in small letters as our other errors."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _mode(path: Path, target: Path, *, force: bool) -> int:
    """Return the permissions of the file at *path*, or of a new one."""
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {str(target.parent)!r}; make it first")
    try:
        permissions = target.stat().st_mode
    except FileNotFoundError:
        return 0o600
    if not S_ISREG(permissions):
        raise UsageError(f"{path} is no regular file; give the name of one")
    if not force:
        raise UsageError(f"{path} is there already; give another name, or --force")
    return permissions & 0o777
