"""A store's file as a person reads it: opened to look, and a few rows at a time."""

from __future__ import annotations

import os
from contextlib import contextmanager
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

from toolbus.errors import DecodeError, StoreError
from toolbus.store.protocol import Original
from toolbus.store.reading import FEW, MessageRow, Page, SessionRow, StateRow, StoreFacts
from toolbus.store.rows import decode_message, found_page, found_state
from toolbus.store.sqlite import queries, schema
from toolbus.store.sqlite.files import (
    ChangeDetector,
    check_contents,
    checked_path,
    connect,
    integrity_problems,
    may_write,
    may_write_beside,
    read_header,
    reading_mode,
    unfinished,
)
from toolbus.store.sqlite.sqlite_errors import wrap_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.store.reading import IdKind
    from toolbus.store.sqlite.files import Mode

_NEWEST = 200
_BATCH = 200
"""How many rows are read at once at most."""

_FEW_VALUES = 8
"""How many values of unknown size are read at once."""

_BATCH_BYTES = 2**20
"""How many bytes of bodies are read at once, as far as the rows before tell."""


class SqliteReader:
    """Reads the SQLite store *path* and changes no byte of it.

    With *live* another process may write meanwhile. *opened_as* is the mode of a store of this
    process that has the file open, so that its log is not read for damage again. Raises
    `StoreError` for a file that is not a store.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        live: bool = False,
        opened_as: Mode | None = None,
        timeout: float = 5.0,
    ) -> None:
        self._where = os.fspath(path)
        file = checked_path(self._where, read_only=True)
        with wrap_errors(self._where):
            version = check_contents(
                self._where, file, timeout, read_only=True, with_log=opened_as is None
            )
            mode = opened_as or (reading_mode(file) if live else _mode(file))
            is_still = mode in {"still", "alone"}
            self._changes = ChangeDetector(self._where, file) if is_still else None
            self._connection = connect(file, timeout, mode)
            if version < schema.WITH_STATES:
                self._connection.execute(schema.NO_STATES)
            self._connection.execute("PRAGMA query_only = ON")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Show one state of the store inside, whatever is written meanwhile."""
        with wrap_errors(self._where):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("COMMIT")

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

    def ids_like(self, kind: IdKind, prefix: str) -> list[str]:
        """Return a few ids that begin with *prefix*."""
        rows = self._rows(queries.IDS_FROM[kind], prefix, FEW)
        if kind != "session":
            rows += self._rows(queries.MENTIONS_FROM, prefix, FEW)
        return sorted({name for (name,) in rows if name.startswith(prefix)})[:FEW]

    def ids_near(self, kind: IdKind, name: str) -> list[str]:
        """Return ids next to *name* in the alphabet; of sessions also the newest."""
        rows = self._rows(queries.IDS_BEFORE[kind], name, FEW)
        rows += self._rows(queries.IDS_FROM[kind], name, FEW)
        if kind == "session":
            rows += self._rows(queries.NEWEST_SESSIONS, _NEWEST)
        return list(dict.fromkeys([near for (near,) in rows]))

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

    def page(self, row: MessageRow) -> Page | None:
        """Return the records that were written with the message *row*."""
        return next(map(found_page, self._rows(queries.PAGE, row.key)), None)

    def pages_of(self, name: str, behind: MessageRow | None = None) -> list[Page]:
        """Return pages that speak of the id *name*, but for those of its own message."""
        after = behind.key if behind else 0
        rows = self._rows(queries.LEFTOVERS_OF_ID, name, _BATCH)
        rows += self._rows(queries.PAGES_OF_ID, name, after, _BATCH)
        return [found_page(row) for row in rows]

    def leftovers(self, session: int, after: int, to: int) -> Iterator[Page]:
        """Give the records without a message that came before the numbers *after* + 1 to *to*."""
        return map(found_page, self._rows(queries.LEFTOVERS_BETWEEN, session, after, to))

    def pages(self, session: int) -> Iterator[Page]:
        """Give all records of a session, in order."""
        beside_messages = self._batches(queries.PAGES_AFTER, session, 0, _PLACE)
        alone = self._batches(queries.LEFTOVERS_AFTER, session, 0, _SEQ)
        return map(found_page, merge(beside_messages, alone, key=itemgetter(_SEQ)))

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the JSON of the value of *digest*, if the session kept it."""
        rows = self._rows(queries.ORIGINAL, session, digest)
        return rows[0][0] if rows else None

    def originals(self, session: int) -> Iterator[Original]:
        """Give the values that the session kept, by their digests."""
        digest = ""
        while rows := self._rows(queries.ORIGINALS_AFTER, session, digest, _FEW_VALUES):
            for digest, body in rows:
                yield Original(digest=digest, body=body)

    def state(self, session_id: str, name: str) -> StateRow | None:
        """Return the state *name* of the session; None if there is none."""
        rows = self._rows(schema.STATE, session_id, name)
        return next((found_state(name, *row) for row in rows), None)

    def states(self, session: int) -> Iterator[StateRow]:
        """Give what components keep for the session, by its name."""
        for (name,) in self._rows(queries.STATE_NAMES, session):
            for row in self._rows(queries.STATE, session, name):
                yield found_state(name, *row)

    def states_like(self, prefix: str) -> Iterator[tuple[str, StateRow]]:
        """Give what is kept under names that begin with *prefix*, with the ids of sessions."""
        name, session, limit = prefix, -1, 4
        while rows := self._rows(queries.STATES_FROM, name, session, limit):
            for name, _, session_id, *state in rows:
                if not name.startswith(prefix):
                    return
                yield session_id, found_state(name, *state)
            name, session, *_ = rows[-1]
            limit = _next_limit(limit, rows)

    def facts(self) -> StoreFacts:
        """Return version and size of the file, and what SQLite finds wrong with it."""
        with wrap_errors(self._where):
            version = read_header(self._connection).version
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (page_size,) = self._connection.execute("PRAGMA page_size").fetchone()
            problems = tuple(integrity_problems(self._connection))
        return StoreFacts(version, pages * page_size, problems)

    def _batches(self, statement: str, session: int, after: int, column: int) -> Iterator[Any]:
        """Give the rows of *statement* behind the number *after*, which is in *column*."""
        # Few at first, for some want to see the next one only.
        limit = 4
        while rows := self._rows(statement, session, after, limit):
            yield from rows
            after = rows[-1][column]
            limit = _next_limit(limit, rows)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with wrap_errors(self._where):
            rows = self._connection.execute(statement, values).fetchall()
            if self._changes:
                self._changes.check()
            return rows


_PLACE, _SEQ, _BODY = 1, 2, -2
"""Columns of the rows of messages and of pages; messages have no place."""


def _mode(file: Path) -> Mode:
    """Return how to read *file* and leave no file beside it, where that is possible."""
    # The last one to close a file without a log has nothing to carry into it, and tidies up.
    if may_write(file) and may_write_beside(file) and not unfinished(file):
        return "rw"
    return reading_mode(file)


def _next_limit(limit: int, rows: list[Any]) -> int:
    mean_size = sum([len(row[_BODY]) for row in rows]) // len(rows)
    return max(1, min(2 * limit, _BATCH, _BATCH_BYTES // max(1, mean_size)))


def _session_row(row: tuple[int, str, int, int, int, int, int]) -> SessionRow:
    *facts, has_originals = row
    return SessionRow._make([*facts, bool(has_originals)])


def _message_row(row: tuple[int, int, int, str, object, bytes, object]) -> MessageRow:
    key, session, seq, name, version, body, checksum = row
    try:
        return MessageRow(key, session, seq, name, decode_message(version, body, checksum))
    except DecodeError as error:
        return MessageRow(key, session, seq, name, None, str(error))
