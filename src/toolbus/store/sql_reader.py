"""The reader of a store in an SQL database; subclasses give it statements and a connection."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolbus.errors import DecodeError, StoreError
from toolbus.store.leases import is_gone
from toolbus.store.protocol import Original
from toolbus.store.rows import checked_json, decode_batch, decode_message
from toolbus.store.store_reader import MessageRow, RecordBatch, SessionRow, StateRow, StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

IdKind: TypeAlias = Literal["session", "message", "call"]
"""The kind of an id."""

FEW = 20
"""The most candidates for an unknown or ambiguous id."""

_MANY = 200
"""The most rows that are read at once."""

_BATCH_BYTES = 2**20
"""The approximate bytes of bodies that are read at once, estimated from earlier rows."""

_BODY = -2
"""The column of the body in rows that are read in batches."""

_FIRST_KEY, _LAST_KEY = -(2**63), 2**63 - 1


class SqlStatements(NamedTuple):
    """The statements that read a store; each finds its rows by an index.

    Their rows have the same columns in every database.
    """

    changes: str
    session: str
    session_of_key: str
    lease: str
    sessions_after: str
    recent_sessions: str
    ids_from: Mapping[IdKind, str]
    ids_before: Mapping[IdKind, str]
    mentions_from: str
    messages_after: str
    messages_of_id: str
    of_call_before: str
    of_call_after: str
    batches_after: str
    batches_of_id: str
    unattached_of_id: str
    original: str
    originals_after: str
    state: str
    state_names: str
    state_of_key: str
    states_from: str


class SqlReader(StoreReader):
    """A reader of the store *where* by its *statements*, also by ids of messages and calls.

    Rows are found by an index, so that a lookup in 10,000,000 rows costs no more than in 10,000. A
    list has at most `FEW` entries unless documented otherwise.

    *indexed* encodes an id for its column, and *unescape* decodes it: both are for a database that
    cannot store every text there.
    """

    def __init__(
        self,
        where: str,
        statements: SqlStatements,
        indexed: Callable[[str], str] = str,
        unescape: Callable[[str], str] = str,
    ) -> None:
        self._where, self._statements = where, statements
        self._indexed, self._unescape = indexed, unescape

    @abstractmethod
    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of *statement*; raises `StoreError`."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context with a consistent snapshot, if the database supports it."""

    @property
    def changes(self) -> int:
        """A number that differs after writes of other connections; cheap to read."""
        return int(self.rows(self._statements.changes)[0][0])

    def sessions(self) -> Iterator[SessionRow]:
        """Yield all sessions, the oldest first."""
        after = -1
        while rows := self.rows(self._statements.sessions_after, after, _MANY):
            yield from map(self._session_row, rows)
            after = rows[-1][0]

    def recent_sessions(self, limit: int, start: int = 0) -> list[SessionRow]:
        """Return sessions after the first *start*, the latest written first; looks at each.

        Sessions without messages and records are left out.
        """
        rows = self.rows(self._statements.recent_sessions, limit, start)
        return [self._session_row(row) for row in rows]

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session with exactly this id; None if there is none."""
        rows = self.rows(self._statements.session, self._indexed(session_id))
        return self._session_row(rows[0]) if rows else None

    def session_of(self, key: int) -> SessionRow:
        """Return the session of a message or batch; raises `StoreError` if it is lost."""
        for row in self.rows(self._statements.session_of_key, key):
            return self._session_row(row)
        raise StoreError(self._where, f"session {key} is lost; see `toolbus check`")

    def is_held(self, session_id: str) -> bool:
        """Return whether a writer holds the session: its lease runs, and its process may, too."""
        rows = self.rows(self._statements.lease, self._indexed(session_id))
        return any(left_ns > 0 and not is_gone(process) for process, left_ns in rows)

    def ids_like(self, kind: IdKind, prefix: str) -> list[str]:
        """Return a few unique ids that begin with *prefix*, in the order of code points.

        Ids of messages and calls include ids that only ledger records mention.
        """
        start = self._indexed(prefix)
        rows = self.rows(self._statements.ids_from[kind], start, FEW)
        if kind != "session":
            rows += self.rows(self._statements.mentions_from, start, FEW)
        names = {self._unescape(name) for (name,) in rows}
        return sorted([name for name in names if name.startswith(prefix)])[:FEW]

    def ids_near(self, kind: IdKind, name: str) -> list[str]:
        """Return ids next to *name* by code points, and of late sessions: it may be misspelt."""
        middle = self._indexed(name)
        rows = self.rows(self._statements.ids_before[kind], middle, FEW)
        rows += self.rows(self._statements.ids_from[kind], middle, FEW)
        near = [self._unescape(name) for (name,) in rows]
        if kind == "session":
            near += [session.id for session in self.recent_sessions(_MANY)]
        return list(dict.fromkeys(near))

    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Yield the messages of a session after number *after*, in order."""
        statement, seq = self._statements.messages_after, slice(2, 3)
        return map(self._message_row, self.batched_rows(statement, (session,), (after,), seq))

    def messages_of(self, name: str, session: int | None) -> list[MessageRow]:
        """Return a few messages with the id *name*, in the order of writing."""
        values = (self._indexed(name), session, FEW)
        rows = self.rows(self._statements.messages_of_id, *values)
        return [self._message_row(row) for row in rows]

    def messages_of_call(
        self, name: str, session: int | None, before: MessageRow | None = None
    ) -> list[MessageRow]:
        """Return the last few messages that request or answer the call *name*, in order.

        With *before*, only earlier messages. Without a *session*, the list includes the very first
        message, so that ids in several sessions are noticed.
        """
        call_id, end = self._indexed(name), before.key if before else _LAST_KEY
        rows = self.rows(self._statements.of_call_before, call_id, session, end, FEW)
        if session is None:
            rows += self.rows(self._statements.of_call_after, call_id, None, _FIRST_KEY, 1)
        return [self._message_row(row) for row in reversed(rows)]

    def after_in_call(self, name: str, row: MessageRow) -> MessageRow | None:
        """Return the next message after *row*, in its session, that is about the call *name*."""
        values = (self._indexed(name), row.session, row.key, 1)
        rows = self.rows(self._statements.of_call_after, *values)
        return self._message_row(rows[0]) if rows else None

    def record_batches(
        self, session: int, after: int = 0, to: int | None = None
    ) -> Iterator[RecordBatch]:
        """Yield the records of a session in the order of writing."""
        within, start = (session, _LAST_KEY if to is None else to), (after, _LAST_KEY)
        rows = self.batched_rows(self._statements.batches_after, within, start, slice(1, 3))
        return map(batch_from_row, rows)

    def batch_of(self, row: MessageRow) -> RecordBatch | None:
        """Return the records that were written with the message *row*."""
        batches = self.record_batches(row.session, row.seq - 1, row.seq)
        return next((batch for batch in batches if batch.with_message), None)

    def batches_mentioning(self, name: str, behind: MessageRow | None = None) -> list[RecordBatch]:
        """Return the batches that mention the id *name*, except those of its own message.

        At most a few hundred, of any session: batches of messages that were stored after the
        message *behind*, and the newest batches without a message.
        """
        indexed, after = self._indexed(name), behind.key if behind else 0
        rows = self.rows(self._statements.unattached_of_id, indexed, _MANY)
        rows += self.rows(self._statements.batches_of_id, indexed, after, _MANY)
        return [batch_from_row(row) for row in rows]

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the session's original value with *digest*, as JSON; None if there is none."""
        rows = self.rows(self._statements.original, session, self._indexed(digest))
        return rows[0][0] if rows else None

    def originals(self, session: int) -> Iterator[Original]:
        """Yield the original values of the session, sorted by digest."""
        statement, digests = self._statements.originals_after, slice(1, 2)
        for body, digest in self.batched_rows(statement, (session,), ("",), digests):
            yield Original(digest=self._unescape(digest), body=body)

    def state(self, session_id: str, name: str) -> StateRow | None:
        """Return the state *name* of the session; None if there is none."""
        values = (self._indexed(session_id), self._indexed(name))
        rows = self.rows(self._statements.state, *values)
        return state_from_row(name, *rows[0]) if rows else None

    def states(self, session: int) -> Iterator[StateRow]:
        """Yield the states of the session, sorted by name."""
        for (name,) in self.rows(self._statements.state_names, session):
            for row in self.rows(self._statements.state_of_key, session, name):
                yield state_from_row(self._unescape(name), *row)

    def states_like(self, prefix: str) -> Iterator[tuple[str, StateRow]]:
        """Yield the states whose names begin with *prefix*, with the ids of sessions."""
        start, name_and_session = (self._indexed(prefix), -1), slice(0, 2)
        rows = self.batched_rows(self._statements.states_from, (), start, name_and_session)
        for indexed, _, session_id, *state in rows:
            name = self._unescape(indexed)
            if not name.startswith(prefix):
                return
            if session_id is not None:
                yield self._unescape(session_id), state_from_row(name, *state)

    def batched_rows(
        self, statement: str, within: tuple[object, ...], after: tuple[object, ...], place: slice
    ) -> Iterator[Any]:
        """Yield the rows of *statement* after the values *after* of the columns *place*."""
        # Few at first: some callers need only the next row.
        limit = 4
        while rows := self.rows(statement, *within, *after, limit):
            yield from rows
            after = rows[-1][place]
            mean_size = sum([len(row[_BODY]) for row in rows]) // len(rows)
            limit = max(1, min(2 * limit, _MANY, _BATCH_BYTES // max(1, mean_size)))

    def _session_row(self, row: tuple[Any, ...]) -> SessionRow:
        key, name, *others, has_originals = row
        return SessionRow._make((key, self._unescape(name), *others, bool(has_originals)))

    def _message_row(self, row: tuple[Any, ...]) -> MessageRow:
        key, session, seq, indexed, version, body, checksum = row
        try:
            message = decode_message(version, body, checksum)
        except DecodeError as error:
            return MessageRow(key, session, seq, self._unescape(indexed), None, str(error))
        is_whole = self._indexed(message.id) != indexed
        name = self._unescape(indexed) if is_whole else message.id
        return MessageRow(key, session, seq, name, message)


def batch_from_row(row: tuple[Any, ...]) -> RecordBatch:
    """Return the records of a row of the ledger, or their damage."""
    session, place, seq, with_message, version, body, checksum = row
    batch = RecordBatch(session, place, seq, bool(with_message), ())
    try:
        return batch._replace(records=decode_batch(version, body, checksum))
    except DecodeError as error:
        return batch._replace(damage=str(error))


def state_from_row(name: str, version: object, body: bytes, checksum: object) -> StateRow:
    """Return the state *name* of a row, or its damage."""
    try:
        return StateRow(name, checked_json(version, body, checksum))
    except DecodeError as error:
        return StateRow(name, None, str(error))
