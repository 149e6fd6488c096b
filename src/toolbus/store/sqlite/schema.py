"""The tables of an SQLite store file, and the statements that fill and read them."""

from __future__ import annotations

APPLICATION_ID = int.from_bytes(b"tbus", "big")
"""What the header of every store file says, as `file` and other programs read it."""

VERSION = 6
"""The version of the tables, in the file's `user_version`."""

OLDEST = 3
"""The version of the tables that toolbus 0.1.0, the first release, wrote."""

# What is missing in an older file is made: since 0.1.0 only tables and indexes were added.
# Column types are loose and no statement needs an SQLite younger than 3.24, so the one that an
# old Linux brings will do. Messages are rows with a rowid, since their bodies may be large.
# A `checksum` is the CRC-32 of the body, since SQLite has none on its pages: a letter that changed
# inside a text would be read as if it had always stood there.
TABLES = (
    """CREATE TABLE IF NOT EXISTS sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        messages INTEGER NOT NULL,
        records INTEGER NOT NULL,
        created_ns INTEGER NOT NULL,
        updated_ns INTEGER NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS messages (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        seq INTEGER NOT NULL,
        id TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER,
        UNIQUE (session, seq)
    )""",
    "CREATE INDEX IF NOT EXISTS messages_by_id ON messages (id)",
    # Which messages speak of a call: the assistant's that asked, the tool's that answered.
    """CREATE TABLE IF NOT EXISTS calls (
        id TEXT NOT NULL,
        message INTEGER NOT NULL REFERENCES messages (key),
        PRIMARY KEY (id, message)
    ) WITHOUT ROWID""",
    # A page holds the records of one append as an array. Its key is that of the message that was
    # written with them, so that the ledger takes no index of its own; without one, at the end of a
    # run, it is a negative number. The page came before the message number `place` of its session,
    # also if that is still to come; `seq` is the number of its first record of `records`.
    """CREATE TABLE IF NOT EXISTS ledger (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        place INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        records INTEGER NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER
    )""",
    "CREATE INDEX IF NOT EXISTS leftovers ON ledger (session, place, seq) WHERE key < 0",
    # Which pages speak of an id, besides that of the message that has it: of calls that have no
    # message of their own, and of messages that were refused.
    """CREATE TABLE IF NOT EXISTS mentions (
        id TEXT NOT NULL,
        page INTEGER NOT NULL REFERENCES ledger (key),
        PRIMARY KEY (id, page)
    ) WITHOUT ROWID""",
    # What sessions that opted in keep of values, as JSON. Nothing refers to it.
    """CREATE TABLE IF NOT EXISTS originals (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        digest TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (session, digest)
    )""",
    # The writer of each session, by the id: a session is opened before it has a message.
    """CREATE TABLE IF NOT EXISTS writers (
        session TEXT PRIMARY KEY,
        epoch INTEGER NOT NULL,
        holder TEXT NOT NULL,
        process TEXT NOT NULL,
        until_ns INTEGER NOT NULL
    ) WITHOUT ROWID""",
    # What components keep for a session, as JSON; each by the name of its own.
    """CREATE TABLE IF NOT EXISTS states (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER,
        UNIQUE (session, name)
    )""",
    "CREATE INDEX IF NOT EXISTS states_by_name ON states (name, session)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

WITH_STATES = 5
"""The first version of the tables in which components kept anything."""

NO_STATES = "CREATE TEMP TABLE states (key, session, name, version, body, checksum)"
"""The table, in memory, that a reader puts beside the tables of an older file."""

COUNT_UP = """INSERT INTO sessions (id, messages, records, created_ns, updated_ns)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        messages = messages + excluded.messages,
        records = records + excluded.records,
        updated_ns = max(updated_ns, excluded.updated_ns)"""
COUNTED = "SELECT key, messages, records FROM sessions WHERE id = ?"
ADD_MESSAGE = """INSERT INTO messages (session, seq, id, version, body, checksum)
    VALUES (?, ?, ?, ?, ?, ?)"""
HAS_MESSAGE = """SELECT 1 FROM messages AS one WHERE one.id = ?2
    AND +one.session = (SELECT key FROM sessions WHERE id = ?1)"""
ADD_CALL = "INSERT OR IGNORE INTO calls (id, message) VALUES (?, ?)"
ADD_BATCH = """INSERT INTO ledger (key, session, place, seq, records, version, body, checksum)
    VALUES (coalesce(?, min(0, (SELECT min(key) FROM ledger)) - 1, -1), ?, ?, ?, ?, ?, ?, ?)"""
ADD_MENTION = "INSERT OR IGNORE INTO mentions (id, page) VALUES (?, ?)"
ADD_ORIGINAL = "INSERT OR IGNORE INTO originals (session, digest, body) VALUES (?, ?, ?)"
LEASE = "SELECT epoch, holder, process, until_ns FROM writers WHERE session = ?"
TAKE = "INSERT OR REPLACE INTO writers VALUES (?, ?, ?, ?, ?)"
EXTEND = "UPDATE writers SET until_ns = ? WHERE session = ? AND holder = ?"
FORGET = {
    "originals": "DELETE FROM originals WHERE session = (SELECT key FROM sessions WHERE id = ?)",
    "states": "DELETE FROM states WHERE session = (SELECT key FROM sessions WHERE id = ?)",
}
SET_STATE = """INSERT INTO states (session, name, version, body, checksum)
    VALUES ((SELECT key FROM sessions WHERE id = ?), ?, ?, ?, ?)
    ON CONFLICT (session, name) DO UPDATE SET
        version = excluded.version, body = excluded.body, checksum = excluded.checksum"""
DROP_STATE = """DELETE FROM states
    WHERE session = (SELECT key FROM sessions WHERE id = ?) AND name = ?"""
