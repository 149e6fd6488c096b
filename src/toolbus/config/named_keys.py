"""A key that a setting names: in a variable of the environment, or in a private file."""

from __future__ import annotations

import os
from pathlib import Path

from toolbus.settings.private_files import UnfitFileError, read_secret_file
from toolbus.settings.user_folders import config_folder
from toolbus.settings.user_key import SIZE

_LONGEST = 64
"""The maximum bytes of such a key, BLAKE2b's limit (RFC 7693, section 2.1)."""

_MOST_READ = 10_000
"""The maximum bytes read from a file, enough to report a wrong length."""


class KeySettingError(ValueError):
    """A setting names an unusable key; the text has the reason, and nothing of the key."""


def named_key(setting: str) -> bytes:
    """Return the key that *setting* names: `env:NAME`, or a file in the user's configuration.

    A relative path starts at that folder. Raises `KeySettingError`.
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
    if not SIZE <= len(key) <= _LONGEST:
        size = f"expected {SIZE} to {_LONGEST} bytes, got {len(key)}"
        raise KeySettingError(f"{source}: {size}; make one: openssl rand -hex {SIZE}")
    return key


def _named_file(setting: str) -> Path:
    """Return the file that *setting* names, if policies keep tools from reading it."""
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
        data = read_secret_file(file, _MOST_READ)
    except UnfitFileError as error:
        raise KeySettingError(f"file {str(file)!r}: {error.reason}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise KeySettingError(f"file {str(file)!r} cannot be read: {reason}") from None
    # A file written by an editor ends in a line end; the random bytes of `user_key` may too.
    return data if len(data) == SIZE else data.rstrip(b"\r\n")
