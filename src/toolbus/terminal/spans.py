"""Pieces of a line: text with a style, safe to print and of known length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

Style = Literal["", "good", "bad", "changed", "asked", "dim", "strong"]


class Span(NamedTuple):
    """A text and what it means."""

    text: str
    style: Style = ""


Paint: TypeAlias = Callable[[Sequence[Span]], str]


def shown(pieces: Iterable[Span | str]) -> list[Span]:
    """Return *pieces* as they may be printed.

    What a tool returned may hold escape sequences; printed, they would do as they like.
    """
    styled = [Span(one) if isinstance(one, str) else one for one in pieces]
    return [Span(_printable(text), style) for text, style in styled if text]


def length(pieces: Iterable[Span]) -> int:
    """Return how many cells *pieces* take."""
    return sum([len(one.text) for one in pieces])


def cropped(pieces: Iterable[Span], room: int) -> list[Span]:
    """Return as much of *pieces* as fits into *room* cells, an ellipsis where it was cut."""
    kept: list[Span] = []
    for text, style in pieces:
        if len(text) > room:
            return [*kept, Span(f"{text[: max(room - 1, 0)]}…", style)]
        kept.append(Span(text, style))
        room -= len(text)
    return kept


def trimmed(pieces: Sequence[Span]) -> Sequence[Span]:
    """Return *pieces* without spaces at their end."""
    kept = list(pieces)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return kept


def joined(pieces: Iterable[Span]) -> str:
    """Return the bare text of *pieces*."""
    return "".join([one.text for one in pieces])


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() else _stand_in(one) for one in text])


def _stand_in(character: str) -> str:
    return " " if character in "\t\n\r" else "�"
