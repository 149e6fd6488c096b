"""The rows of a damaged SQLite file, as far as SQLite gives them, key by key.

A tree is read from its first row up to the first error, then from its last row down to one. What
lies between is halved again and again, so each part that a tree still leads to is found.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import deque
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

from toolbus.store.recovery.wal import read_log, reseal
from toolbus.store.sqlite.files import beside, connect, looking_mode, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.recovery.wal import Log
    from toolbus.store.sqlite.files import Connection

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = dict[str, Value]

_KEYS = 2**63
_MIN_ROW = 32
"""No row of a message or of a record takes fewer bytes, so there are no more keys than that."""

_TRIES = 20_000
"""How many parts of a table are tried behind one another: some seconds."""

_TEXTS = frozenset({"id", "digest", "name"})
_COLUMNS = {
    "sessions": ("key", "id", "messages", "records", "created_ns", "updated_ns"),
    "messages": ("key", "session", "seq", "id", "version", "body", "checksum"),
    "ledger": ("key", "session", "place", "seq", "records", "version", "body", "checksum"),
    "originals": ("key", "session", "digest", "body"),
    "states": ("key", "session", "name", "version", "body", "checksum"),
}


@contextmanager
def open_source(file: Path) -> Iterator[tuple[Connection, Log]]:
    """Open *file* to read what is left of it, and change nothing; give what its log is, too.

    Behind damage in a log SQLite reads on in a copy, in which the log is put right.
    """
    with ExitStack() as opened:
        connection = opened.enter_context(closing(_connect(file, alone=False)))
        # In a transaction nobody begins the log anew, so what is read of it is of one round.
        with suppress(sqlite3.Error):
            connection.execute("BEGIN")
            read_header(connection)
        log = read_log(beside(file, "-wal"))
        if log.damage:
            copy = Path(opened.enter_context(TemporaryDirectory())) / "copy"
            shutil.copyfile(file, copy)
            reseal(beside(file, "-wal"), beside(copy, "-wal"))
            connection = opened.enter_context(closing(_connect(copy, alone=True)))
        yield connection, log


def _connect(file: Path, *, alone: bool) -> Connection:
    connection = connect(file, 5.0, "rw" if alone else looking_mode(file))
    # Then SQLite also reads a file that was cut, and passes over tables that it cannot make out.
    connection.execute("PRAGMA writable_schema = ON")
    connection.text_factory = lambda text: text.decode(errors="surrogateescape")
    return connection


class Salvage:
    """Reads the rows of the store behind *connection*, a file and log of *size* bytes.

    `problems` says which tables could not be read whole, `misfits` counts rows that cannot be.
    """

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection, self._max_keys = connection, size // _MIN_ROW + 1
        self.problems: dict[str, str] = {}
        self.misfits = 0

    def rows(self, table: str) -> Iterator[Row]:
        """Read the rows of a table, in no certain order; bodies are bytes."""
        columns = _COLUMNS[table]
        names = ["CAST(body AS BLOB)" if name == "body" else name for name in columns]
        for values in self._read_around_damage(table, f"SELECT {', '.join(names)} FROM {table}"):
            row = dict(zip(columns, values, strict=True))
            if all(_fits(name, value) for name, value in row.items()):
                yield row
            else:
                self.misfits += 1

    def pairs(self, table: str, select: str) -> Iterator[tuple[Value, Value]]:
        """Read a tree that is in the order of its ids, from both ends; some may come twice."""
        for order in ("ASC", "DESC"):
            try:
                yield from self._connection.execute(f"{select} ORDER BY id {order}")
            except sqlite3.Error as error:
                self._note(table, error)
            else:
                break

    def _read_around_damage(self, table: str, select: str) -> Iterator[tuple[Value, ...]]:
        parts, tries = deque([(-_KEYS, _KEYS - 1)]), 0
        while parts and tries < _TRIES:
            tries += 1
            low, high = parts.popleft()
            for order in ("ASC", "DESC"):
                ranged = f"{select} WHERE key BETWEEN ? AND ? ORDER BY key {order} LIMIT ?"
                try:
                    for row in self._connection.execute(ranged, (low, high, self._max_keys)):
                        yield row
                        low, high = _rest(low, high, row[0], order)
                except sqlite3.Error as error:
                    self._note(table, error)
                else:
                    break
            else:
                parts.extend(self._halves(low, high))

    def _halves(self, low: int, high: int) -> list[tuple[int, int]]:
        low, high = max(low, -self._max_keys), min(high, self._max_keys)
        middle = (low + high) // 2
        return [(low, middle), (middle + 1, high)] if low < high else []

    def _note(self, table: str, error: sqlite3.Error) -> None:
        self.problems.setdefault(table, f"the table {table!r} cannot be read whole: {error}")


def _rest(low: int, high: int, key: Value, order: str) -> tuple[int, int]:
    """Return the keys that are left once *key* was read; a damaged one is no guide."""
    if isinstance(key, int) and low <= key <= high:
        return (key + 1, high) if order == "ASC" else (low, key - 1)
    return low, high


def _fits(name: str, value: Value) -> bool:
    """Tell whether *value* may stand in the column *name*."""
    if name == "body":
        return isinstance(value, bytes)
    if name in _TEXTS:
        return isinstance(value, str)
    return isinstance(value, int) or (name == "checksum" and value is None)
