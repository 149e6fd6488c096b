"""A store on disk: one SQLite file, one writer thread, and one commit for all who wait."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from toolbus.store.database_store import MAX_BATCH, DatabaseStore, answer_queries
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
from toolbus.store.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.sqlite.files import Mode


class SqliteStore(DatabaseStore):
    """Sessions in the SQLite file *path*, which is made if it is not there.

    Several stores, also of several processes, may share a file: each waits up to *timeout*
    seconds for the others' writes. With *read_only* nothing is written and appending raises.
    *clock* returns nanoseconds since the epoch. Raises `StoreError` for a file that cannot be
    a store, and leaves it as it is.

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
        where = os.fspath(path)
        self._timeout, self._writes = timeout, None
        file = checked_path(where, read_only=read_only)
        with wrap_errors(where), ExitStack() as opened:
            check_contents(where, file, timeout, read_only=read_only)
            if not read_only:
                create_private(file)
                self._writes = Writes(where, connect(file, timeout, "rwc"), clock)
                opened.callback(self._writes.close)
                self._writes.prepare(timeout)
            self._mode: Mode = reading_mode(file) if read_only else "rw"
            reads = SqliteReader(where, opened_as=self._mode, timeout=timeout)
            opened.pop_all()
        name = f"store {where!r}"
        reader = Worker(name, partial(answer_queries, reads), reads.close)
        writer = None
        if self._writes:
            write, end = self._writes.serve, self._writes.close
            writer = Worker(name, write, end, limit=MAX_BATCH)
        super().__init__(where, reader, writer)

    @property
    def path(self) -> str:
        """The file, as it was given."""
        return self._where

    @property
    def commits(self) -> int:
        """How many transactions this store has written."""
        return self._writes.commits if self._writes else 0

    def reader(self) -> SqliteReader:
        """Return a reader of the file, with a connection of its own."""
        self._check_open()
        return SqliteReader(self._where, opened_as=self._mode, timeout=self._timeout)
