"""The tables of an SQLite store file, and the statements that fill and read them."""

from __future__ import annotations

APPLICATION_ID = int.from_bytes(b"tbus", "big")
"""What the header of every store file says, as `file` and other programs read it."""

VERSION = 2
"""The version of the tables, in the file's `user_version`; `upgrades` tells of earlier ones."""

ENCODING = 1
"""The version of each row's encoding."""

# A page holds the records of one append as an array. Its key is that of the message that was
# written with them, so that the ledger takes no index of its own; without one, at the end of a
# run, it is a negative number. The page came before the message number `place` of its session,
# also if that is still to come; `seq` is the number of its first record.
RECORDS_TABLE = """TABLE records (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        place INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL
    )"""
# Which pages speak of an id, besides that of the message that has it: of calls that have no
# message of their own, and of messages that were refused.
MENTIONS_TABLE = """TABLE mentions (
        id TEXT NOT NULL,
        page INTEGER NOT NULL,
        PRIMARY KEY (id, page)
    ) WITHOUT ROWID"""
# What sessions that opted in keep of values, as JSON. Nothing refers to it.
ORIGINALS_TABLE = """TABLE originals (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        digest TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (session, digest)
    )"""
LEFTOVERS_INDEX = "INDEX leftovers ON records (session, place, seq) WHERE key < 0"

# Column types are loose and no statement needs an SQLite younger than 3.24, so the one that an
# old Linux brings will do. Messages are rows with a rowid, since their bodies may be large.
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
        UNIQUE (session, seq)
    )""",
    "CREATE INDEX messages_by_id ON messages (id)",
    # Which messages speak of a call: the assistant's that asked, the tool's that answered.
    """CREATE TABLE calls (
        id TEXT NOT NULL,
        message INTEGER NOT NULL REFERENCES messages (key),
        PRIMARY KEY (id, message)
    ) WITHOUT ROWID""",
    f"CREATE {RECORDS_TABLE}",
    f"CREATE {LEFTOVERS_INDEX}",
    f"CREATE {MENTIONS_TABLE}",
    f"CREATE {ORIGINALS_TABLE}",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)


COUNT_UP = """INSERT INTO sessions (id, messages, records, created_ns, updated_ns)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        messages = messages + excluded.messages,
        records = records + excluded.records,
        updated_ns = max(updated_ns, excluded.updated_ns)"""
COUNTED = "SELECT key, messages, records FROM sessions WHERE id = ?"
ADD_MESSAGE = "INSERT INTO messages (session, seq, id, version, body) VALUES (?, ?, ?, ?, ?)"
ADD_CALL = "INSERT OR IGNORE INTO calls (id, message) VALUES (?, ?)"
ADD_PAGE = """INSERT INTO records (key, session, place, seq, version, body)
    VALUES (coalesce(?, min(0, (SELECT min(key) FROM records)) - 1, -1), ?, ?, ?, ?, ?)"""
ADD_MENTION = "INSERT OR IGNORE INTO mentions (id, page) VALUES (?, ?)"
ADD_ORIGINAL = "INSERT OR IGNORE INTO originals (session, digest, body) VALUES (?, ?, ?)"
FORGET = "DELETE FROM originals WHERE session = (SELECT key FROM sessions WHERE id = ?)"

# Bodies are read as the bytes that they are, so that damaged text reaches the decoder.
MESSAGES = """SELECT seq, version, CAST(body AS BLOB) FROM messages
    WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY seq"""
RECORDS = """SELECT page.seq, page.version, CAST(page.body AS BLOB)
    FROM messages JOIN records AS page ON page.key = messages.key
    WHERE messages.session = (SELECT key FROM sessions WHERE id = ?) ORDER BY messages.seq"""
LEFTOVERS = """SELECT seq, version, CAST(body AS BLOB) FROM records
    WHERE key < 0 AND session = (SELECT key FROM sessions WHERE id = ?) ORDER BY place, seq"""
SESSIONS = "SELECT id, messages, created_ns, updated_ns FROM sessions ORDER BY key"
ORIGINALS = """SELECT digest, CAST(body AS BLOB) FROM originals
    WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY key"""
