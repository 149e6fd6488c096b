"""What was probably meant, for the end of an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 8
_ALMOST = 0.75


def nearest(word: str, known: Iterable[str], likeness: float = 0.5) -> str:
    """Return a hint at the one of *known* that looks like *word*, or "".

    *likeness*, between 0 and 1, is how near it must be.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, rarely needed

    near = get_close_matches(word, list(known), 1, likeness)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_key(key: str, known: Iterable[str], what: str = "key") -> str:
    """Return the error for a *key* that is not *known*: the nearest word, and all of them.

    Only a word that is almost *key* spares the list.
    """
    names = list(known)
    meant = nearest(key, names)
    if not nearest(key, names, _ALMOST):
        meant += f"; known: {', '.join(sorted(names)) or 'none'}"
    return f"unknown {what} {key!r}{meant}"


def hint(word: str, known: Iterable[str]) -> str:
    """Return a hint at the one of *known* that looks like *word*, else at the first of them all."""
    names = sorted(known)
    others = ", …" if len(names) > _MOST else ""
    return nearest(word, names) or f"; known: {', '.join(names[:_MOST]) or 'none'}{others}"
