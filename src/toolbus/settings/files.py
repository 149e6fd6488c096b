"""Files for commands: an atomic write, a read without links, and the texts of system errors."""

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
    """Yield a stream to a file that replaces *path* at the end, unless the block raises.

    A new file is private to its owner; an existing file keeps its permissions. Raises `UsageError`
    for a *path* that cannot be written, or that exists, without *force*.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(path, target, force=force)
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(replacing_file(target, mode))
        except OSError as error:
            folder = str(target.parent)
            reason = f"{reason_of(error)}; choose another folder, or make it writable"
            raise UsageError(
                f"{path}: cannot create a file in the folder {folder!r}: {reason}"
            ) from error
        yield stream


def read_own_text(path: str, folder: str, root: Path) -> str:
    """Return the text of the file *path* in *folder*, with its own line ends.

    It is "" for a path that leaves *root*, a real path, or passes a link, and for a file that is
    not UTF-8 or longer than ten million bytes.
    """
    below = Path(path)
    if below.is_relative_to(folder):
        below = below.relative_to(folder)  # The name of the folder may contain a link.
    with suppress(OSError, ValueError):
        joined = os.path.join(os.path.realpath(folder), below)  # noqa: PTH118 - keeps ".."
        named = Path(os.path.normpath(joined))
        if named != Path(os.path.realpath(joined)) or not named.is_relative_to(root):
            return ""
        # A pipe must not block, nor a link that was created meanwhile be followed.
        number = os.open(named, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(number, encoding="utf-8", newline="") as file:  # noqa: PTH123 - a descriptor
            state = os.fstat(number)
            if S_ISREG(state.st_mode) and state.st_size <= _LARGEST:
                return file.read()
    return ""


def format_os_error(error: OSError) -> str:
    """Return *error* as text with its file, without the number of the error."""
    name = f"{os.fsdecode(error.filename)!r}: " if error.filename is not None else ""
    return f"{name}{reason_of(error)}"


def reason_of(error: OSError) -> str:
    """Return the system's reason, beginning in lower case like our own errors."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _mode(path: Path, target: Path, *, force: bool) -> int:
    """Return the permissions of the file at *path*, or of a new one."""
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {str(target.parent)!r}; create it first")
    try:
        permissions = target.stat().st_mode
    except FileNotFoundError:
        return 0o600
    if not S_ISREG(permissions):
        raise UsageError(f"{path} is not a regular file; choose another name")
    if not force:
        raise UsageError(f"{path} exists; choose another name, or add --force")
    return permissions & 0o777
