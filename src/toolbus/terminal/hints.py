"""What was probably meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a hint at the one of *known* that looks like *word*, or ""."""
    near = get_close_matches(word, known, 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
