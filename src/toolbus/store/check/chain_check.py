"""The check of a store's chains: the first record of each that does not fit, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from toolbus.store.chain import (
    ALL_STATES,
    BATCHES,
    KINDS,
    MESSAGES,
    NOTHING,
    QUESTIONS,
    Chains,
    genesis,
    next_link,
)
from toolbus.store.check import chain_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.check.chain_rows import ChainRow
    from toolbus.store.check.session_check import ProgressCallback
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow

SeenCallback: TypeAlias = Callable[[bytes, int, bytes], None]
"""Called with the name of a session's chains, the number of a kind, and each of its links."""

Heads: TypeAlias = tuple[bytes | None, ...]
"""The last links of messages, batches and questions, None before the first."""

_TRIES = 5
"""The most checks of a session that other processes write meanwhile."""

_NO_HEADS: Heads = (None, None, None)
_NO_WRITE = chain_rows.ChainRow(0, 1, "")

_UNSEALED = "has no seal: it was inserted, or written by an older toolbus"
_CHANGED = "does not fit: its body, salt or link was changed, or it is another record"
_MOVED = "does not fit: the records before it were removed, or it is from another session"
_CUT = "later ones were removed, or the head in the session's row was changed"
_CHANGED_STATE = "is not as it was written last: it was changed, or put back to an earlier one"


class ChainBreak(Struct, frozen=True, kw_only=True):
    """The first record of a *kind* that does not fit, by *number*, and the *reason*."""

    kind: str
    number: int
    label: str
    reason: str


class SessionChain(Struct, frozen=True, kw_only=True):
    """The chains of one session, by their random *name*; b"" without chains.

    *begins* has the number of the first chained record of each kind, None without one.
    *unchained* is the number of questions and grants that an older toolbus wrote.
    """

    session_id: str
    name: bytes = b""
    heads: Heads = _NO_HEADS
    begins: tuple[int | None, ...] = (None, None, None)
    breaks: tuple[ChainBreak, ...] = ()
    unchained: int = 0


class ForgottenChain(Struct, frozen=True, kw_only=True):
    """The last links of a deleted session's chains; *forgotten_ns* is the time of the deletion."""

    name: bytes
    heads: Heads
    forgotten_ns: int


def read_heads(reader: SqlReader) -> Iterator[tuple[bytes, Heads]]:
    """Yield the name and heads of each session with chains, without reading its records."""
    for (column,) in chain_rows.read_chains(reader):
        yield _name_and_heads(Chains("", column))


def forgotten(reader: SqlReader) -> Iterator[ForgottenChain]:
    """Yield the chains of deleted sessions, the first deleted first."""
    for column, forgotten_ns in chain_rows.read_forgotten(reader):
        name, heads = _name_and_heads(Chains("", column))
        yield ForgottenChain(name=name, heads=heads, forgotten_ns=forgotten_ns)


def _name_and_heads(chains: Chains) -> tuple[bytes, Heads]:
    heads = [chains.head(kind) for kind in range(len(KINDS))]
    return chains.name, tuple([None if head == NOTHING else head for head in heads])


def check_chains(
    reader: SqlReader, progress: ProgressCallback, seen: SeenCallback | None = None
) -> Iterator[SessionChain]:
    """Yield the chains of all sessions, the oldest first; *seen* is called before each."""
    sessions, done = list(reader.sessions()), 0
    total = max(1, sum([session.messages + session.records for session in sessions]))
    has_chains = chain_rows.has_chains(reader)
    for session in sessions:
        yield _check(reader, session, seen) if has_chains else SessionChain(session_id=session.id)
        done += session.messages + session.records
        progress(done, total)


def _check(reader: SqlReader, session: SessionRow, seen: SeenCallback | None) -> SessionChain:
    """Return the chains of *session*, read again if other processes write it meanwhile."""
    after = chain_rows.read_row(reader, session.key)
    tries = 0
    while True:
        before, check = after, _SessionCheck(reader, session.key, *after, seen)
        after = chain_rows.read_row(reader, session.key)
        chain = check.result(session.id, is_growing=after != before)
        tries += 1
        if not chain.breaks or after == before or tries == _TRIES:
            return chain


