"""A store in an SQLite file: one writer thread, and one commit for all waiting writes."""

from __future__ import annotations

import os
from contextlib import ExitStack
from time import time_ns
from typing import TYPE_CHECKING

from toolbus.store.database_store import DatabaseStore
from toolbus.store.sqlite.files import (
    check_contents,
    checked_path,
    connect,
    create_private,
    reading_mode,
)
from toolbus.store.sqlite.sqlite_errors import wrap_errors
from toolbus.store.sqlite.sqlite_reader import SqliteReader
from toolbus.store.sqlite.writes import Writes

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.sqlite.files import Mode


class SqliteStore(DatabaseStore):
    """Sessions in the SQLite file *path*, which is created if it does not exist.

    Several stores, also of several processes, may share a file: each waits up to *timeout*
    seconds for writes of the others. With *read_only* nothing is written and appending raises.
    *clock* returns nanoseconds since the epoch. Raises `StoreError` for a file that cannot be
    a store, and leaves it unchanged.

    >>> async def main():
    ...     async with SqliteStore("agent.db") as store:
    ...         return await store.sessions()
    >>> asyncio.run(main())
    ()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        timeout: float = 5.0,
        clock: Callable[[], int] = time_ns,
    ) -> None:
        where, writes = os.fspath(path), None
        self._timeout = timeout
        file = checked_path(where, read_only=read_only)
        with wrap_errors(where), ExitStack() as opened:
            check_contents(where, file, timeout, read_only=read_only)
            if not read_only:
                create_private(file)
                writes = Writes(where, connect(file, timeout, "rwc"), clock)
                opened.callback(writes.close)
                writes.prepare(timeout)
            self._mode: Mode = reading_mode(file) if read_only else "rw"
            reads = SqliteReader(where, opened_as=self._mode, timeout=timeout)
            opened.pop_all()
        super().__init__(where, reads, writes)

    @property
    def path(self) -> str:
        """The path of the file, as given."""
        return self._where

    def reader(self) -> SqliteReader:
        """Return a reader of the file, with a connection of its own."""
        self._check_open()
        return SqliteReader(self._where, opened_as=self._mode, timeout=self._timeout)
