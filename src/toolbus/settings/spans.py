"""Styled text, and its printable form."""

from __future__ import annotations

from typing import Literal, NamedTuple

Style = Literal["", "good", "bad", "changed", "asked", "dim", "strong"]


class Span(NamedTuple):
    """A part of a line: its text, and the style of its meaning."""

    text: str
    style: Style = ""


def sanitize(text: str) -> str:
    """Return *text* without control characters: white space becomes a space, others U+FFFD.

    The output of a tool may contain escape sequences, which would control the terminal.
    """
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else _replacement(char) for char in text])


def _replacement(char: str) -> str:
    return " " if char in "\t\n\r" else "\N{REPLACEMENT CHARACTER}"
