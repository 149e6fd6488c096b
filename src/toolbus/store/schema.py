"""The tables of an SQLite store file, and the statements that fill and read them."""

from __future__ import annotations

APPLICATION_ID = int.from_bytes(b"tbus", "big")
"""What the header of every store file says, as `file` and other programs read it."""

VERSION = 2
"""The version of the tables, in the file's `user_version`."""

ENCODING = 1
"""The version of a row's body, beside it in the row."""

# Column types are loose and no statement needs an SQLite younger than 3.24, so the one that an
# old Linux brings will do. Messages are rows with a rowid, since their bodies may be large.
# A `checksum` is the CRC-32 of the body, since SQLite has none on its pages: a letter that changed
# inside a text would be read as if it had always stood there.
TABLES = (
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        messages INTEGER NOT NULL,
        records INTEGER NOT NULL,
        created_ns INTEGER NOT NULL,
        updated_ns INTEGER NOT NULL
    )""",
    """CREATE TABLE messages (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        seq INTEGER NOT NULL,
        id TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER,
        UNIQUE (session, seq)
    )""",
    "CREATE INDEX messages_by_id ON messages (id)",
    # Which messages speak of a call: the assistant's that asked, the tool's that answered.
    """CREATE TABLE calls (
        id TEXT NOT NULL,
        message INTEGER NOT NULL REFERENCES messages (key),
        PRIMARY KEY (id, message)
    ) WITHOUT ROWID""",
    # `message` is the one that was written in the same transaction.
    """CREATE TABLE records (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        seq INTEGER NOT NULL,
        message INTEGER REFERENCES messages (key),
        subject TEXT NOT NULL,
        call_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER,
        UNIQUE (session, seq)
    )""",
    "CREATE INDEX records_by_message ON records (message) WHERE message IS NOT NULL",
    "CREATE INDEX records_by_subject ON records (subject) WHERE subject <> ''",
    "CREATE INDEX records_by_call ON records (call_id) WHERE call_id <> ''",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

_UPGRADES = {
    1: (
        "ALTER TABLE messages ADD COLUMN checksum INTEGER",
        "ALTER TABLE records ADD COLUMN checksum INTEGER",
        "PRAGMA user_version = 2",
    ),
}

_DISGUISES = {
    1: (
        "CREATE TEMP VIEW messages AS SELECT *, NULL AS checksum FROM main.messages",
        "CREATE TEMP VIEW records AS SELECT *, NULL AS checksum FROM main.records",
    ),
}


def upgrades(version: int) -> tuple[str, ...]:
    """Return what turns a file of *version* into one of ours; its rows stay as they are."""
    return tuple([one for step in range(version, VERSION) for one in _UPGRADES[step]])


def disguises(version: int) -> tuple[str, ...]:
    """Return what makes a file of *version* read like one of ours, without a write to it."""
    return tuple([one for step in range(version, VERSION) for one in _DISGUISES[step]])


COUNT_UP = """INSERT INTO sessions (id, messages, records, created_ns, updated_ns)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        messages = messages + excluded.messages,
        records = records + excluded.records,
        updated_ns = max(updated_ns, excluded.updated_ns)"""
COUNTED = "SELECT key, messages, records FROM sessions WHERE id = ?"
ADD_MESSAGE = """INSERT INTO messages (session, seq, id, version, body, checksum)
    VALUES (?, ?, ?, ?, ?, ?)"""
ADD_CALL = "INSERT OR IGNORE INTO calls (id, message) VALUES (?, ?)"
ADD_RECORD = """INSERT INTO records (
        session, seq, message, subject, call_id, version, body, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

# Bodies are read as the bytes that they are, so that damaged text reaches the decoder.
MESSAGES = """SELECT seq, version, CAST(body AS BLOB), checksum FROM messages
    WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY seq"""
RECORDS = """SELECT seq, version, CAST(body AS BLOB), checksum FROM records
    WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY seq"""
SESSIONS = "SELECT id, messages, created_ns, updated_ns FROM sessions ORDER BY key"
# A portion at a time, for readers that must not hold a session whole.
PORTIONS = {
    table: f"""SELECT seq, version, CAST(body AS BLOB), checksum FROM {table}
    WHERE session = (SELECT key FROM sessions WHERE id = ?) AND seq > ? ORDER BY seq LIMIT ?"""  # noqa: S608 - our own names
    for table in ("messages", "records")
}
