"""The check of a store's chains, session by session."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.errors import StoreError
from toolbus.store.chain import (
    ALL_STATES,
    BATCHES,
    KINDS,
    MESSAGES,
    NOTHING,
    QUESTIONS,
    SALT,
    head_of,
    is_column,
)
from toolbus.store.check import chain_rows
from toolbus.store.check.chain_walk import UNSEALED, ChainBreak, ChainWalk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.check.chain_rows import ChainRow
    from toolbus.store.check.chain_walk import SeenCallback
    from toolbus.store.check.session_check import ProgressCallback
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow

Heads: TypeAlias = tuple[bytes | None, ...]
"""The last links of messages, batches and questions, None before the first."""

_NO_HEADS: Heads = (None, None, None)

_TRIES = 5
"""The most checks of a session that other processes write meanwhile."""

_PUT_BACK = "is not as it was written last: it was changed, or put back to an earlier one"


class SessionChain(Struct, frozen=True, kw_only=True):
    """The chains of one session, by their random *name*; b"" without chains.

    *begins* has the number of the first chained record of each kind, None without one.
    *unchained* is the number of messages, batches and questions that an older toolbus wrote.
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


def read_heads(reader: SqlReader) -> Iterator[tuple[bytes, Heads, int]]:
    """Yield the name and heads of each session with chains, and its number of records.

    Its messages count, and no record is read.
    """
    for column, count in chain_rows.read_chains(reader):
        if is_column(column):
            yield *_name_and_heads(column), count


def forgotten(reader: SqlReader) -> Iterator[ForgottenChain]:
    """Yield the chains of deleted sessions, the first deleted first."""
    for column, forgotten_ns in chain_rows.read_forgotten(reader):
        if is_column(column):
            name, heads = _name_and_heads(column)
            yield ForgottenChain(name=name, heads=heads, forgotten_ns=forgotten_ns)


def _name_and_heads(column: bytes) -> tuple[bytes, Heads]:
    heads = [column[head_of(kind)] for kind in range(len(KINDS))]
    return column[:SALT], tuple([None if head == NOTHING else head for head in heads])


def check_chains(
    reader: SqlReader, progress: ProgressCallback, seen: SeenCallback | None = None
) -> Iterator[SessionChain]:
    """Yield the chains of all sessions, the oldest first; *seen* is called before each.

    Rows of a session that is missing in the table of sessions come last, without an id.
    """
    # The forgotten ones come first: another process may forget a session meanwhile.
    has_chains, known = chain_rows.has_chains(reader), _KnownChains(reader)
    sessions, done = list(reader.sessions()), 0
    total = max(1, sum(map(_size, sessions)))
    for session in sessions:
        chain = SessionChain(session_id=session.id)
        if has_chains:
            chain = known.compared(session, _check(reader, session, seen))
        yield chain
        done += _size(session)
        progress(done, total)
    if keys := chain_rows.read_orphans(reader):
        numbers = ", ".join([f"{key}" for (key,) in keys])
        reason = f"rows of removed sessions are left, under the numbers {numbers}"
        yield SessionChain(session_id="", breaks=(_session_break(reason),))


def _size(session: SessionRow) -> int:
    counts = (session.messages, session.records)
    return sum([count for count in counts if isinstance(count, int)])


def _session_break(reason: str) -> ChainBreak:
    return ChainBreak(kind="session", number=0, label="", reason=reason)


class _KnownChains:
    """The ids and chains of the sessions checked so far, and the forgotten chains."""

    def __init__(self, reader: SqlReader) -> None:
        self._names: set[bytes | str] = set()
        self._forgotten = {chain.name for chain in forgotten(reader)}
        self._is_new = False

    def compared(self, session: SessionRow, chain: SessionChain) -> SessionChain:
        """Add *chain* of *session*; return it with its contradictions to the others."""
        is_bare = bool(chain.unchained) and not chain.name
        reasons = [
            reason
            for reason, is_true in (
                ("an older session has the same id", session.id in self._names),
                ("an older session has the same chain", chain.name in self._names),
                ("its chain is in the list of forgotten sessions", chain.name in self._forgotten),
                (f"the session {UNSEALED}", self._is_new and is_bare),
            )
            if is_true
        ]
        self._names |= {session.id, chain.name or session.id}
        # A session that begins with a link was made after the store had chains.
        self._is_new = self._is_new or 1 in chain.begins[:QUESTIONS]
        return replace(chain, breaks=(*chain.breaks, *map(_session_break, reasons)))


def _check(reader: SqlReader, session: SessionRow, seen: SeenCallback | None) -> SessionChain:
    """Return the chains of *session*, read again if other processes write it meanwhile."""
    tries = 0
    try:
        session_id, column = chain_rows.read_row(reader, session.key)
        while column is None or is_column(column):
            before, check = column, _SessionCheck(reader, session.key, session_id, column, seen)
            _, column = chain_rows.read_row(reader, session.key)
            chain = check.result(session.id, is_growing=column != before)
            tries += 1
            if not chain.breaks or column == before or tries == _TRIES:
                return chain
        reason = "the chain in its row is damaged"
    except (StoreError, TypeError, ValueError) as error:
        if not chain_rows.may_be_damaged(reader):
            raise
        reason = f"its rows cannot be read: {error}"
    return SessionChain(session_id=session.id, breaks=(_session_break(reason),))


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
        self._name, self._heads = _name_and_heads(column) if column else (b"", _NO_HEADS)
        self._walks = [
            ChainWalk(kind, session_id, self._name, head or NOTHING, seen)
            for kind, head in enumerate(self._heads)
        ]
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
        older = self._older()
        breaks = [each for walk in self._walks for each in walk.breaks(is_growing=is_growing)]
        return SessionChain(
            session_id=session_id,
            name=self._name,
            heads=self._heads,
            begins=tuple([walk.begins for walk in self._walks]),
            breaks=(*breaks, *self._changed_questions(older)),
            unchained=sum([walk.older for walk in self._walks]) + len(older),
        )

    def _older(self) -> set[str]:
        """Return the names of questions without a link that an older toolbus may have written."""
        has_older = any(walk.older for walk in self._walks) or not self._name
        unlinked = self._stored.keys() - self._writes.keys()
        return unlinked if has_older and ALL_STATES not in self._writes else set()

    def _changed_questions(self, older: set[str]) -> Iterator[ChainBreak]:
        """Yield the questions that differ from their last writes."""
        for name in sorted({*self._stored, *self._writes} - older):
            write = self._writes.get(name)
            if write is None or write.committed != self._stored.get(name, NOTHING):
                reason = _PUT_BACK if name in self._stored else "was removed"
                number, label = (write.number, write.label) if write else (0, "")
                reason = f"{name!r} {reason if write else UNSEALED}"
                yield ChainBreak(kind=KINDS[QUESTIONS], number=number, label=label, reason=reason)
