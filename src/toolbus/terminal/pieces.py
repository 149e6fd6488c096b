"""Pieces of a line: text with a tone, safe to print and of known length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

Tone = Literal["", "good", "bad", "changed", "asked", "dim", "strong"]


class Styled(NamedTuple):
    """A text and what it means."""

    text: str
    tone: Tone = ""


Piece: TypeAlias = str | Styled
Paint: TypeAlias = Callable[[Sequence[Styled]], str]


def shown(pieces: Iterable[Piece]) -> list[Styled]:
    """Return *pieces* as they may be printed.

    What a tool returned may hold escape sequences; printed, they would do as they like.
    """
    styled = [Styled(one) if isinstance(one, str) else one for one in pieces]
    return [Styled(_printable(text), tone) for text, tone in styled if text]


def length(pieces: Iterable[Styled]) -> int:
    """Return how many cells *pieces* take."""
    return sum([len(one.text) for one in pieces])


def cropped(pieces: Iterable[Styled], room: int) -> list[Styled]:
    """Return as much of *pieces* as fits into *room* cells, an ellipsis where it was cut."""
    kept: list[Styled] = []
    for text, tone in pieces:
        if len(text) > room:
            return [*kept, Styled(f"{text[: max(room - 1, 0)]}…", tone)]
        kept.append(Styled(text, tone))
        room -= len(text)
    return kept


def trimmed(pieces: Sequence[Styled]) -> Sequence[Styled]:
    """Return *pieces* without spaces at their end."""
    kept = list(pieces)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return kept


def joined(pieces: Iterable[Styled]) -> str:
    """Return the bare text of *pieces*."""
    return "".join([one.text for one in pieces])


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() else _stand_in(one) for one in text])


def _stand_in(character: str) -> str:
    return " " if character in "\t\n\r" else "�"
