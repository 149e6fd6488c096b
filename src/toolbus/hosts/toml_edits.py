"""A marked block of lines at the end of a TOML file, put there and taken out again."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from toolbus.errors import ConfigurationError
from toolbus.settings.toml_files import parse_toml

if TYPE_CHECKING:
    from pathlib import Path


def append_block(file: Path, text: str, block: str, label: str) -> str:
    """Return *text* of *file* with the lines of *block* at its end, between marks with *label*.

    Raises `ConfigurationError` for what is no TOML, and where the block cannot stand behind it.
    """
    parse_toml(file, text.replace("\r\n", "\n"))
    newline = "\r\n" if "\r\n" in text else "\n"
    begin, end = _marks(label)
    lines = [begin, *block.splitlines(), end, ""]
    start = newline if text and not text.endswith("\n") else ""
    edited = f"{text}{start}{newline.join(lines)}"
    try:
        tomllib.loads(edited.replace("\r\n", "\n"))
    except ValueError as error:
        reason = f"what is to be added does not fit behind what stands in it: {error}"
        raise ConfigurationError(f"{reason}; edit it by hand", str(file)) from None
    return edited


def remove_block(file: Path, text: str, label: str) -> str:
    """Return *text* without the block with *label*, if there is one.

    Raises `ConfigurationError` if one of its marks is gone: nobody knows where it ends then.
    """
    span = _span(file, text, label)
    return text if span is None else text[: span[0]] + text[span[1] :]


def find_block(file: Path, text: str, label: str) -> str | None:
    """Return the lines between the marks with *label*, with one kind of ends; None without any."""
    span = _span(file, text, label)
    if span is None:
        return None
    return "\n".join(text[span[0] : span[1]].splitlines()[1:-1])


def _marks(label: str) -> tuple[str, str]:
    return (
        f"# >>> toolbus {label} (`toolbus hosts uninstall` takes out what stands up to the end)",
        f"# <<< toolbus {label}",
    )


def _span(file: Path, text: str, label: str) -> tuple[int, int] | None:
    """Return where the block with its marks begins and ends, with the end of its last line."""
    begin, end = _marks(label)
    positions: list[int] = []
    for mark in (begin, end):
        places = [
            sum(map(len, lines[:index]))
            for lines in (text.splitlines(keepends=True),)
            for index, line in enumerate(lines)
            if line.rstrip("\r\n") == mark
        ]
        if len(places) > 1:
            raise ConfigurationError(f"the mark {mark!r} stands in it twice", str(file))
        positions.extend(places)
    match positions:
        case []:
            return None
        case [start, last] if start < last:
            newline = text.find("\n", last)
            return start, len(text) if newline < 0 else newline + 1
    reason = f"one of the two marks {begin!r} and {end!r} is not where it was written"
    raise ConfigurationError(f"{reason}; take the lines out by hand", str(file))
