"""What becomes of the files of earlier versions.

Version 1 had a row and four indexes for each ledger record. A file of it is brought up to date
when it is opened for writing; opened for reading it stays as it is, and tables in memory take the
place of those that differ. A program of version 1 refuses a file that was brought up to date.
"""

from __future__ import annotations

from toolbus.store.schema import (
    LEFTOVERS_INDEX,
    MENTIONS_TABLE,
    ORIGINALS_TABLE,
    RECORDS_TABLE,
    VERSION,
)


def upgrade(version: int) -> tuple[str, ...]:
    """Return the statements that bring a file of *version* up to date."""
    if version == VERSION:
        return ()
    return (
        "ALTER TABLE records RENAME TO records_1",
        f"CREATE {RECORDS_TABLE}",
        f"CREATE {LEFTOVERS_INDEX}",
        f"CREATE {MENTIONS_TABLE}",
        f"CREATE {ORIGINALS_TABLE}",
        *_filled("main", "records_1"),
        "DROP TABLE records_1",
        f"PRAGMA user_version = {VERSION}",
    )


def stand_ins(version: int) -> tuple[str, ...]:
    """Return the statements that let a file of *version* be read as one of today."""
    if version == VERSION:
        return ()
    return (
        f"CREATE TEMP {RECORDS_TABLE}",
        # An index finds its table in its own schema.
        f"CREATE {LEFTOVERS_INDEX.replace('leftovers', 'temp.leftovers')}",
        f"CREATE TEMP {MENTIONS_TABLE}",
        f"CREATE TEMP {ORIGINALS_TABLE}",
        *_filled("temp", "main.records"),
    )


_IDS = ("subject", "call_id")


def _filled(schema: str, records: str) -> tuple[str, str]:
    """Return the statements that fill the tables of today from the *records* of version 1."""
    page = "coalesce(message, -key)"
    named = [f"SELECT {one}, {page} FROM {records} WHERE {one} <> ''" for one in _IDS]  # noqa: S608 - our own names
    return (
        # Records without a message came before the one after the last that had one.
        f"""INSERT INTO {schema}.records
            SELECT page, session, place, min(seq), version, '[' || group_concat(body) || ']'
            FROM (SELECT {page} AS page, session, seq, version, body, coalesce(
                (SELECT seq FROM messages WHERE key = one.message),
                (SELECT seq + 1 FROM messages WHERE key = (
                    SELECT message FROM {records} WHERE session = one.session AND seq < one.seq
                    AND message IS NOT NULL ORDER BY seq DESC LIMIT 1)),
                1) AS place
                FROM {records} AS one ORDER BY page, seq)
            GROUP BY page""",  # noqa: S608
        f"INSERT INTO {schema}.mentions {' UNION '.join(named)}",
    )
