"""A key of the user's own: random bytes in a file that nobody else reads, made where it is missing.

It is never written again: two processes that make it at once agree on the one that came first, and
what stands there and is no such key is refused until a person removes it.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_bytes, token_hex

from toolbus.settings.private_files import (
    UnfitFileError,
    make_private_folders,
    read_secret_file,
    writable_by_others,
    write_private,
)
from toolbus.settings.user_folders import value_key_file

logger = logging.getLogger("toolbus")

SIZE = 32
"""Bytes of a key."""

_LONGEST = 10_000
"""Bytes of a file that is read, so that a wrong one is told by its length."""


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
        reason = writable_by_others(Path(os.path.realpath(folder)))
        if reason is None and not os.access(folder, os.W_OK | os.X_OK):
            reason = f"nothing can be written in {str(folder)!r}"
        if reason is not None:
            raise UserKeyError(file, reason) from None
    except OSError as error:
        raise UserKeyError(file, error.strerror or str(error)) from None


def value_key(*, durable: bool) -> bytes | None:
    """Return the key for digests of values that a store must not hold; None if none can be had.

    With it a short value cannot be guessed from a store, an export or a copy, and is known again.
    The key of a *durable* store is in a file of the user, beside no store in particular; that of
    a store in memory lasts as long as the process. A failure is logged once.
    """
    try:
        return _key_in(value_key_file()) if durable else _key_of_process()
    except (UserKeyError, RuntimeError) as error:
        _warn(str(error))
        return None


@cache
def _key_of_process() -> bytes:
    return token_bytes(SIZE)


@cache
def _key_in(file: Path) -> bytes:
    return user_key(file)


@cache
def _warn(reason: str) -> None:
    logger.warning("hidden values are not known again in another process: %s", reason)


def _read(file: Path) -> bytes:
    try:
        key = read_secret_file(file, _LONGEST)
    except UnfitFileError as error:
        raise UserKeyError(file, error.reason) from None
    if len(key) != SIZE:
        raise UserKeyError(file, f"expected {SIZE} bytes; remove it, and another one is made")
    return key


def _make(file: Path) -> None:
    """Put a new key into *file*, whole, unless there is something by then."""
    make_private_folders(file.parent)
    if reason := writable_by_others(Path(os.path.realpath(file.parent))):
        raise UserKeyError(file, reason)
    aside = file.with_suffix(f".{token_hex(8)}{file.suffix}")
    try:
        write_private(aside, token_bytes(SIZE))
        # A link is made or not: no process sees a part of the file, and nothing is replaced.
        with suppress(FileExistsError):
            os.link(aside, file)
    finally:
        aside.unlink(missing_ok=True)
