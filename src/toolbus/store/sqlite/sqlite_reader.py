"""The reader of a store's file, which leaves every byte of it as it is."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolbus.store.reading import StoreFacts
from toolbus.store.sql_reader import SqlReader
from toolbus.store.sqlite import schema
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
from toolbus.store.sqlite.queries import STATEMENTS
from toolbus.store.sqlite.sqlite_errors import wrap_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.store.sqlite.files import Mode


class SqliteReader(SqlReader):
    """Reads the SQLite store *path* and changes no byte of it.

    With *live* another process may write meanwhile. *opened_as* is the mode of a store of this
    process that has the file open. Raises `StoreError` for a file that is not a store.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        live: bool = False,
        opened_as: Mode | None = None,
        timeout: float = 5.0,
    ) -> None:
        super().__init__(os.fspath(path), STATEMENTS)
        file = checked_path(self._where, read_only=True)
        with wrap_errors(self._where):
            version = check_contents(self._where, file, timeout, read_only=True)
            mode = opened_as or (reading_mode(file) if live else _mode(file))
            is_still = mode in {"still", "copied"}
            self._detector = ChangeDetector(self._where, file) if is_still else None
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

    def facts(self) -> StoreFacts:
        """Return version and size of the file, and what SQLite finds wrong with it."""
        with wrap_errors(self._where):
            version = read_header(self._connection).version
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (page_size,) = self._connection.execute("PRAGMA page_size").fetchone()
            problems = tuple(integrity_problems(self._connection))
        return StoreFacts(version, pages * page_size, problems)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with wrap_errors(self._where):
            rows = self._connection.execute(statement, values).fetchall()
            if self._detector:
                self._detector.check()
            return rows


def _mode(file: Path) -> Mode:
    """Return how to read *file* and leave no file beside it, where that is possible."""
    # The last one to close a file without a log has nothing to carry into it, and tidies up.
    if may_write(file) and may_write_beside(file) and not unfinished(file):
        return "rw"
    return reading_mode(file)
