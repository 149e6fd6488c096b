"""The reader of a PostgreSQL store, which needs only the right to read."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from toolbus.errors import ClosedError, StoreError
from toolbus.store.postgres.addresses import DatabaseAddress, parse_address
from toolbus.store.postgres.connection import PostgresLink, Watchdog
from toolbus.store.postgres.postgres_errors import wrap_errors
from toolbus.store.postgres.tables import VERSION, read_version
from toolbus.store.postgres.text_ids import indexed, unescape
from toolbus.store.sql_reader import SqlReader, SqlStatements
from toolbus.store.store_reader import StoreFacts

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

TIMEOUT = 10.0
"""Seconds that a store waits for its server by default."""

_TABLES = (
    *("messages", "calls", "ledger", "mentions", "originals", "states", "links", "forgotten"),
    *("commits", "batches"),
)

# Bodies are read as bytes, for their checksum. No EXISTS: for it the server may read all originals.
_SESSION = """SELECT key, coalesce(long_id, id), messages, records, created_ns, updated_ns,
    (SELECT true FROM toolbus.originals WHERE session = sessions.key LIMIT 1) IS NOT NULL
    FROM toolbus.sessions"""
_MESSAGE = """SELECT one.key, one.session, one.seq, one.id,
    one.version, convert_to(one.body, 'UTF8'), one.checksum FROM toolbus.messages AS one"""
_PAGE = """SELECT page.session, page.place, page.seq, page.key > 0,
    page.version, convert_to(page.body, 'UTF8'), page.checksum FROM toolbus.ledger AS page"""


def _of_call(condition: str, order: str) -> str:
    """Return the statement that finds messages by the index of calls."""
    hits = f"""SELECT session, seq, key FROM toolbus.calls
        WHERE id = %s AND session = coalesce(%s, session) AND {condition}
        ORDER BY id {order}, key {order} LIMIT %s"""
    return f"""{_MESSAGE} JOIN ({hits}) AS call
        ON one.session = call.session AND one.seq = call.seq ORDER BY call.key {order}"""


def _pages_of(condition: str) -> str:
    """Return the statement that finds record batches by the index of mentions."""
    hits = f"""SELECT session, place, seq, key FROM toolbus.mentions
        WHERE id = %s AND {condition} ORDER BY id, key LIMIT %s"""
    return f"""{_PAGE} JOIN ({hits}) AS one ON page.session = one.session
        AND page.place = one.place AND page.seq = one.seq ORDER BY one.key"""


STATEMENTS = SqlStatements(
    # Each writing transaction changes the current snapshot.
    changes="SELECT hashtextextended(pg_current_snapshot()::text, 0)",
    session=f"{_SESSION} WHERE id = %s AND key IS NOT NULL",
    session_of_key=f"{_SESSION} WHERE key = %s",
    lease="""SELECT process, until_ns - (extract(epoch FROM clock_timestamp()) * 1e9)::bigint
        FROM toolbus.sessions WHERE id = %s""",
    sessions_after=f"{_SESSION} WHERE key > %s ORDER BY key LIMIT %s",
    recent_sessions=f"""{_SESSION} WHERE key IS NOT NULL AND (messages > 0 OR records > 0)
        ORDER BY updated_ns DESC, key DESC LIMIT %s OFFSET %s""",
    ids_from={
        "session": """SELECT coalesce(long_id, id) FROM toolbus.sessions
            WHERE id >= %s AND key IS NOT NULL ORDER BY id LIMIT %s""",
        "message": "SELECT DISTINCT id FROM toolbus.messages WHERE id >= %s ORDER BY id LIMIT %s",
        "call": "SELECT DISTINCT id FROM toolbus.calls WHERE id >= %s ORDER BY id LIMIT %s",
    },
    ids_before={
        "session": """SELECT coalesce(long_id, id) FROM toolbus.sessions
            WHERE id < %s AND key IS NOT NULL ORDER BY id DESC LIMIT %s""",
        "message": """SELECT DISTINCT id FROM toolbus.messages
            WHERE id < %s ORDER BY id DESC LIMIT %s""",
        "call": "SELECT DISTINCT id FROM toolbus.calls WHERE id < %s ORDER BY id DESC LIMIT %s",
    },
    mentions_from="SELECT DISTINCT id FROM toolbus.mentions WHERE id >= %s ORDER BY id LIMIT %s",
    messages_after=f"{_MESSAGE} WHERE one.session = %s AND one.seq > %s ORDER BY one.seq LIMIT %s",
    messages_of_id=f"""{_MESSAGE} WHERE one.id = %s AND one.session = coalesce(%s, one.session)
        ORDER BY one.key LIMIT %s""",
    of_call_before=_of_call("key < %s", "DESC"),
    of_call_after=_of_call("key > %s", ""),
    batches_after=f"""{_PAGE} WHERE page.session = %s AND page.place <= %s
        AND (page.place, page.seq) > (%s, %s) ORDER BY page.place, page.seq LIMIT %s""",
    batches_of_id=_pages_of("key > %s"),
    # The newest ones have the lowest keys.
    unattached_of_id=_pages_of("key < 0"),
    original="SELECT body FROM toolbus.originals WHERE session = %s AND digest = %s",
    originals_after="""SELECT body, digest FROM toolbus.originals
        WHERE session = %s AND digest > %s ORDER BY digest LIMIT %s""",
    state="""SELECT version, body, checksum FROM toolbus.states
        WHERE session = (SELECT key FROM toolbus.sessions WHERE id = %s) AND name = %s""",
    state_names="SELECT name FROM toolbus.states WHERE session = %s ORDER BY name",
    state_of_key="""SELECT version, body, checksum FROM toolbus.states
        WHERE session = %s AND name = %s""",
    states_from="""SELECT one.name, one.session, coalesce(sessions.long_id, sessions.id),
        one.version, one.body, one.checksum
        FROM (SELECT * FROM toolbus.states AS each WHERE (each.name, each.session) > (%s, %s)
            ORDER BY each.name, each.session LIMIT %s) AS one
        LEFT JOIN toolbus.sessions ON sessions.key = one.session ORDER BY one.name, one.session""",
)

_FACTS = """SELECT (SELECT version FROM toolbus.meta),
    (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
        WHERE relnamespace = 'toolbus'::regnamespace AND relkind IN ('r', 'm', 'S'))"""
_INVALID = """SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid
    WHERE relnamespace = 'toolbus'::regnamespace AND NOT indisvalid AND relkind = 'i'"""
_MISSING = """SELECT wanted FROM unnest(%s::text[]) AS wanted
    WHERE to_regclass('toolbus.' || wanted) IS NULL"""


class PostgresReader(SqlReader):
    """A reader of the store at *address*; *timeout* is in seconds.

    Raises `StoreError` for a database that is not a store. With the *watchdog* of a store of this
    process, which has checked the database already, it connects at its first use.
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
        super().__init__(address.label, STATEMENTS, indexed, unescape)
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
            reason = f"version {version} is older than {VERSION}; open it once for writing"
            raise StoreError(where, reason)

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._link.drop()
        if self._watchdog:
            self._watchdog.close()

    def snapshot(self) -> AbstractContextManager[None]:
        """Return an empty context: each statement is a transaction with a time limit of its own."""
        return nullcontext()

    def facts(self) -> StoreFacts:
        """Return the version and size of the schema, and its missing or invalid parts."""
        ((version, size),) = self.rows(_FACTS)
        problems = [f"index {name} is not valid" for (name,) in self.rows(_INVALID)]
        missing = self.rows(_MISSING, list(_TABLES))
        problems += [f"table {name} is missing" for (name,) in missing]
        return StoreFacts(version, int(size or 0), tuple(problems))

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of *statement*; raises `StoreError`."""
        if self._closed:
            raise ClosedError(f"store {self._where!r}")
        return self._link.rows(statement, *values)
