"""What a rule of ours is made of."""

from __future__ import annotations

from typing import NamedTuple


class BuiltinRule(NamedTuple):
    """A rule as data: its *name*, which becomes the placeholder's, and its *pattern*.

    *loose* and *kind*: see `Rule`.
    """

    name: str
    pattern: str
    loose: bool = False
    kind: str | None = None
