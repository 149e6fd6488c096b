"""The user's own key: random bytes in a private file, created if it is missing.

The file is never overwritten: two processes that create it at once agree on the first one, and an
invalid file is refused until a person removes it.
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
"""The bytes of a key."""

_LONGEST = 10_000
"""The maximum bytes read from a file, enough to report a wrong length."""


class UserKeyError(Exception):
    """The key in *file* cannot be used, for *reason*, which never quotes the file."""

    def __init__(self, file: Path, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(file, reason)

    def __str__(self) -> str:
        return f"key file {str(self.file)!r}: {self.reason}"


def user_key(file: Path) -> bytes:
    """Return the `SIZE` bytes in *file*, which is created if missing.

    It must be a regular file of this user, not a link, that no other user may read or replace.
    Raises `UserKeyError`.
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
    """Raise `UserKeyError` if `user_key` would; create nothing."""
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
    """Return the key for digests of values that a store must not hold, or None.

    With it equal values have equal digests, and a short value cannot be guessed from a store, an
    export or a copy. For a *durable* store the key is in a file of the user, outside any store; for
    a store in memory it lasts as long as the process. A failure is logged once.
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
    logger.warning("hidden values cannot be recognized by another process: %s", reason)


def _read(file: Path) -> bytes:
    try:
        key = read_secret_file(file, _LONGEST)
    except UnfitFileError as error:
        raise UserKeyError(file, error.reason) from None
    if len(key) != SIZE:
        raise UserKeyError(file, f"expected {SIZE} bytes; remove it, and another one is made")
    return key


def _make(file: Path) -> None:
    """Write a new key to *file* atomically, unless the file exists by then."""
    make_private_folders(file.parent)
    if reason := writable_by_others(Path(os.path.realpath(file.parent))):
        raise UserKeyError(file, reason)
    aside = file.with_suffix(f".{token_hex(8)}{file.suffix}")
    try:
        write_private(aside, token_bytes(SIZE))
        # A link is atomic: no process sees a partial file, and no file is replaced.
        with suppress(FileExistsError):
            os.link(aside, file)
    finally:
        aside.unlink(missing_ok=True)
