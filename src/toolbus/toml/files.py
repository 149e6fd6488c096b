"""A TOML file, read with errors that name file, line and column."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from toolbus.errors import ConfigurationError
from toolbus.settings.hints import unknown_key
from toolbus.toml.key_lines import key_lines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from toolbus.toml.key_lines import KeyPath

_BROKEN = re.compile(
    r"(?P<reason>.*?)(?: \(at (?:line (?P<line>\d+), column (?P<column>\d+)|.*)\))?", re.DOTALL
)

_STORE = b"SQLite format 3\0"

_FILE_KINDS = {
    "a policy": frozenset(
        ["rule", "default", "tools", "programs", "coding_agents", "trust_annotations"]
    ),
    "a toolbus.toml": frozenset(["component", "server", "price", "approvals"]),
}
"""The keys that identify the kind of a whole file."""


def read_bytes(file: Path, limit: int | None = None) -> bytes:
    """Return the bytes of *file*; raises `ConfigurationError` if unreadable, or over *limit*."""
    try:
        with file.open("rb") as stream:
            data = stream.read(-1 if limit is None else limit + 1)
    except FileNotFoundError:
        raise ConfigurationError(
            "there is no such file; write one, or name another", str(file)
        ) from None
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
        raise ConfigurationError(reason, str(file)) from error
    if data.startswith(_STORE):
        reason = "expected a text file, got a store of sessions; `toolbus sessions` lists them"
        raise ConfigurationError(reason, str(file))
    if limit is not None and len(data) > limit:
        raise ConfigurationError(f"it is longer than {limit:,} bytes; use a smaller one", str(file))
    return data


def decode_text(file: Path, data: bytes) -> str:
    """Return the text of *data* in *file*; raises `ConfigurationError` with the line."""
    try:
        # As TOML requires; there, a lone carriage return does not end a line.
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError("the file is not UTF-8", str(file), line) from None


def parse_toml(file: Path, text: str) -> dict[str, Any]:
    """Return the tables of *text* in *file*; raises `ConfigurationError` with line and column."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:
        match = _BROKEN.fullmatch(str(error))
    assert match is not None  # noqa: S101 - for mypy: everything matches
    reason = match["reason"][:1].lower() + match["reason"][1:]
    # An error without a number is at the end of the file.
    line = int(match["line"] or text.count("\n") + 1)
    column = int(match["column"]) if match["column"] else None
    raise ConfigurationError(reason, str(file), line, column)


def locate_keys(file: Path, text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each key of *text*, which `parse_toml` has accepted.

    This takes longer than parsing, so call it only for errors. Raises `ConfigurationError`.
    """
    try:
        return key_lines(text)
    except RecursionError:
        raise _too_deep(file) from None


def unknown_file_key(key: str, known: Iterable[str], way_out: str) -> str:
    """Return the error for a *key* of a whole file, with a *way_out* if it is another kind's."""
    for kind, keys in _FILE_KINDS.items():
        if key in keys:
            return f"unknown key {key!r}: this is {kind}; {way_out}"
    return unknown_key(key, known)


def _too_deep(file: Path) -> ConfigurationError:
    return ConfigurationError("it is nested too deeply to be read", str(file))
