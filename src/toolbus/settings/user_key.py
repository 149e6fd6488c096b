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
from toolbus.settings.user_folders import config_folder, value_key_file

logger = logging.getLogger("toolbus")

SIZE = 32
"""Bytes of a key."""

_LONGEST_NAMED = 64
"""Bytes of a key that a setting names: BLAKE2b takes no longer one (RFC 7693, section 2.1)."""

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


class KeySettingError(ValueError):
    """A setting names a key that cannot be used; the text says why, and nothing of the key."""


def named_key(setting: str) -> bytes:
    """Return the key that *setting* names: `env:NAME`, or a file in the user's configuration.

    A path that is not absolute begins in that folder. Raises `KeySettingError`.
    """
    kind, colon, name = setting.partition(":")
    if colon and kind == "env":
        text = os.environ.get(name)
        if text is None:
            raise KeySettingError(f"the environment has no variable {name!r}")
        key, source = text.strip().encode(errors="surrogateescape"), f"variable {name!r}"
    else:
        file = _named_file(setting)
        key, source = _read_named(file), f"file {str(file)!r}"
    if not SIZE <= len(key) <= _LONGEST_NAMED:
        size = f"expected {SIZE} to {_LONGEST_NAMED} bytes, got {len(key)}"
        raise KeySettingError(f"{source}: {size}; make one: openssl rand -hex {SIZE}")
    return key


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


def _named_file(setting: str) -> Path:
    """Return the file that *setting* names, if it is where a policy lets no tool read it."""
    folder = config_folder()
    if folder is None:
        raise KeySettingError("there is no home folder for a file with the key; write env:NAME")
    file = folder / Path(setting).expanduser()
    if file.suffix not in {".key", ".secret"} or folder not in Path(os.path.normpath(file)).parents:
        way_out = f"name a file {str(folder / 'NAME.key')!r}, which no policy lets a tool read"
        raise KeySettingError(f"file {str(file)!r} may be read by tools; {way_out}, or env:NAME")
    return file


def _read_named(file: Path) -> bytes:
    try:
        data = read_secret_file(file, _LONGEST)
    except UnfitFileError as error:
        raise KeySettingError(f"file {str(file)!r}: {error.reason}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise KeySettingError(f"file {str(file)!r} cannot be read: {reason}") from None
    # A file that an editor wrote ends in a line end, and the random bytes of `user_key` may.
    return data if len(data) == SIZE else data.rstrip(b"\r\n")


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
