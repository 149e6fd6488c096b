"""What the reading threads of a PostgreSQL store do, each with a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.errors import DecodeError, StoreError
from toolbus.store import rows
from toolbus.store.postgres import pg_queries
from toolbus.store.postgres.connection import PgConnection, PostgresLink, Watchdog
from toolbus.store.postgres.driver import psycopg
from toolbus.store.postgres.postgres_errors import failure_of
from toolbus.store.postgres.text_ids import indexed, unescape
from toolbus.store.protocol import Original, SessionInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.postgres.addresses import DatabaseAddress

T = TypeVar("T")

PgQuery = Callable[[PgConnection], T]

_BATCH = 1_000
"""How many rows are read in one go: no bound of time is then on a session as a whole."""


class PostgresReads:
    """Answers queries, one after the other; a lost connection is made again once."""

    def __init__(self, address: DatabaseAddress, timeout: float, watchdog: Watchdog) -> None:
        self._timeout = timeout
        self._link = PostgresLink(address, timeout, watchdog, read_only=True, name="toolbus reads")
        self.close = self._link.drop

    def serve(self, queries: Sequence[PgQuery[Any]]) -> list[Any]:
        """Return the answer to each of *queries*, or the exception for who waits for it."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: PgQuery[T]) -> T | Exception:
        for is_last in (False, True):
            try:
                # A session is read in as many statements as it takes, each with its own bound.
                with self._link.exchange(100 * self._timeout) as connection:
                    return query(connection)
            except DecodeError as error:
                return error
            except (psycopg.Error, StoreError, UnicodeError) as error:
                if is_last or not self._link.is_lost():
                    return failure_of(self._link.where, error)
        raise AssertionError  # Each turn of the loop returns, but for the first.


def read_messages(session_id: str, connection: PgConnection, after: int = 0) -> tuple[Message, ...]:
    """Return the messages of the session behind the number *after*, in order."""
    gathered: list[Message] = []
    for batch in _batches(connection, pg_queries.MESSAGES, session_id, (after,)):
        gathered += rows.read_messages(session_id, [row[:4] for row in batch])
    return tuple(gathered)


def read_records(session_id: str, connection: PgConnection) -> tuple[DispatchRecord, ...]:
    """Return the ledger records of the session, in order."""
    gathered: list[DispatchRecord] = []
    for batch in _batches(connection, pg_queries.RECORDS, session_id, (0, 0)):
        gathered += rows.read_records(session_id, [row[:4] for row in batch])
    return tuple(gathered)


def read_originals(session_id: str, connection: PgConnection) -> tuple[Original, ...]:
    """Return the values that the session kept, by their digests."""
    pairs = connection.execute(pg_queries.ORIGINALS, (indexed(session_id),), binary=True)
    return tuple([Original(digest=unescape(digest), body=body) for digest, body in pairs])


def read_state(session_id: str, name: str, connection: PgConnection) -> bytes | None:
    """Return what is kept for the session under *name*, or None."""
    values = (indexed(session_id), indexed(name))
    for row in connection.execute(pg_queries.STATE_OF, values, binary=True):
        return rows.read_state(session_id, name, row)
    return None


def read_sessions(connection: PgConnection) -> tuple[SessionInfo, ...]:
    """Return all sessions, the oldest first."""
    sessions = connection.execute(pg_queries.SESSIONS, binary=True)
    return tuple(
        [
            SessionInfo(id=unescape(name), messages=count, created_ns=created, updated_ns=updated)
            for name, count, created, updated in sessions
        ]
    )


def _batches(
    connection: PgConnection, statement: str, session_id: str, after: tuple[int, ...]
) -> Iterator[list[Any]]:
    """Give the rows of *statement* behind *after*, which ends with a row's first column."""
    name, limit = indexed(session_id), 16
    while True:
        values = (name, *after, limit)
        batch = connection.execute(statement, values, binary=True).fetchall()
        if batch:
            yield batch
        if len(batch) < limit:
            return
        # Of messages the number, of pages the place before it.
        after = (*batch[-1][4:], batch[-1][0])
        limit = _BATCH if sum([len(row[2]) for row in batch]) < limit << 14 else limit
