"""A key of the user's own: random bytes in a file that nobody else reads, made where it is missing.

It is never written again: two processes that make it at once agree on the one that came first, and
what stands there and is no such key is refused until a person removes it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import TYPE_CHECKING

from toolbus.settings.ownership import foreign_hand, unfit_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 32
"""Bytes of a key."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UserKeyError(Exception):
    """The key in *file* cannot be used, for *reason*; what is in it is never said."""

    def __init__(self, file: Path, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(file, reason)

    def __str__(self) -> str:
        return f"key file {str(self.file)!r}: {self.reason}"


def user_key(file: Path) -> bytes:
    """Return the `SIZE` bytes in *file*, which is made if it is not there.

    It must be a regular file of ours, no link, that nobody else may read or replace. Raises
    `UserKeyError`.
    """
    try:
        try:
            return _read(file)
        except FileNotFoundError:
            _make(file)
            return _read(file)
    except OSError as error:
        raise UserKeyError(file, error.strerror or str(error)) from None


def check_user_key(file: Path) -> None:
    """Raise `UserKeyError` if `user_key` would; nothing is made."""
    try:
        _read(file)
    except FileNotFoundError:
        folder = next(each for each in file.parents if each.exists())
        reason = foreign_hand(Path(os.path.realpath(folder)))
        if reason is None and not os.access(folder, os.W_OK | os.X_OK):
            reason = f"nothing can be written in {str(folder)!r}"
        if reason is not None:
            raise UserKeyError(file, reason) from None
    except OSError as error:
        raise UserKeyError(file, error.strerror or str(error)) from None


def _read(file: Path) -> bytes:
    number = os.open(file, _READ)
    try:
        reason = unfit_secret(file, os.fstat(number))
        key = b"" if reason else os.read(number, SIZE + 1)
    finally:
        os.close(number)
    reason = reason or foreign_hand(Path(os.path.realpath(file)))
    if reason is None and len(key) != SIZE:
        reason = f"expected {SIZE} bytes; remove it, and another one is made"
    if reason is not None:
        raise UserKeyError(file, reason)
    return key


def _make(file: Path) -> None:
    """Put a new key into *file*, whole, unless there is something by then."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if reason := foreign_hand(Path(os.path.realpath(file.parent))):
        raise UserKeyError(file, reason)
    # A link is made or not: nobody sees a part of the file, and nothing is replaced.
    with _written_aside(file) as aside, suppress(FileExistsError):
        os.link(aside, file)


@contextmanager
def _written_aside(file: Path) -> Iterator[Path]:
    """Give a file beside *file* with a new key, and remove it afterwards."""
    aside = file.with_suffix(f".{token_hex(8)}{file.suffix}")
    number = os.open(aside, _CREATE, 0o600)
    try:
        with open(number, "wb") as stream:  # noqa: PTH123 - a descriptor
            stream.write(token_bytes(SIZE))
            stream.flush()
            os.fsync(number)
        yield aside
    finally:
        aside.unlink(missing_ok=True)
