"""The connection of one thread, opened on demand and with a time limit for each wait."""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.errors import WrongPathError
from toolbus.store.postgres.driver import psycopg
from toolbus.store.postgres.postgres_errors import failure_of, is_transient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.errors import SessionBusyError, StoreError
    from toolbus.store.postgres.addresses import DatabaseAddress

PgConnection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

OLDEST = 140_000
"""The oldest supported server: 14, which has its last update in 2026."""

_PAUSE = 0.05
_GRACE = 2.0
"""Seconds beyond the server's own limit after which the connection is cut."""


class Watchdog:
    """A thread that cuts connections to late servers: a stopped server enforces no limit itself."""

    def __init__(self) -> None:
        self._lock, self._ended = Lock(), Event()
        self._armed: dict[int, tuple[float, PgConnection]] = {}
        self._thread: Thread | None = None

    @contextmanager
    def limit(self, connection: PgConnection, seconds: float) -> Iterator[None]:
        """Return a context that cuts *connection* if it takes longer than *seconds*."""
        with self._lock:
            self._armed[id(connection)] = monotonic() + seconds, connection
            if self._thread is None:
                self._thread = Thread(target=self._watch, name="toolbus-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._armed.pop(id(connection), None)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            with self._lock:
                late = [link for until, link in self._armed.values() if until < monotonic()]
                for connection in late:
                    _cut(connection)


def _cut(connection: PgConnection) -> None:
    with suppress(psycopg.Error, OSError), socket.socket(fileno=connection.fileno()) as wire:
        try:
            wire.shutdown(socket.SHUT_RDWR)
        finally:
            wire.detach()


class PostgresLink:
    """The connection of one thread to *address*; the server enforces *read_only*, too."""

    def __init__(
        self,
        address: DatabaseAddress,
        timeout: float,
        watchdog: Watchdog,
        *,
        read_only: bool,
        name: str,
    ) -> None:
        self._address, self._timeout, self._watchdog = address, timeout, watchdog
        self._read_only, self._name = read_only, name
        self._connection: PgConnection | None = None
        self.opened = 0

    @property
    def where(self) -> str:
        """The name of the database for display."""
        return self._address.label

    def connect(self, *, patient: bool = True) -> PgConnection:
        """Return the connection, established if there is none; raises `StoreError`.

        With *patient*, wait for an unreachable server within the time limit.
        """
        until = monotonic() + self._timeout
        while self._connection is None or self._connection.closed:
            try:
                self._connection = self._open(max(1.0, until - monotonic()))
            except psycopg.Error as error:
                starting = is_transient(error) and (patient or "FATAL" in str(error))
                if not starting or monotonic() + _PAUSE > until:
                    raise self.failure_of(error) from error
                Event().wait(_PAUSE)
        return self._connection

    @contextmanager
    def exchange(self, seconds: float = 0.0, *, patient: bool = True) -> Iterator[PgConnection]:
        """Return a context with the connection, for work of at most *seconds* beyond the limit.

        A connection that is lost inside is dropped, so that the next one is new.
        """
        connection = self.connect(patient=patient)
        try:
            with self._watchdog.limit(connection, 2 * self._timeout + _GRACE + seconds):
                yield connection
        except BaseException:
            if connection.broken or connection.closed:
                self.drop()
            else:
                self._roll_back(connection)
            raise

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of *statement*, which only reads; raises `StoreError`.

        If the connection is lost meanwhile, it is established again, once.
        """
        for is_last in (False, True):
            try:
                with self.exchange(self._timeout) as connection:
                    return connection.execute(statement, values, binary=True).fetchall()
            except (psycopg.Error, UnicodeError) as error:
                if is_last or not self.is_lost():
                    raise self.failure_of(error) from error
        raise AssertionError  # The second turn returns or raises.

    def failure_of(self, error: Exception) -> StoreError | SessionBusyError:
        """Return *error* as a `StoreError` about the database, worded for a read or a write."""
        return failure_of(self.where, error, reading=self._read_only)

    def is_lost(self) -> bool:
        """Return whether there is no connection, lost or never established."""
        return self._connection is None

    def drop(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _roll_back(self, connection: PgConnection) -> None:
        try:
            with self._watchdog.limit(connection, self._timeout):
                connection.rollback()
        except psycopg.Error:
            self.drop()

    def _open(self, seconds: float) -> PgConnection:
        bound = round(self._timeout * 1000)
        settings: dict[str, object] = {
            "timezone": "UTC",
            # Longer than the limit of a lock, whose error is more specific.
            "statement_timeout": 2 * bound,
            "lock_timeout": bound,
            "idle_in_transaction_session_timeout": bound,
            # A plan that was cached while the tables were small must also suit large ones.
            "enable_seqscan": "off",
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            # Rows in the order of an index need no temporary file, for which a server with a full
            # disk has no room.
            "enable_sort": "off",
            "enable_incremental_sort": "off",
            "enable_bitmapscan": "off",
            "jit": "off",
        }
        if self._read_only:
            settings["default_transaction_read_only"] = "on"
        words = psycopg.conninfo.conninfo_to_dict(self._address.conninfo)
        options = " ".join([f"-c {name}={value}" for name, value in settings.items()])
        connection: PgConnection = psycopg.Connection.connect(
            self._address.conninfo,
            autocommit=True,
            prepare_threshold=2,
            connect_timeout=max(2, round(seconds)),
            options=f"{words.get('options') or ''} {options}".strip(),
            application_name=self._name,
            client_encoding="UTF8",
        )
        try:
            _check_server(self.where, connection)
        except BaseException:
            connection.close()
            raise
        self.opened += 1
        return connection


def _check_server(where: str, connection: PgConnection) -> None:
    """Raise `StoreError` for a server or a database that does not support a store."""
    version = connection.info.server_version
    if version < OLDEST:
        number, oldest = f"{version // 10_000}", OLDEST // 10_000
        raise WrongPathError(
            where, f"the server is PostgreSQL {number}; a store needs {oldest} or newer"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        way_out = "make one with `createdb --encoding=UTF8 --template=template0`"
        raise WrongPathError(where, f"the database's encoding is {encoding}; {way_out}")
