"""What the reading threads of a PostgreSQL store do, each with a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from toolbus.errors import DecodeError, StoreError
from toolbus.store import rows
from toolbus.store.postgres import pg_queries
from toolbus.store.postgres.connection import PostgresLink, Watchdog
from toolbus.store.postgres.text_ids import indexed, unescape
from toolbus.store.protocol import Original, SessionInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.postgres.addresses import DatabaseAddress

T = TypeVar("T")

Rows: TypeAlias = Callable[..., list[Any]]
"""Returns the rows of a statement with these values, each statement with a bound of its own."""

PgQuery = Callable[[Rows], T]

_BATCH = 1_000
"""How many rows are read in one go: no bound of time is then on a session as a whole."""


class PostgresReads:
    """Answers queries, one after the other; a lost connection is made again once."""

    def __init__(self, address: DatabaseAddress, timeout: float, watchdog: Watchdog) -> None:
        self._link = PostgresLink(address, timeout, watchdog, read_only=True, name="toolbus reads")
        self.close = self._link.drop

    def serve(self, queries: Sequence[PgQuery[Any]]) -> list[Any]:
        """Return the answer to each of *queries*, or the exception for who waits for it."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: PgQuery[T]) -> T | Exception:
        try:
            return query(self._link.rows)
        except (DecodeError, StoreError) as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits must know
            return self._link.failure_of(error)


def read_messages(session_id: str, rows_of: Rows, after: int = 0) -> tuple[Message, ...]:
    """Return the messages of the session behind the number *after*, in order."""
    gathered: list[Message] = []
    for batch in _batches(rows_of, pg_queries.MESSAGES, session_id, (after,)):
        gathered += rows.read_messages(session_id, [row[:4] for row in batch])
    return tuple(gathered)


def read_records(session_id: str, rows_of: Rows) -> tuple[DispatchRecord, ...]:
    """Return the ledger records of the session, in order."""
    gathered: list[DispatchRecord] = []
    for batch in _batches(rows_of, pg_queries.RECORDS, session_id, (0, 0)):
        gathered += rows.read_records(session_id, [row[:4] for row in batch])
    return tuple(gathered)


def read_originals(session_id: str, rows_of: Rows) -> tuple[Original, ...]:
    """Return the values that the session kept, by their digests."""
    pairs = rows_of(pg_queries.ORIGINALS, indexed(session_id))
    return tuple([Original(digest=unescape(digest), body=body) for digest, body in pairs])


def read_state(session_id: str, name: str, rows_of: Rows) -> bytes | None:
    """Return what is kept for the session under *name*, or None."""
    for row in rows_of(pg_queries.STATE_OF, indexed(session_id), indexed(name)):
        return rows.read_state(session_id, name, row)
    return None


def read_sessions(rows_of: Rows) -> tuple[SessionInfo, ...]:
    """Return all sessions, the oldest first."""
    sessions = rows_of(pg_queries.SESSIONS)
    return tuple(
        [
            SessionInfo(id=unescape(name), messages=count, created_ns=created, updated_ns=updated)
            for name, count, created, updated in sessions
        ]
    )


def _batches(
    rows_of: Rows, statement: str, session_id: str, after: tuple[int, ...]
) -> Iterator[list[Any]]:
    """Give the rows of *statement* behind *after*, which ends with a row's first column."""
    name, limit = indexed(session_id), 16
    while True:
        batch = rows_of(statement, name, *after, limit)
        if batch:
            yield batch
        if len(batch) < limit:
            return
        # Of messages the number, of pages the place before it.
        after = (*batch[-1][4:], batch[-1][0])
        limit = _BATCH if sum([len(row[2]) for row in batch]) < limit << 14 else limit
