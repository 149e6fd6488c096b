"""Blocks of lines between two marks at the end of a TOML file: added, found and removed."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from toolbus.errors import ConfigurationError
from toolbus.toml.files import parse_toml

if TYPE_CHECKING:
    from pathlib import Path


def append_block(file: Path, text: str, block: str, label: str) -> str:
    """Return *text* of *file* with the lines of *block* at its end, between marks with *label*.

    Raises `ConfigurationError` for a text that is not TOML, or that does not take the block.
    """
    parse_toml(file, text.replace("\r\n", "\n"))
    newline = "\r\n" if "\r\n" in text else "\n"
    begin, end = _marks(label)
    lines = newline.join([begin, *block.splitlines(), end])
    # A text whose last line has no end gets none behind the block either: so removal can tell.
    has_end = not text or text.endswith("\n")
    edited = f"{text}{lines}{newline}" if has_end else f"{text}{newline}{lines}"
    try:
        tomllib.loads(edited.replace("\r\n", "\n"))
    except ValueError as error:
        reason = f"what is to be added does not fit behind what stands in it: {error}"
        raise ConfigurationError(f"{reason}; edit it by hand", str(file)) from None
    return edited


def remove_block(file: Path, text: str, label: str, pattern: str) -> str:
    """Return *text* without the block with *label*, if there is one.

    Tables between its marks that do not match *pattern* stay: a program that adds one behind all
    others puts it in front of our last mark, for a comment at the end stays at the end. Raises
    `ConfigurationError` if one of the marks is gone: nobody knows where the block ends then.
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
    """Return the tables between the marks with *label* that match *pattern*; None without marks.

    They have one kind of ends of lines, and none at the end.
    """
    span = _span(file, text, label)
    if span is None:
        return None
    tables = [table for table in _tables(text, span) if re.search(pattern, table) is not None]
    return "\n".join("".join(tables).splitlines()).rstrip("\n")


def _tables(text: str, span: tuple[int, int]) -> list[str]:
    """Return the tables between the marks of *span*, each with comments right above its header."""
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
    return (
        f"# >>> toolbus {label} (`toolbus hosts uninstall` takes out what stands up to the end)",
        f"# <<< toolbus {label}",
    )


def _span(file: Path, text: str, label: str) -> tuple[int, int] | None:
    """Return where the block with its marks begins and ends, with the end of its last line."""
    begin, end = _marks(label)
    starts, ends = [
        [match.start() for match in re.finditer(rf"(?m)^{re.escape(mark)}\r?$", text)]
        for mark in (begin, end)
    ]
    if not starts and not ends:
        return None
    if len(starts) != 1 or len(ends) != 1 or starts[0] > ends[0]:
        reason = f"the marks {begin!r} and {end!r} are not where they were written"
        raise ConfigurationError(f"{reason}; take the lines out by hand", str(file))
    newline = text.find("\n", ends[0])
    return starts[0], len(text) if newline < 0 else newline + 1
