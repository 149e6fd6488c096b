"""Blocks of lines between two marker lines at the end of a TOML file: added, found, removed."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from toolbus.errors import ConfigurationError
from toolbus.toml.files import parse_toml

if TYPE_CHECKING:
    from pathlib import Path


_HINT = "`toolbus hosts uninstall` removes this block"


def append_block(file: Path, text: str, block: str, label: str) -> str:
    """Return *text* of *file* with *block* added at its end, between markers with *label*.

    Raises `ConfigurationError` for a text that is not TOML, or not with the block.
    """
    parse_toml(file, text.replace("\r\n", "\n"))
    newline = "\r\n" if "\r\n" in text else "\n"
    begin, end = _marks(label)
    lines = newline.join([f"{begin} ({_HINT})", *block.splitlines(), end])
    # Without a final newline before there is none after the block: so removal can restore it.
    has_end = not text or text.endswith("\n")
    edited = f"{text}{lines}{newline}" if has_end else f"{text}{newline}{lines}"
    try:
        tomllib.loads(edited.replace("\r\n", "\n"))
    except ValueError as error:
        reason = f"adding the hooks would make the file invalid: {error}"
        raise ConfigurationError(f"{reason}; edit it by hand", str(file)) from None
    return edited


def remove_block(file: Path, text: str, label: str, pattern: str) -> str:
    """Return *text* without the block with *label*, if there is one.

    Tables between its markers that do not match *pattern* stay: a program that appends a table
    inserts it before our last marker, since a final comment stays at the end. Raises
    `ConfigurationError` if a marker is missing, which leaves the end of the block unknown.
    """
    span = _span(file, text, label)
    if span is None:
        return text
    foreign = [table for table in _tables(text, span) if re.search(pattern, table) is None]
    rest = text[: span[0]] + "".join(foreign) + text[span[1] :]
    if span[1] == len(text) and not text.endswith("\n"):
        return rest.removesuffix("\n").removesuffix("\r")
    return rest


def find_block(file: Path, text: str, label: str, pattern: str) -> str | None:
    """Return the tables between the markers of *label* that match *pattern*; None without markers.

    Line ends are normalized, without one at the end.
    """
    span = _span(file, text, label)
    if span is None:
        return None
    tables = [table for table in _tables(text, span) if re.search(pattern, table) is not None]
    return "\n".join("".join(tables).splitlines()).rstrip("\n")


def _tables(text: str, span: tuple[int, int]) -> list[str]:
    """Return the tables between the markers of *span*, each with the comments above its header."""
    tables: list[str] = []
    comments: list[str] = []
    for line in text[span[0] : span[1]].splitlines(keepends=True)[1:-1]:
        if line.startswith("#"):
            comments.append(line)
        elif line.startswith("[") or not tables:
            tables.append("".join([*comments, line]))
            comments = []
        else:
            tables[-1] += "".join([*comments, line])
            comments = []
    if comments and tables:
        tables[-1] += "".join(comments)
    return tables


def _marks(label: str) -> tuple[str, str]:
    return f"# >>> toolbus {label}", f"# <<< toolbus {label}"


def _span(file: Path, text: str, label: str) -> tuple[int, int] | None:
    """Return the start and the end of the block, with its markers and its last newline."""
    begin, end = _marks(label)
    # The hint after the first marker is of any version.
    starts, ends = [
        [match.start() for match in re.finditer(rf"(?m)^{mark}\r?$", text)]
        for mark in (rf"{re.escape(begin)} \([^()\n]*\)", re.escape(end))
    ]
    if not starts and not ends:
        return None
    if len(starts) != 1 or len(ends) != 1 or starts[0] > ends[0]:
        reason = f"the markers {begin!r} and {end!r} are incomplete or out of order"
        raise ConfigurationError(f"{reason}; remove our lines by hand", str(file))
    newline = text.find("\n", ends[0])
    return starts[0], len(text) if newline < 0 else newline + 1
