"""The tables of an SQLite store file, and the statements that fill and read them."""

from __future__ import annotations

APPLICATION_ID = int.from_bytes(b"tbus", "big")
"""The application id in the header of every store file, which `file` and other programs read."""

VERSION = 7
"""The version of the tables, in the file's `user_version`."""

OLDEST = 3
"""The version of the tables that toolbus 0.1.0, the first release, wrote."""

# Missing parts of an older file are created: since 0.1.0 tables, indexes and columns were added.
# Column types are loose and no statement needs an SQLite newer than 3.24, so the SQLite of an old
# Linux suffices. Messages are rows with a rowid, since their bodies may be large. A `checksum` is
# the CRC-32 of the body, since SQLite's pages have none: a changed character inside a text would
# otherwise go unnoticed.
TABLES = (
    """CREATE TABLE IF NOT EXISTS sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        messages INTEGER NOT NULL,
        records INTEGER NOT NULL,
        created_ns INTEGER NOT NULL,
        updated_ns INTEGER NOT NULL,
        chain BLOB
    )""",
    """CREATE TABLE IF NOT EXISTS messages (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        seq INTEGER NOT NULL,
        id TEXT NOT NULL,
        version INTEGER NOT NULL,
        seal BLOB,
        body TEXT NOT NULL,
        checksum INTEGER,
        UNIQUE (session, seq)
    )""",
    "CREATE INDEX IF NOT EXISTS messages_by_id ON messages (id)",
    # The messages about a call: the assistant's request and the tool's answer.
    """CREATE TABLE IF NOT EXISTS calls (
        id TEXT NOT NULL,
        message INTEGER NOT NULL REFERENCES messages (key),
        PRIMARY KEY (id, message)
    ) WITHOUT ROWID""",
    # A row has the records of one append as an array. Its key is the key of the message that was
    # written with them, so that the ledger needs no index of its own; without a message, as at the
    # end of a run, it is a negative number. `place` is the number of that message, or of the next
    # one, which may not exist yet; `seq` is the number of the first of its `records`.
    """CREATE TABLE IF NOT EXISTS ledger (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        place INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        records INTEGER NOT NULL,
        version INTEGER NOT NULL,
        seal BLOB,
        body TEXT NOT NULL,
        checksum INTEGER
    )""",
    "CREATE INDEX IF NOT EXISTS leftovers ON ledger (session, place, seq) WHERE key < 0",
    # The rows of the ledger that mention an id, except those of the message with the id: ids of
    # calls without a message of their own, and of refused messages.
    """CREATE TABLE IF NOT EXISTS mentions (
        id TEXT NOT NULL,
        page INTEGER NOT NULL REFERENCES ledger (key),
        PRIMARY KEY (id, page)
    ) WITHOUT ROWID""",
    # The original values, as JSON, of sessions that opted in. No row refers to them.
    """CREATE TABLE IF NOT EXISTS originals (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        digest TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (session, digest)
    )""",
    # The writer of each session, by id: a session is opened before it has a message.
    """CREATE TABLE IF NOT EXISTS writers (
        session TEXT PRIMARY KEY,
        epoch INTEGER NOT NULL,
        holder TEXT NOT NULL,
        process TEXT NOT NULL,
        until_ns INTEGER NOT NULL
    ) WITHOUT ROWID""",
    # The states that components keep for a session, as JSON, by name.
    """CREATE TABLE IF NOT EXISTS states (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        salt BLOB,
        body TEXT NOT NULL,
        checksum INTEGER,
        UNIQUE (session, name)
    )""",
    "CREATE INDEX IF NOT EXISTS states_by_name ON states (name, session)",
    # The chains: see `toolbus.store.chain`. The link of a deleted state is kept.
    """CREATE TABLE IF NOT EXISTS links (
        session INTEGER NOT NULL REFERENCES sessions (key),
        n INTEGER NOT NULL,
        name TEXT NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (session, n)
    ) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS forgotten (chain BLOB NOT NULL, forgotten_ns INTEGER NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

ADDED = (("sessions", "chain"), ("messages", "seal"), ("ledger", "seal"), ("states", "salt"))
"""The columns, of bytes, that tables of an older version lack."""

WITH_STATES = 5
"""The first version of the tables with states of components."""

NO_STATES = "CREATE TEMP TABLE states (key, session, name, version, body, checksum)"
"""The empty table, in memory, that a reader adds to the tables of an older file."""

SESSION = "SELECT key, messages, records, chain FROM sessions WHERE id = ?"
ADD_SESSION = """INSERT INTO sessions (id, messages, records, created_ns, updated_ns)
    VALUES (?, 0, 0, ?, ?)"""
COUNT_UP = """UPDATE sessions SET messages = messages + ?, records = records + ?,
    updated_ns = max(updated_ns, ?), chain = ? WHERE key = ?"""
ADD_LINK = "INSERT INTO links (session, n, name, seal) VALUES (?, ?, ?, ?)"
ADD_MESSAGE = """INSERT INTO messages (session, seq, id, version, body, checksum, seal)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
HAS_MESSAGE = """SELECT 1 FROM messages AS one WHERE one.id = ?2
    AND +one.session = (SELECT key FROM sessions WHERE id = ?1)"""
ADD_CALL = "INSERT OR IGNORE INTO calls (id, message) VALUES (?, ?)"
ADD_BATCH = """INSERT INTO ledger
        (key, session, place, seq, records, version, body, checksum, seal)
    VALUES (coalesce(?, min(0, (SELECT min(key) FROM ledger)) - 1, -1), ?, ?, ?, ?, ?, ?, ?, ?)"""
ADD_MENTION = "INSERT OR IGNORE INTO mentions (id, page) VALUES (?, ?)"
ADD_ORIGINAL = "INSERT OR IGNORE INTO originals (session, digest, body) VALUES (?, ?, ?)"
LEASE = "SELECT epoch, holder, process, until_ns FROM writers WHERE session = ?"
TAKE = "INSERT OR REPLACE INTO writers VALUES (?, ?, ?, ?, ?)"
EXTEND = "UPDATE writers SET until_ns = ? WHERE session = ? AND holder = ?"
FORGET = "DELETE FROM {} WHERE session = (SELECT key FROM sessions WHERE id = ?)"
SET_STATE = """INSERT INTO states (session, name, version, body, checksum, salt)
    VALUES ((SELECT key FROM sessions WHERE id = ?), ?, ?, ?, ?, ?)
    ON CONFLICT (session, name) DO UPDATE SET version = excluded.version, body = excluded.body,
        checksum = excluded.checksum, salt = excluded.salt"""
DROP_STATE = """DELETE FROM states
    WHERE session = (SELECT key FROM sessions WHERE id = ?) AND name = ?"""
