"""The reader of a PostgreSQL store, which needs no right but to read."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from toolbus.errors import ClosedError, StoreError
from toolbus.store.postgres import pg_queries
from toolbus.store.postgres.addresses import DatabaseAddress, parse_address
from toolbus.store.postgres.connection import PostgresLink, Watchdog
from toolbus.store.postgres.migrations import read_version
from toolbus.store.postgres.postgres_errors import wrap_errors
from toolbus.store.postgres.tables import VERSION
from toolbus.store.postgres.text_ids import indexed, unescape
from toolbus.store.reading import StoreFacts
from toolbus.store.sql_reader import SqlReader

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

TIMEOUT = 10.0
"""Seconds that a store waits for its server, where nothing else is asked for."""

_TABLES = ("messages", "calls", "ledger", "mentions", "originals", "states", "commits", "batches")


class PostgresReader(SqlReader):
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
        super().__init__(address.label, pg_queries.STATEMENTS, indexed, unescape)
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
        where = self._where
        with wrap_errors(where), self._link.exchange(patient=False) as connection:
            version = read_version(where, connection, read_only=True)
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

    def facts(self) -> StoreFacts:
        """Return version and size of the schema, and what of it is missing or cannot be used."""
        ((version, size),) = self._rows(pg_queries.FACTS)
        problems = [f"index {name} is not valid" for (name,) in self._rows(pg_queries.INVALID)]
        missing = self._rows(pg_queries.MISSING, list(_TABLES))
        problems += [f"table {name} is missing" for (name,) in missing]
        return StoreFacts(version, int(size or 0), tuple(problems))

    def _rows(self, statement: str, *values: object) -> list[Any]:
        if self._closed:
            raise ClosedError(f"store {self._where!r}")
        return self._link.rows(statement, *values)
