"""A PostgreSQL store as a person reads it: a few rows at a time, with the right to read alone."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from toolbus.errors import ClosedError, DecodeError, StoreError
from toolbus.store.postgres import pg_queries
from toolbus.store.postgres.addresses import DatabaseAddress, parse_address
from toolbus.store.postgres.connection import PostgresLink, Watchdog
from toolbus.store.postgres.migrations import read_facts
from toolbus.store.postgres.postgres_errors import wrap_errors
from toolbus.store.postgres.tables import VERSION
from toolbus.store.postgres.text_ids import indexed, is_shortened, unescape
from toolbus.store.protocol import Original
from toolbus.store.reading import FEW, MessageRow, Page, SessionRow, StateRow, StoreFacts
from toolbus.store.rows import decode_message, found_page, found_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from toolbus.store.reading import IdKind

TIMEOUT = 10.0
"""Seconds that a store waits for its server, where nothing else is asked for."""

_NEWEST = _BATCH = 200
"""How many rows are read at once at most."""

_BATCH_BYTES = 2**20
"""How many bytes of bodies are read at once, as far as the rows before tell."""

_TABLES = ("messages", "calls", "ledger", "mentions", "originals", "states", "commits", "batches")


class PostgresReader:
    """Reads the store at *address*; *timeout* is in seconds.

    Raises `StoreError` for a database that is not a store. The *watchdog* is that of a store of
    this process, which has looked already: so nothing is connected before the first verb.
    """

    def __init__(
        self,
        address: str | DatabaseAddress,
        *,
        timeout: float = TIMEOUT,
        watchdog: Watchdog | None = None,
    ) -> None:
        if not isinstance(address, DatabaseAddress):
            address = parse_address(address)
        limits, self._closed = watchdog or Watchdog(), False
        self._watchdog = None if watchdog else limits
        name = "toolbus reader"
        self._link = PostgresLink(address, timeout, limits, read_only=True, name=name)
        if watchdog:
            return
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        where = self._link.where
        with wrap_errors(where), self._link.exchange(patient=False) as connection:
            version = read_facts(where, connection, read_only=True).version
        if version < VERSION:
            reason = f"it has version {version}, older than {VERSION}; open it to write once"
            raise StoreError(where, reason)

    def close(self) -> None:
        """Let go of the connection."""
        self._closed = True
        self._link.drop()
        if self._watchdog:
            self._watchdog.close()

    def snapshot(self) -> AbstractContextManager[None]:
        """Do nothing: each statement is a transaction of its own, with a bound of its own."""
        return nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def changes(self) -> int:
        """A number that is another one once somebody else has written; cheap to ask for."""
        return int(self._rows(pg_queries.CHANGES)[0][0])

    def sessions(self) -> Iterator[SessionRow]:
        """Give all sessions, the oldest first."""
        after = -1
        while rows := self._rows(pg_queries.SESSIONS_AFTER, after, _BATCH):
            yield from map(_session_row, rows)
            after = rows[-1][0]

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session of that very id."""
        rows = self._rows(pg_queries.SESSION, indexed(session_id))
        return next(map(_session_row, rows), None)

    def session_of(self, key: int) -> SessionRow:
        """Return the session of a message or page; raises `StoreError` if it is lost."""
        for row in self._rows(pg_queries.SESSION_OF_KEY, key):
            return _session_row(row)
        raise StoreError(self._link.where, f"session {key} is lost; see `toolbus check`")

    def ids_like(self, kind: IdKind, prefix: str) -> list[str]:
        """Return a few ids that begin with *prefix*."""
        start = indexed(prefix)
        rows = self._rows(pg_queries.IDS_FROM[kind], start, FEW)
        if kind != "session":
            rows += self._rows(pg_queries.IDS_FROM["mention"], start, FEW)
        names = {unescape(name) for (name,) in rows}
        return sorted([name for name in names if name.startswith(prefix)])[:FEW]

    def ids_near(self, kind: IdKind, name: str) -> list[str]:
        """Return ids next to *name* in the alphabet; of sessions also the newest."""
        rows = self._rows(pg_queries.IDS_BEFORE[kind], indexed(name), FEW)
        rows += self._rows(pg_queries.IDS_FROM[kind], indexed(name), FEW)
        if kind == "session":
            rows += self._rows(pg_queries.NEWEST_SESSIONS, _NEWEST)
        return list(dict.fromkeys([unescape(near) for (near,) in rows]))

    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Give the messages of a session behind the number *after*, in order."""
        # Few at first, for some want to see the next one only.
        limit = 4
        while rows := self._rows(pg_queries.MESSAGES_AFTER, session, after, limit):
            yield from map(_message_row, rows)
            after, limit = rows[-1][2], _next_limit(limit, rows)

    def messages_of(self, name: str, session: int | None) -> list[MessageRow]:
        """Return a few messages of the id *name*."""
        if session is None:
            rows = self._rows(pg_queries.MESSAGES_OF_ID, indexed(name), FEW)
        else:
            rows = self._rows(pg_queries.MESSAGES_OF_ID_IN, indexed(name), session, FEW)
        return [_message_row(row) for row in rows]

    def messages_of_call(self, name: str, session: int | None) -> list[MessageRow]:
        """Return the last few messages that ask for the call *name* or answer it, in order."""
        if session is None:
            rows = self._rows(pg_queries.LAST_OF_CALL, indexed(name), FEW)
            # The oldest, too: so it is known if several sessions have the id.
            rows += self._rows(pg_queries.FIRST_OF_CALL, indexed(name), 1)
        else:
            rows = self._rows(pg_queries.LAST_OF_CALL_IN, indexed(name), session, FEW)
        return [_message_row(row) for row in reversed(rows)]

    def before_in_call(self, name: str, row: MessageRow) -> list[MessageRow]:
        """Return the last few messages before *row* that speak of the call *name*, last first."""
        values = (indexed(name), row.session, row.key, FEW)
        return [_message_row(row) for row in self._rows(pg_queries.OF_CALL_BEFORE, *values)]

    def after_in_call(self, name: str, row: MessageRow) -> MessageRow | None:
        """Return the first message behind *row* that speaks of the call *name*."""
        rows = self._rows(pg_queries.OF_CALL_AFTER, indexed(name), row.session, row.key, 1)
        return _message_row(rows[0]) if rows else None

    def page(self, row: MessageRow) -> Page | None:
        """Return the records that were written with the message *row*."""
        rows = self._rows(pg_queries.PAGE, row.session, row.seq, row.key)
        return next(map(found_page, rows), None)

    def pages(self, session: int) -> Iterator[Page]:
        """Give all records of a session, in order."""
        place = seq = 0
        limit = 4
        while rows := self._rows(pg_queries.PAGES_AFTER, session, place, seq, limit):
            yield from map(found_page, rows)
            _, place, seq, *_ = rows[-1]
            limit = _next_limit(limit, rows)

    def pages_of(self, name: str, behind: MessageRow | None = None) -> list[Page]:
        """Return pages that speak of the id *name*, but for those of its own message."""
        after = behind.key if behind else 0
        rows = self._rows(pg_queries.LEFTOVERS_OF_ID, indexed(name), _BATCH)
        rows += self._rows(pg_queries.PAGES_OF_ID, indexed(name), after, _BATCH)
        return [found_page(row) for row in rows]

    def leftovers(self, session: int, after: int, to: int) -> Iterator[Page]:
        """Give the records without a message that came before the numbers *after* + 1 to *to*."""
        return map(found_page, self._rows(pg_queries.LEFTOVERS_BETWEEN, session, after, to))

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the JSON of the value of *digest*, if the session kept it."""
        rows = self._rows(pg_queries.ORIGINAL, session, indexed(digest))
        return rows[0][0] if rows else None

    def originals(self, session: int) -> Iterator[Original]:
        """Give the values that the session kept, by their digests."""
        digest = ""
        while rows := self._rows(pg_queries.ORIGINALS_AFTER, session, digest, 1):
            for digest, body in rows:
                yield Original(digest=unescape(digest), body=body)

    def state(self, session_id: str, name: str) -> StateRow | None:
        """Return the state *name* of the session; None if there is none."""
        rows = self._rows(pg_queries.STATE_OF, indexed(session_id), indexed(name))
        return next((found_state(name, *row) for row in rows), None)

    def states(self, session: int) -> Iterator[StateRow]:
        """Give what components keep for the session, by its name."""
        for (name,) in self._rows(pg_queries.STATE_NAMES, session):
            for row in self._rows(pg_queries.STATE, session, name):
                yield found_state(unescape(name), *row)

    def states_like(self, prefix: str) -> Iterator[tuple[str, StateRow]]:
        """Give what is kept under names that begin with *prefix*, with the ids of sessions."""
        last_name, session, limit = indexed(prefix), -1, 4
        while rows := self._rows(pg_queries.STATES_FROM, last_name, session, limit):
            for escaped, _, session_id, *state in rows:
                if not (name := unescape(escaped)).startswith(prefix):
                    return
                if session_id is not None:
                    yield unescape(session_id), found_state(name, *state)
            last_name, session, *_ = rows[-1]
            limit = _next_limit(limit, rows)

    def facts(self) -> StoreFacts:
        """Return version and size of the schema, and what of it is missing or cannot be used."""
        ((version, size),) = self._rows(pg_queries.FACTS)
        problems = [f"index {name} is not valid" for (name,) in self._rows(pg_queries.INVALID)]
        missing = self._rows(pg_queries.MISSING, list(_TABLES))
        problems += [f"table {name} is missing" for (name,) in missing]
        return StoreFacts(version, int(size or 0), tuple(problems))

    def _rows(self, statement: str, *values: object) -> list[Any]:
        if self._closed:
            raise ClosedError(f"store {self._link.where!r}")
        return self._link.rows(statement, *values)


def _next_limit(limit: int, rows: list[Any]) -> int:
    mean_size = sum([len(row[-2]) for row in rows]) // len(rows)
    return max(1, min(2 * limit, _BATCH, _BATCH_BYTES // max(1, mean_size)))


def _session_row(row: tuple[Any, ...]) -> SessionRow:
    key, name, *facts = row
    return SessionRow(key, unescape(name), *facts)


def _message_row(row: tuple[int, int, int, str, object, bytes, object]) -> MessageRow:
    key, session, seq, name, version, body, checksum = row
    try:
        message = decode_message(version, body, checksum)
    except DecodeError as error:
        return MessageRow(key, session, seq, unescape(name), None, str(error))
    whole = message.id if is_shortened(name) else unescape(name)
    return MessageRow(key, session, seq, whole, message)
