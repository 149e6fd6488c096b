"""A store on a PostgreSQL server: one commit for all who wait, and one place for many machines."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from toolbus.store.database_store import DatabaseStore
from toolbus.store.postgres.addresses import parse_address
from toolbus.store.postgres.connection import Watchdog
from toolbus.store.postgres.message_feed import follow_messages
from toolbus.store.postgres.pg_writes import PostgresWrites
from toolbus.store.postgres.reader import TIMEOUT, PostgresReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from toolbus.messages.records import Message


class PostgresStore(DatabaseStore):
    """Sessions in the database at *address*: `postgresql://USER@HOST/DATABASE` or `service=NAME`.

    The schema `toolbus` is made if it is not there. With *read_only* nothing is written, appending
    raises, and the role need not be able to. *timeout* is how many seconds are waited for a lock,
    a statement and a server that is gone. *clock* returns nanoseconds since the epoch; None is the
    server's, which is one for all machines. Raises `StoreError` for a database that cannot be a
    store, and leaves it as it is.

    A connection that is lost amid a commit is made again, and the server asked what became of it:
    all is written once. If that cannot be found out, `StoreError` says so. What is forgotten no
    statement finds any more; the server overwrites its files in its own time.

    >>> store = PostgresStore("service=agents")
    >>> agent = Agent(ScriptedModel(["hi"]), store=store, session_id="s1")
    """

    def __init__(
        self,
        address: str,
        *,
        read_only: bool = False,
        timeout: float = TIMEOUT,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._address, self._timeout = parse_address(address), timeout
        self._watchdog, writes = Watchdog(), None
        with ExitStack() as opened:
            opened.callback(self._watchdog.close)
            if read_only:
                PostgresReader(self._address, timeout=timeout).close()
            else:
                writes = PostgresWrites(self._address, timeout, self._watchdog, clock)
                opened.callback(writes.close)
                writes.prepare()
            opened.pop_all()
        super().__init__(self._address.label, self._unconnected_reader(), writes)
        # A second thread, for a small state shall not wait for a session of a gigabyte.
        self._state_reader = self._read_worker(self._unconnected_reader())

    def __repr__(self) -> str:
        return f"PostgresStore({self._address.label!r})"

    def follow(self, session_id: str, after: int = 0) -> AsyncGenerator[Message, None]:
        """Give the messages of the session behind the number *after*, also those still to come.

        It ends when it is closed. It has a connection of its own, which may only read.
        """
        self._check_open()
        return follow_messages(
            self._address, session_id, after, partial(self._read_after, session_id)
        )

    def reader(self) -> PostgresReader:
        """Return a reader of the database, with a connection of its own."""
        self._check_open()
        return PostgresReader(self._address, timeout=self._timeout)

    async def close(self) -> None:
        """Wait for the appends that were begun, then let go of the connections."""
        await self._state_reader.close()
        await super().close()
        self._watchdog.close()

    def _unconnected_reader(self) -> PostgresReader:
        return PostgresReader(self._address, timeout=self._timeout, watchdog=self._watchdog)
