"""What a reader is told of what is missing, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from toolbus.truncation.budgets import Budget

_SHARE = 0.35
"""Of a budget; what would take more is said in fewer words."""


class Kept(Struct, frozen=True):
    """Where the whole is: under *reference*, for the tool *reader*; or *reason*, why it is not."""

    reader: str
    reference: str | None = None
    reason: str = "it is not kept"

    def at(self, place: str) -> str:
        """Return the call that reads on at *place*."""
        return f'{self.reader}(reference="{self.reference}", {place})'


def word(kept: Kept, shown: int | None, total: int, place: str, budget: Budget) -> str:
    """Return what is said of a text of which *shown* of *total* characters are there.

    None if nobody can say how many: of JSON more is written anew than cut.
    """
    if shown is None:
        facts = f"Shortened: the whole has {total:,} characters."
    else:
        facts = f"Shortened: {shown:,} of {total:,} characters are shown."
    if kept.reference is None:
        long = f"[{facts} The rest cannot be read: {kept.reason}.]"
        short = f"[{facts}]"
    else:
        searching = kept.at('find="…"')
        ways = f"Read on with {kept.at(place)}, or search with {searching}."
        long, short = f"[{facts} {ways}]", f"[Shortened; {kept.at(place)}]"
    return long if budget.part(_SHARE).fits(long) else short
