"""What a reader is told of what is missing, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from toolbus.truncation.budgets import Budget

_SHARE = 0.35
"""Of a budget; what would take more is said in fewer words."""


class WholeOutput(Struct, frozen=True):
    """Where the whole is: under *reference*, for the tool *reader*; or *reason*, why it is not."""

    reader: str
    reference: str | None = None
    reason: str = "it is not kept"

    def call(self, position: str) -> str:
        """Return the call that reads on at *position*."""
        return f'{self.reader}(reference="{self.reference}", {position})'


def text_notice(
    whole: WholeOutput, shown: int | None, total: int, position: str, budget: Budget
) -> str:
    """Return what is said of a text of which *shown* of *total* characters are there.

    None if nobody can say how many: of JSON more is written anew than cut.
    """
    if shown is None:
        facts = f"Shortened: the whole has {total:,} characters."
    else:
        facts = f"Shortened: {shown:,} of {total:,} characters are shown."
    if whole.reference is None:
        long, short = f"[{facts} The rest cannot be read: {whole.reason}.]", f"[{facts}]"
    else:
        searching = whole.call('find="…"')
        ways = f"Read on with {whole.call(position)}, or search with {searching}."
        long, short = f"[{facts} {ways}]", f"[Shortened; {whole.call(position)}]"
    return long if budget.part(_SHARE).fits(long) else short


def value_notice(whole: WholeOutput, size: int, budget: Budget, *, gone: bool) -> str:
    """Return what is said beside texts of a structured value of *size* bytes: it was too large."""
    what = "was left out" if gone else "is shortened"
    way = whole.reason if whole.reference is None else f"read it with {whole.call('offset=0')}"
    long = f"[The structured value, {size:,} bytes, {what}: {way}]"
    return long if budget.part(_SHARE).fits(long) else f"[structured value {what}]"


def position_in(text: str, position: int) -> str:
    """Return how a reader says that it goes on at *position* of *text*."""
    if position == 0 or text[position - 1] == "\n":
        return f"line={text.count(chr(10), 0, position) + 1}"
    return f"offset={position}"
