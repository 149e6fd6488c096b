"""The report of a check: what can be read of each session, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called with the number of messages and records that were read, and of all."""

_GONE = "no row of it is found"


class LostRows(Struct, frozen=True, kw_only=True):
    """Rows of a session that cannot be read: those numbered *first* to *last*, and why."""

    kind: str
    first: int
    last: int
    reason: str

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.last - self.first + 1

    @property
    def span(self) -> str:
        """The numbers of the rows, in words."""
        if self.count == 1:
            return f"{self.kind} {self.first}"
        return f"{self.kind}s {self.first} to {self.last}"


class SessionState(Struct, frozen=True, kw_only=True):
    """What can be read of one session.

    *states* counts what components keep, *unanswered* calls without a result and *unasked* results
    without a call; a session that was interrupted has some.
    """

    id: str
    messages: int
    records: int
    states: int = 0
    lost: tuple[LostRows, ...] = ()
    unanswered: int = 0
    unasked: int = 0


class SavedRows(Struct, frozen=True):
    """How much there is in the new file of a recovery."""

    sessions: int
    messages: int
    records: int
    originals: int
    states: int


class CheckReport(Struct, frozen=True, kw_only=True):
    """What a check has found; *is_whole* if there are no *problems*.

    *version* is 0 where it cannot be told; *recovered* is the new file, and *saved* what a recovery
    wrote to it.
    """

    path: str
    is_whole: bool
    version: int = 0
    bytes: int
    pages: int = 0
    sessions: tuple[SessionState, ...] = ()
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    recovered: str | None = None
    saved: SavedRows | None = None


def lost_rows(
    kind: str, rows: Iterable[tuple[int, int, str]], promised: int
) -> tuple[LostRows, ...]:
    """Return what is missing of the numbers 1 to *promised*, or cannot be read.

    Each of *rows* has its number, how many numbers it takes, and why it cannot be read, or "".
    """
    lost: list[LostRows] = []
    due = 1
    for number, size, damage in sorted(rows):
        if number > due:
            lost.append(LostRows(kind=kind, first=due, last=number - 1, reason=_GONE))
        if damage and number >= due:
            lost.append(LostRows(kind=kind, first=number, last=number, reason=f"it {damage}"))
        due = max(due, number + size)
    if promised >= due:
        lost.append(LostRows(kind=kind, first=due, last=promised, reason=_GONE))
    return tuple(lost)
