"""A store's file as a person reads it: opened to look, and a few rows at a time."""

from __future__ import annotations

import os
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from toolbus.errors import DecodeError, StoreError
from toolbus.store import queries, schema
from toolbus.store.opening import check_contents, connect, reading_mode
from toolbus.store.paths import checked_path, may_write, may_write_beside, unfinished
from toolbus.store.rows import decode_message, decode_page
from toolbus.store.sqlite_errors import wrap_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.opening import Mode

FEW = 20
"""How many candidates are looked at when an id is not known or not unique."""

_NEWEST = 200
_BATCH = 200
"""How many rows are read at once at most."""

_BATCH_BYTES = 2**20
"""How many bytes of bodies are read at once, as far as the rows before tell."""


class SessionRow(NamedTuple):
    """A session; times are nanoseconds since the epoch."""

    key: int
    id: str
    messages: int
    records: int
    created_ns: int
    updated_ns: int
    has_originals: bool


class MessageRow(NamedTuple):
    """The message number *seq* of a session, or None and what *damage* it has: "is damaged: …"."""

    key: int
    session: int
    seq: int
    id: str
    message: Message | None
    damage: str = ""

    @property
    def problem(self) -> str:
        """Why it cannot be read, "" if it can."""
        return f"message {self.seq} {self.damage}" if self.damage else ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with the session where it is."""
        return f"message {self.seq} of session {session_id!r} {self.damage}"


class Page(NamedTuple):
    """Records that were written together, before the message number *place* of a session.

    *seq* is the number of the first record; *damage* says why there are none: "is damaged: …".
    """

    session: int
    place: int
    seq: int
    records: tuple[DispatchRecord, ...]
    damage: str = ""

    @property
    def problem(self) -> str:
        """Why they cannot be read, "" if they can."""
        return f"record {self.seq} {self.damage}" if self.damage else ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with the session where it is."""
        return f"record {self.seq} of session {session_id!r} {self.damage}"