class _SessionCheck:
    """The check of the *session* whose row has the *session_id* and the *column*."""

    def __init__(
        self,
        reader: SqlReader,
        session: int,
        session_id: str,
        column: bytes | None,
        seen: SeenCallback | None,
    ) -> None:
        self._chains = Chains(session_id, column)
        self._walks = [_Walk(kind, session_id, self._chains, seen) for kind in range(len(KINDS))]
        for message in chain_rows.read_messages(reader, session):
            self._walks[MESSAGES].take(message)
        for batch in chain_rows.read_batches(reader, session):
            self._walks[BATCHES].take(batch)
        self._writes: dict[str, ChainRow] = {}
        for name, write in chain_rows.read_writes(reader, session):
            self._walks[QUESTIONS].take(write)
            if name == ALL_STATES:
                self._writes.clear()
            self._writes[name] = write
        self._stored = chain_rows.read_questions(reader, session)

    def result(self, session_id: str, *, is_growing: bool) -> SessionChain:
        """Return the findings; *is_growing* if other processes wrote the session meanwhile."""
        name, heads = _name_and_heads(self._chains)
        unchained = self._unchained()
        breaks = [found for walk in self._walks for found in walk.breaks(is_growing=is_growing)]
        return SessionChain(
            session_id=session_id,
            name=name,
            heads=heads,
            begins=tuple([walk.begins for walk in self._walks]),
            breaks=(*breaks, *self._changed_questions(unchained)),
            unchained=len(unchained),
        )

    def _unchained(self) -> set[str]:
        """Return the names of questions without a link, if an older toolbus may be their writer."""
        walks = self._walks[:QUESTIONS]
        is_older = any(walk.has_older for walk in walks) or not any(walk.begins for walk in walks)
        unknown = self._stored.keys() - self._writes.keys()
        return unknown if is_older and ALL_STATES not in self._writes else set()

    def _changed_questions(self, unchained: set[str]) -> Iterator[ChainBreak]:
        """Yield the questions that differ from their last writes."""
        for name in sorted({*self._stored, *self._writes} - unchained):
            write = self._writes.get(name, _NO_WRITE)
            if write.committed != self._stored.get(name, NOTHING):
                how = _CHANGED_STATE if name in self._stored else "was removed"
                reason = f"state {name!r} {how if write.link else _UNSEALED}"
                kind, label = KINDS[QUESTIONS], write.label
                yield ChainBreak(kind=kind, number=write.number, label=label, reason=reason)


class _Walk:
    """The walk along the chain of *kind* in a session with *chains*."""

    def __init__(
        self, kind: int, session_id: str, chains: Chains, seen: SeenCallback | None
    ) -> None:
        self._kind, self._word, self._name, self._seen = kind, KINDS[kind], chains.name, seen
        self._head, self._end = chains.head(kind), NOTHING
        self._previous = genesis(chains.name, session_id, kind)
        self._first: tuple[ChainRow, str] | None = None
        self._misfits, self._due = 0, 1
        self._ends_well, self._passed = True, self._head == NOTHING
        self.begins: int | None = None
        self.has_older = False

    def take(self, row: ChainRow) -> None:
        """Compare the next record with its predecessor."""
        reason = self._problem(row)
        self._ends_well = not reason
        if reason:
            self._misfits += 1
            self._first = self._first or (row, reason)
        if row.link:
            self.begins = self.begins or row.number
            self._previous = self._end = row.link
            self._passed = self._passed or row.link == self._head
            if self._seen:
                self._seen(self._name, self._kind, row.link)
        self.has_older = self.has_older or self.begins is None
        self._due = row.number + row.size

    def _problem(self, row: ChainRow) -> str:
        """Return why *row* does not fit, "" if it does."""
        if not row.link:
            return _UNSEALED if self.begins else ""
        if next_link(self._previous, row.committed, row.label) == row.link:
            return ""
        if row.number > self._due:
            missing = f"{self._due}" if row.number == self._due + 1 else f"{self._due} and more"
            return f"is behind a gap: {self._word} {missing} was removed"
        return _CHANGED if self.begins else _MOVED

    def breaks(self, *, is_growing: bool) -> Iterator[ChainBreak]:
        """Yield the first record that does not fit, and a missing end."""
        if self._first:
            row, reason = self._first
            reason = f"{self._word} {row.number} {reason}{self._rest(row.number + row.size)}"
            yield ChainBreak(kind=self._word, number=row.number, label=row.label, reason=reason)
        # Records that other processes write meanwhile follow the head.
        if self._ends_well and self._end != self._head and not (is_growing and self._passed):
            last = self._due - 1
            reason = f"the chain of {self._word}s does not end with {self._word} {last}: {_CUT}"
            yield ChainBreak(kind=self._word, number=last, label="", reason=reason)

    def _rest(self, after: int) -> str:
        """Return the words for the records from the number *after* on."""
        if after == self._due:
            return ""
        if self._misfits > 1:
            return f"; {self._misfits - 1:,} of the later ones do not fit either"
        return f"; {self._word}s {after} to {self._due - 1} are chained to it as stored"
