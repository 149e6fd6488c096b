"""The chained records of a store as rows: their labels, commitments and links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.store.chain import LINK, QUESTION_NAMES, SALT, commitment
from toolbus.store.sqlite.sqlite_reader import SqliteReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.sql_reader import SqlReader

# The words in braces differ between the databases. A damaged file may have texts for bytes.
_ROW = "SELECT id, {chain} FROM {toolbus}sessions WHERE key = {value}"
_CHAINS = """SELECT {chain}, coalesce(messages + records, 0) FROM {toolbus}sessions
    WHERE chain IS NOT NULL ORDER BY key"""
_FORGOTTEN = "SELECT {chain}, forgotten_ns FROM {toolbus}forgotten ORDER BY forgotten_ns"
_MESSAGES = """SELECT seq, id, version, {text}, {seal} FROM {toolbus}messages
    WHERE session = {value} AND seq > {value} ORDER BY seq LIMIT {value}"""
# The place is there twice, since SQLite finds rows by an index for a single column only.
_BATCHES = """SELECT place, place, seq, records, version, {text}, {seal} FROM {ledger}
    WHERE session = {value} AND place >= {value} AND (place, seq) > ({value}, {value})
    ORDER BY place, seq LIMIT {value}"""
_LINKS = """SELECT n, name, {seal} FROM {toolbus}links
    WHERE session = {value} AND n > {value} ORDER BY n LIMIT {value}"""
# A range of names, in the order of bytes: all that begin with a prefix.
_RANGES = [f"(name >= '{prefix}' AND name < '{prefix[:-1]};')" for prefix in QUESTION_NAMES]
_QUESTIONS = f"""SELECT name, {{bytes}}, {{salt}} FROM {{toolbus}}states
    WHERE session = {{value}} AND ({" OR ".join(_RANGES)})"""

_ORPHANS = " UNION ".join(
    [
        f"""SELECT session FROM {{toolbus}}{table} WHERE session NOT IN
            (SELECT key FROM {{toolbus}}sessions WHERE key IS NOT NULL)"""
        for table in ("messages", "ledger", "links", "states")
    ]
)
_FIRST = -(2**63)
"""The least number of a row: records before number 1 are found, too."""

_HAS_COLUMN = "SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'chain'"

_BYTES = {"chain": "chain", "seal": "seal", "salt": "salt", "bytes": "body"}
_POSTGRES = {
    **_BYTES,
    "toolbus": "toolbus.",
    "value": "%s",
    "text": "convert_to(body, 'UTF8')",
    "ledger": "toolbus.ledger",
}
_SQLITE = {
    **{word: f"CAST({column} AS BLOB)" for word, column in _BYTES.items()},
    "toolbus": "",
    "value": "?",
    "text": "CAST(body AS BLOB)",
    # The place of a batch is that of its message, as readers have it.
    "ledger": """(SELECT messages.session, messages.seq AS place, page.seq, page.records,
            page.version, page.body, page.seal
        FROM messages CROSS JOIN ledger AS page ON page.key = messages.key
        UNION ALL SELECT session, place, seq, records, version, body, seal
        FROM ledger WHERE key < 0)""",
}


class ChainRow(NamedTuple):
    """A chained record: *size* numbers from *number* on; without *link* of an older toolbus.

    *committed* is the commitment to the body as it is now.
    """

    number: int
    size: int
    label: str
    committed: bytes = b""
    link: bytes = b""


def has_chains(reader: SqlReader) -> bool:
    """Return whether the store has chains: not a file that only an older toolbus has written."""
    return not may_be_damaged(reader) or reader.rows(_HAS_COLUMN) == [(1,)]


def may_be_damaged(reader: SqlReader) -> bool:
    """Return whether rows may have values of other types, as in a file."""
    return isinstance(reader, SqliteReader)


def read_row(reader: SqlReader, session: int) -> tuple[str, bytes | None]:
    """Return the id and the chains in the row of a session, None without chains."""
    rows = reader.rows(_in_dialect(reader, _ROW), session)
    return rows[0] if rows else ("", None)


def read_chains(reader: SqlReader) -> list[Any]:
    """Return the chains in the rows of sessions, without their records."""
    return reader.rows(_in_dialect(reader, _CHAINS)) if has_chains(reader) else []


def read_forgotten(reader: SqlReader) -> list[Any]:
    """Return the chains of deleted sessions, each with the time of the deletion."""
    return reader.rows(_in_dialect(reader, _FORGOTTEN)) if has_chains(reader) else []


def read_orphans(reader: SqlReader) -> list[Any]:
    """Return the numbers of sessions that have rows but are missing in the table of sessions."""
    return reader.rows(_in_dialect(reader, _ORPHANS)) if has_chains(reader) else []


def read_messages(reader: SqlReader, session: int) -> Iterator[ChainRow]:
    """Yield the messages of a session in order."""
    rows = reader.batched_rows(_in_dialect(reader, _MESSAGES), (session,), (_FIRST,), slice(1))
    for seq, name, version, body, seal in rows:
        yield _row(seq, 1, f"{seq}:{version}:{name}", body, seal)


def read_batches(reader: SqlReader, session: int) -> Iterator[ChainRow]:
    """Yield the batches of a session's ledger in the order of writing."""
    rows = reader.batched_rows(_in_dialect(reader, _BATCHES), (session,), (_FIRST,) * 3, slice(3))
    for place, _, seq, size, version, body, seal in rows:
        yield _row(seq, size, f"{place}:{seq}:{size}:{version}", body, seal)


def _row(number: int, size: int, label: str, body: bytes, seal: bytes | None) -> ChainRow:
    if seal is None:
        return ChainRow(number, size, label)
    return ChainRow(number, size, label, commitment(seal[:SALT], body or b""), seal[SALT:])


def read_writes(reader: SqlReader, session: int) -> Iterator[tuple[str, ChainRow]]:
    """Yield the writes of a session's questions in order, each with the name of its state."""
    rows = reader.batched_rows(_in_dialect(reader, _LINKS), (session,), (_FIRST,), slice(1))
    for number, name, seal in rows:
        yield name, ChainRow(number, 1, f"{number}:{name}", seal[:LINK], seal[LINK:])


def read_questions(reader: SqlReader, session: int) -> dict[str, bytes]:
    """Return the commitments to a session's questions by name, b"" for an older toolbus's."""
    rows = reader.rows(_in_dialect(reader, _QUESTIONS), session)
    return {name: commitment(salt, body or b"") if salt else b"" for name, body, salt in rows}


def _in_dialect(reader: SqlReader, statement: str) -> str:
    return statement.format_map(_SQLITE if isinstance(reader, SqliteReader) else _POSTGRES)
