"""The reader of a store's SQLite file, which changes no byte of it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolbus.store.sql_reader import SqlReader, SqlStatements
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.files import (
    ChangeDetector,
    check_contents,
    checked_path,
    connect,
    integrity_problems,
    quiet_mode,
    read_header,
    reading_mode,
)
from toolbus.store.sqlite.sqlite_errors import wrap_errors
from toolbus.store.store_reader import StoreFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.sqlite.files import Mode

_SESSION = """SELECT key, id, messages, records, created_ns, updated_ns,
    EXISTS (SELECT 1 FROM originals WHERE session = sessions.key) FROM sessions"""
_MESSAGE = """SELECT one.key, one.session, one.seq, one.id,
    one.version, CAST(one.body AS BLOB), one.checksum FROM messages AS one"""
# Some models reuse the ids of calls.
_OF_CALL = f"""{_MESSAGE} JOIN calls ON calls.message = one.key
    WHERE calls.id = ? AND one.session = coalesce(?, one.session)"""
_PAGE = """SELECT page.session, page.place, page.seq, page.key > 0,
    page.version, CAST(page.body AS BLOB), page.checksum FROM ledger AS page"""
# A row of the ledger without a message has an index; any other is found by its message's key.
_PAGE_OF_MESSAGE = """SELECT page.session, messages.seq AS place, page.seq, true,
    page.version, CAST(page.body AS BLOB), page.checksum
    FROM messages CROSS JOIN ledger AS page ON page.key = messages.key"""
_PAGE_OF_ID = f"{_PAGE} JOIN mentions ON mentions.page = page.key WHERE mentions.id = ?"

STATEMENTS = SqlStatements(
    changes="PRAGMA data_version",
    session=f"{_SESSION} WHERE id = ?",
    session_of_key=f"{_SESSION} WHERE key = ?",
    # The clock of SQLite counts days, in milliseconds.
    lease="""SELECT process, until_ns - (julianday('now') - 2440587.5) * 864e11
        FROM writers WHERE session = ?""",
    sessions_after=f"{_SESSION} WHERE key > ? ORDER BY key LIMIT ?",
    recent_sessions=f"""{_SESSION} WHERE messages > 0 OR records > 0
        ORDER BY updated_ns DESC, key DESC LIMIT ? OFFSET ?""",
    ids_from={
        "session": "SELECT id FROM sessions WHERE id >= ? ORDER BY id LIMIT ?",
        "message": "SELECT DISTINCT id FROM messages WHERE id >= ? ORDER BY id LIMIT ?",
        "call": "SELECT DISTINCT id FROM calls WHERE id >= ? ORDER BY id LIMIT ?",
    },
    ids_before={
        "session": "SELECT id FROM sessions WHERE id < ? ORDER BY id DESC LIMIT ?",
        "message": "SELECT DISTINCT id FROM messages WHERE id < ? ORDER BY id DESC LIMIT ?",
        "call": "SELECT DISTINCT id FROM calls WHERE id < ? ORDER BY id DESC LIMIT ?",
    },
    mentions_from="SELECT DISTINCT id FROM mentions WHERE id >= ? ORDER BY id LIMIT ?",
    messages_after=f"{_MESSAGE} WHERE one.session = ? AND one.seq > ? ORDER BY one.seq LIMIT ?",
    messages_of_id=f"""{_MESSAGE} WHERE one.id = ? AND one.session = coalesce(?, one.session)
        ORDER BY one.key LIMIT ?""",
    of_call_before=f"{_OF_CALL} AND calls.message < ? ORDER BY calls.message DESC LIMIT ?",
    of_call_after=f"{_OF_CALL} AND calls.message > ? ORDER BY calls.message LIMIT ?",
    batches_after=f"""{_PAGE_OF_MESSAGE} WHERE messages.session = ?1 AND messages.seq <= ?2
            AND messages.seq >= ?3 AND (messages.seq, page.seq) > (?3, ?4)
        UNION ALL {_PAGE} WHERE page.key < 0 AND page.session = ?1 AND page.place <= ?2
            AND page.place >= ?3 AND (page.place, page.seq) > (?3, ?4)
        ORDER BY 2, 3 LIMIT ?5""",
    batches_of_id=f"{_PAGE_OF_ID} AND mentions.page > ? ORDER BY mentions.page LIMIT ?",
    # The newest ones have the lowest keys.
    unattached_of_id=f"{_PAGE_OF_ID} AND mentions.page < 0 ORDER BY mentions.page LIMIT ?",
    original="SELECT CAST(body AS BLOB) FROM originals WHERE session = ? AND digest = ?",
    originals_after="""SELECT CAST(body AS BLOB), digest FROM originals
        WHERE session = ? AND digest > ? ORDER BY digest LIMIT ?""",
    state="""SELECT version, CAST(body AS BLOB), checksum FROM states
        WHERE session = (SELECT key FROM sessions WHERE id = ?) AND name = ?""",
    state_names="SELECT name FROM states WHERE session = ? ORDER BY name",
    state_of_key="""SELECT version, CAST(body AS BLOB), checksum FROM states
        WHERE session = ? AND name = ?""",
    states_from="""SELECT one.name, one.session, sessions.id,
        one.version, CAST(one.body AS BLOB), one.checksum
        FROM states AS one CROSS JOIN sessions ON sessions.key = one.session
        WHERE (one.name, one.session) > (?, ?) ORDER BY one.name, one.session LIMIT ?""",
)


class SqliteReader(SqlReader):
    """A reader of the SQLite store *path*, which changes no byte of it.

    With *live* another process may write meanwhile. *opened_as* is the mode of this process's
    store, if it has the file open. Raises `StoreError` for a file that is not a store.
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
            mode = opened_as or (reading_mode(file) if live else quiet_mode(file))
            is_still = mode in {"still", "copied"}
            self._detector = ChangeDetector(self._where, file) if is_still else None
            self._connection = connect(file, timeout, mode)
            if version < schema.WITH_STATES:
                self._connection.execute(schema.NO_STATES)
            self._connection.execute("PRAGMA query_only = ON")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Return a context with a consistent snapshot, regardless of concurrent writes."""
        with wrap_errors(self._where):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def facts(self) -> StoreFacts:
        """Return the version and size of the file, and the problems that SQLite finds."""
        with wrap_errors(self._where):
            version = read_header(self._connection).version
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (page_size,) = self._connection.execute("PRAGMA page_size").fetchone()
            problems = tuple(integrity_problems(self._connection))
        return StoreFacts(version, pages * page_size, problems)

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of *statement*; raises `StoreError`."""
        with wrap_errors(self._where):
            rows = self._connection.execute(statement, values).fetchall()
            if self._detector:
                self._detector.check()
            return rows
