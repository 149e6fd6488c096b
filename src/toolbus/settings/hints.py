"""Hints for the end of an error: the most similar known word, or all known words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALMOST = 0.75


def nearest(word: str, known: Iterable[str], likeness: float = 0.5) -> str:
    """Return a hint at the word of *known* most similar to *word*, or "".

    *likeness*, between 0 and 1, is the least similarity.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, rarely needed

    near = get_close_matches(word, list(known), 1, likeness)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_key(key: str, known: Iterable[str], what: str = "key") -> str:
    """Return the error for an unknown *key*: the most similar of *known*, and all of them.

    The list is left out only if the most similar word is almost *key*.
    """
    names = list(known)
    meant = nearest(key, names)
    if not nearest(key, names, _ALMOST):
        meant += f"; known: {', '.join(sorted(names)) or 'none'}"
    return f"unknown {what} {key!r}{meant}"


def hint(word: str, known: Iterable[str]) -> str:
    """Return a hint at the most similar of *known*, or else at all of them."""
    names = sorted(known)
    return nearest(word, names) or f"; known: {', '.join(names) or 'none'}"
