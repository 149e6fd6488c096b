"""A text with a style, and what of a text may be printed."""

from __future__ import annotations

from typing import Literal, NamedTuple

Style = Literal["", "good", "bad", "changed", "asked", "dim", "strong"]


class Span(NamedTuple):
    """A part of a line: its text, and the style that shows what it means."""

    text: str
    style: Style = ""


def sanitize(text: str) -> str:
    """Return *text* without control characters: each white one is a space, others are U+FFFD.

    What a tool returned may hold escape sequences; printed, they would do as they like.
    """
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else _replacement(char) for char in text])


def _replacement(char: str) -> str:
    return " " if char in "\t\n\r" else "\N{REPLACEMENT CHARACTER}"
