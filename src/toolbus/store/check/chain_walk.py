"""The walk along one chain: the first record that does not fit, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from toolbus.store.chain import KINDS, NOTHING, genesis, next_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.check.chain_rows import ChainRow

SeenCallback: TypeAlias = Callable[[bytes, int, bytes], None]
"""Called with the name of a session's chains, the number of a kind, and each of its links."""

UNSEALED = "has no link: it was inserted, or written by an older toolbus"
_CHANGED = "does not fit: it or its link was changed, or it is another record"
_MOVED = "does not fit: it was changed, links before it were removed, or it is of another session"
_CUT = "later ones were removed, or the session's row was changed"


class ChainBreak(Struct, frozen=True, kw_only=True):
    """The first record of a *kind* that does not fit, by *number*, and the *reason*."""

    kind: str
    number: int
    label: str
    reason: str


class ChainWalk:
    """The walk along the chain of *kind* in the session *session_id*, by the *name* of its chains.

    *head* is the last link by the session's row.

    *begins* is the number of the first record with a link, *older* that of rows before it.
    """

    def __init__(
        self, kind: int, session_id: str, name: bytes, head: bytes, seen: SeenCallback | None
    ) -> None:
        self._kind, self._word, self._name, self._seen = kind, KINDS[kind], name, seen
        self._head, self._end = head, NOTHING
        self._previous = genesis(name, session_id, kind)
        self._first: tuple[ChainRow, str] | None = None
        self._misfits, self._due = 0, 1
        self._ends_well, self._passed = True, self._head == NOTHING
        self.begins: int | None = None
        self.older = 0

    def take(self, row: ChainRow) -> None:
        """Compare the next record with its predecessor."""
        reason = self._problem(row)
        self._ends_well = not reason
        if reason:
            self._misfits += 1
            self._first = self._first or (row, reason)
        if row.link:
            self.begins = row.number if self.begins is None else self.begins
            self._previous = self._end = row.link
            self._passed = self._passed or row.link == self._head
            if self._seen:
                self._seen(self._name, self._kind, row.link)
        elif self.begins is None:
            self.older += 1
        self._due = row.number + row.size

    def _problem(self, row: ChainRow) -> str:
        """Return why *row* does not fit, "" if it does."""
        if not row.link and self.begins is not None:
            return UNSEALED
        if row.number > self._due:
            return f"is behind a gap: {self._word} {self._due} was removed"
        if row.number < self._due:
            return f"does not have the next number, {self._due}"
        if row.link and next_link(self._previous, row.committed, row.label) != row.link:
            return _MOVED if self.begins is None else _CHANGED
        return ""

    def breaks(self, *, is_growing: bool) -> Iterator[ChainBreak]:
        """Yield the first record that does not fit, and a missing end.

        If the session *is_growing*, records of other processes follow the head.
        """
        if self._first:
            row, reason = self._first
            reason = f"{self._word} {row.number} {reason}{self._rest(row.number + row.size)}"
            yield ChainBreak(kind=self._word, number=row.number, label=row.label, reason=reason)
        if self._ends_well and self._end != self._head and not (is_growing and self._passed):
            number = self._due - 1
            reason = f"the chain does not end with {self._word} {number}: {_CUT}"
            yield ChainBreak(kind=self._word, number=number, label="", reason=reason)

    def _rest(self, after: int) -> str:
        """Return the words for the records from the number *after* on."""
        if after == self._due:
            return ""
        if self._misfits > 1:
            return f"; misfits after it: {self._misfits - 1:,}"
        return f"; the rest, up to {self._word} {self._due - 1}, is chained to it as stored"