class Archive:
    """Reads the SQLite store *path* and changes no byte of it.

    With *live* another process may write meanwhile. Raises `StoreError` for what is no store.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, live: bool = False, timeout: float = 5.0
    ) -> None:
        self._where = os.fspath(path)
        file = checked_path(self._where, read_only=True)
        with wrap_errors(self._where):
            version = check_contents(self._where, file, timeout, read_only=True)
            self._connection = connect(file, timeout, reading_mode(file) if live else _mode(file))
            self._connection.execute("PRAGMA query_only = OFF")
            for statement in schema.compatibility_views(version):
                self._connection.execute(statement)
            self._connection.execute("PRAGMA query_only = ON")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def changes(self) -> int:
        """A number that is another one once somebody else has written; cheap to ask for."""
        (number,) = self._rows("PRAGMA data_version")
        return int(number[0])

    def sessions(self) -> Iterator[SessionRow]:
        """Give all sessions, the oldest first."""
        after = 0
        while rows := self._rows(queries.SESSIONS_AFTER, after, _BATCH):
            yield from map(_session_row, rows)
            after = rows[-1][0]

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session of that very id."""
        return next(map(_session_row, self._rows(queries.SESSION, session_id)), None)

    def session_of(self, key: int) -> SessionRow:
        """Return the session of a message or page; raises `StoreError` if it is lost."""
        for row in self._rows(queries.SESSION_OF_KEY, key):
            return _session_row(row)
        raise StoreError(self._where, f"session {key} is lost; see `toolbus check`")

    def sessions_like(self, prefix: str) -> list[str]:
        """Return a few ids of sessions that begin with *prefix*."""
        rows = self._rows(queries.SESSIONS_FROM, prefix, FEW)
        return [row[1] for row in rows if row[1].startswith(prefix)]

    def sessions_near(self, session_id: str) -> list[str]:
        """Return the ids of sessions next to *session_id* in the alphabet, and of the newest."""
        rows = [
            *self._rows(queries.SESSIONS_BEFORE, session_id, FEW),
            *self._rows(queries.SESSIONS_FROM, session_id, FEW),
            *self._rows(queries.NEWEST_SESSIONS, _NEWEST),
        ]
        return list(dict.fromkeys([row[1] for row in rows]))

    def ids_like(self, prefix: str, *, calls: bool = False) -> list[str]:
        """Return a few ids of messages, or of calls, that begin with *prefix*."""
        known = queries.CALL_IDS_FROM if calls else queries.MESSAGE_IDS_FROM
        rows = [*self._rows(known, prefix, FEW), *self._rows(queries.MENTIONS_FROM, prefix, FEW)]
        return list(dict.fromkeys([name for (name,) in rows if name.startswith(prefix)]))

    def ids_near(self, name: str, *, calls: bool = False) -> list[str]:
        """Return the ids of messages, or of calls, next to *name* in the alphabet."""
        after = queries.CALL_IDS_FROM if calls else queries.MESSAGE_IDS_FROM
        before = queries.CALL_IDS_BEFORE if calls else queries.MESSAGE_IDS_BEFORE
        rows = [*self._rows(before, name, FEW), *self._rows(after, name, FEW)]
        return [name for (name,) in rows]

    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Give the messages of a session behind the number *after*, in order."""
        return map(_message_row, self._batches(queries.MESSAGES_AFTER, session, after, _SEQ))

    def messages_of(self, name: str, session: int | None) -> list[MessageRow]:
        """Return a few messages of the id *name*."""
        if session is None:
            rows = self._rows(queries.MESSAGES_OF_ID, name, FEW)
        else:
            rows = self._rows(queries.MESSAGES_OF_ID_IN, name, session, FEW)
        return [_message_row(row) for row in rows]

    def messages_of_call(self, name: str, session: int | None) -> list[MessageRow]:
        """Return the last few messages that ask for the call *name* or answer it, in order."""
        if session is None:
            rows = self._rows(queries.LAST_OF_CALL, name, FEW)
            # The oldest, too: so it is known if several sessions have the id.
            rows += self._rows(queries.FIRST_OF_CALL, name)
        else:
            rows = self._rows(queries.LAST_OF_CALL_IN, name, session, FEW)
        return [_message_row(row) for row in reversed(rows)]

    def before_in_call(self, name: str, row: MessageRow) -> list[MessageRow]:
        """Return the last few messages before *row* that speak of the call *name*, last first."""
        rows = self._rows(queries.OF_CALL_BEFORE, name, row.session, row.key, FEW)
        return [_message_row(row) for row in rows]

    def after_in_call(self, name: str, row: MessageRow) -> MessageRow | None:
        """Return the first message behind *row* that speaks of the call *name*."""
        rows = self._rows(queries.OF_CALL_AFTER, name, row.session, row.key)
        return _message_row(rows[0]) if rows else None

    def page(self, key: int) -> Page | None:
        """Return the records that were written with the message of *key*."""
        return next(map(_page, self._rows(queries.PAGE, key)), None)

    def pages_of(self, name: str, after: int = 0) -> list[Page]:
        """Return pages that speak of the id *name*, but for those of its own message.

        At most a few hundred: those behind the message of the key *after*, and the newest that
        came without a message.
        """
        rows = self._rows(queries.LEFTOVERS_OF_ID, name, _BATCH)
        rows += self._rows(queries.PAGES_OF_ID, name, after, _BATCH)
        return [_page(row) for row in rows]

    def leftovers(self, session: int, after: int, to: int) -> Iterator[Page]:
        """Give the records without a message that came before the numbers *after* + 1 to *to*."""
        return map(_page, self._rows(queries.LEFTOVERS_BETWEEN, session, after, to))

    def pages(self, session: int) -> Iterator[Page]:
        """Give all records of a session, in order."""
        beside_messages = self._batches(queries.PAGES_AFTER, session, 0, _PLACE)
        alone = self._batches(queries.LEFTOVERS_AFTER, session, 0, _SEQ)
        return map(_page, merge(beside_messages, alone, key=itemgetter(_SEQ)))

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the JSON of the value of *digest*, if the session kept it."""
        rows = self._rows(queries.ORIGINAL, session, digest)
        return rows[0][0] if rows else None

    def _batches(self, statement: str, session: int, after: int, column: int) -> Iterator[Any]:
        """Give the rows of *statement* behind the number *after*, which is in *column*."""
        # Few at first, for some want to see the next one only.
        limit = 4
        while rows := self._rows(statement, session, after, limit):
            yield from rows
            after = rows[-1][column]
            mean_size = sum([len(row[_BODY]) for row in rows]) // len(rows)
            limit = max(1, min(2 * limit, _BATCH, _BATCH_BYTES // max(1, mean_size)))

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with wrap_errors(self._where):
            return self._connection.execute(statement, values).fetchall()


_PLACE, _SEQ, _BODY = 1, 2, -2
"""Columns of the rows of messages and of pages; messages have no place."""


def _mode(file: Path) -> Mode:
    """Return how to read *file* and leave no file beside it, where that is possible."""
    # The last one to close a file without a log has nothing to carry into it, and tidies up.
    if may_write(file) and may_write_beside(file) and not unfinished(file):
        return "rw"
    return reading_mode(file)


def _session_row(row: tuple[int, str, int, int, int, int, int]) -> SessionRow:
    *facts, has_originals = row
    return SessionRow._make([*facts, bool(has_originals)])


def _message_row(row: tuple[int, int, int, str, object, bytes, object]) -> MessageRow:
    key, session, seq, name, version, body, checksum = row
    try:
        return MessageRow(key, session, seq, name, decode_message(version, body, checksum))
    except DecodeError as error:
        return MessageRow(key, session, seq, name, None, str(error))


def _page(row: tuple[int, int, int, object, bytes, object]) -> Page:
    session, place, seq, version, body, checksum = row
    try:
        return Page(session, place, seq, decode_page(version, body, checksum))
    except DecodeError as error:
        return Page(session, place, seq, (), str(error))
