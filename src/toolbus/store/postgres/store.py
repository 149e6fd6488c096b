"""A store on a PostgreSQL server, for many machines, with one commit for all waiting writes."""

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

    The schema `toolbus` is created if it does not exist. With *read_only* nothing is written,
    appending raises, and the role needs no right to write. *timeout* limits, in seconds, the wait
    for a lock, for a statement and for an unreachable server. *clock* returns nanoseconds since
    the epoch; None is the server's clock, which all machines share. Raises `StoreError` for a
    database that cannot be a store, and leaves it unchanged.

    After a connection is lost during a commit, a new one asks the server for the outcome, so that
    everything is written exactly once; an unknown outcome raises `StoreError`. No statement finds
    forgotten data any more; the server overwrites its files in its own time.

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
        # A second thread, so that reading a small state does not wait for a session of a gigabyte.
        self._state_reader = self._read_worker(self._unconnected_reader())

    def __repr__(self) -> str:
        return f"PostgresStore({self._address.label!r})"

    def follow(self, session_id: str, after: int = 0) -> AsyncGenerator[Message, None]:
        """Yield the messages of the session after number *after*, including future ones.

        The iterator ends when it is closed. It has a connection of its own, which only reads.
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
        """Wait for pending appends, then close the connections."""
        await self._state_reader.close()
        await super().close()
        self._watchdog.close()

    def _unconnected_reader(self) -> PostgresReader:
        return PostgresReader(self._address, timeout=self._timeout, watchdog=self._watchdog)
