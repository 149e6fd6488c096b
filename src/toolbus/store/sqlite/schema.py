"""The tables of an SQLite store file, and the statements that fill and read them."""

from __future__ import annotations

APPLICATION_ID = int.from_bytes(b"tbus", "big")
"""What the header of every store file says, as `file` and other programs read it."""

VERSION = 6
"""The version of the tables, in the file's `user_version`."""

WITHOUT_STATES = 4
"""The last version of the tables in which components kept nothing."""

# A page holds the records of one append as an array. Its key is that of the message that was
# written with them, so that the ledger takes no index of its own; without one, at the end of a
# run, it is a negative number. The page came before the message number `place` of its session,
# also if that is still to come; `seq` is the number of its first record of `records`.
_LEDGER = """TABLE ledger (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        place INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        records INTEGER NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER
    )"""
_LEFTOVERS = "leftovers ON ledger (session, place, seq) WHERE key < 0"
# Which pages speak of an id, besides that of the message that has it: of calls that have no
# message of their own, and of messages that were refused.
_MENTIONS = """TABLE mentions (
        id TEXT NOT NULL,
        page INTEGER NOT NULL REFERENCES ledger (key),
        PRIMARY KEY (id, page)
    ) WITHOUT ROWID"""
# What sessions that opted in keep of values, as JSON. Nothing refers to it.
_ORIGINALS = """TABLE originals (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        digest TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (session, digest)
    )"""

# Who writes a session, by its id: it is opened before it has a message. Nothing is lost with it.
_WRITERS = """TABLE writers (
        session TEXT PRIMARY KEY,
        epoch INTEGER NOT NULL,
        holder TEXT NOT NULL,
        process TEXT NOT NULL,
        until_ns INTEGER NOT NULL
    ) WITHOUT ROWID"""

# What components keep for a session, as JSON; each by the name of its own.
_STATES = """TABLE states (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER,
        UNIQUE (session, name)
    )"""
_STATES_BY_NAME = "states_by_name ON states (name, session)"

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
    f"CREATE {_LEDGER}",
    f"CREATE INDEX {_LEFTOVERS}",
    f"CREATE {_MENTIONS}",
    f"CREATE {_ORIGINALS}",
    f"CREATE {_WRITERS}",
    f"CREATE {_STATES}",
    f"CREATE INDEX {_STATES_BY_NAME}",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

# Version 2 had a row and four indexes for each record, and in each the message, if any, that was
# written with it. Records without came before the message after the last one that had any.
_PAGED = (
    """INSERT INTO ledger
        SELECT page, session, place, min(seq), count(*), version,
            '[' || group_concat(body) || ']', NULL
        FROM (SELECT coalesce(message, -key) AS page, session, seq, version, body, coalesce(
            (SELECT seq FROM messages WHERE key = one.message),
            (SELECT seq + 1 FROM messages WHERE key = (
                SELECT message FROM records WHERE session = one.session AND seq < one.seq
                AND message IS NOT NULL ORDER BY seq DESC LIMIT 1)),
            1) AS place
            FROM records AS one ORDER BY page, seq)
        GROUP BY page""",
    """INSERT INTO mentions
        SELECT subject, coalesce(message, -key) FROM records WHERE subject <> ''
        UNION SELECT call_id, coalesce(message, -key) FROM records WHERE call_id <> ''""",
)

_UPGRADES = {
    1: (
        "ALTER TABLE messages ADD COLUMN checksum INTEGER",
        "ALTER TABLE records ADD COLUMN checksum INTEGER",
        "PRAGMA user_version = 2",
    ),
    2: (
        f"CREATE {_LEDGER}",
        f"CREATE INDEX {_LEFTOVERS}",
        f"CREATE {_MENTIONS}",
        f"CREATE {_ORIGINALS}",
        *_PAGED,
        "DROP TABLE records",
        "PRAGMA user_version = 3",
    ),
    3: (f"CREATE {_WRITERS}", "PRAGMA user_version = 4"),
    4: (f"CREATE {_STATES}", "PRAGMA user_version = 5"),
    5: (f"CREATE INDEX {_STATES_BY_NAME}", "PRAGMA user_version = 6"),
}

_COMPATIBILITY_VIEWS = {
    1: (
        "CREATE TEMP VIEW messages AS SELECT *, NULL AS checksum FROM main.messages",
        "CREATE TEMP VIEW records AS SELECT *, NULL AS checksum FROM main.records",
    ),
    # In memory, or where SQLite keeps what is temporary.
    2: (
        f"CREATE TEMP {_LEDGER}",
        f"CREATE INDEX temp.{_LEFTOVERS}",
        f"CREATE TEMP {_MENTIONS}",
        f"CREATE TEMP {_ORIGINALS}",
        *_PAGED,
    ),
    3: (),  # Who only reads does not ask who writes.
    4: (f"CREATE TEMP {_STATES}",),
    5: (),  # What is looked for by its name alone is found by a scan.
}


def upgrades(version: int) -> tuple[str, ...]:
    """Return what turns a file of *version* into one of ours; its rows stay as they are."""
    return tuple([sql for step in range(version, VERSION) for sql in _UPGRADES[step]])


def compatibility_views(version: int) -> tuple[str, ...]:
    """Return what makes a file of *version* read like one of ours, without a write to it."""
    return tuple([sql for step in range(version, VERSION) for sql in _COMPATIBILITY_VIEWS[step]])


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
ADD_PAGE = """INSERT INTO ledger (key, session, place, seq, records, version, body, checksum)
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
STATE = """SELECT version, CAST(body AS BLOB), checksum FROM states
    WHERE session = (SELECT key FROM sessions WHERE id = ?) AND name = ?"""
SET_STATE = """INSERT INTO states (session, name, version, body, checksum)
    VALUES ((SELECT key FROM sessions WHERE id = ?), ?, ?, ?, ?)
    ON CONFLICT (session, name) DO UPDATE SET
        version = excluded.version, body = excluded.body, checksum = excluded.checksum"""
DROP_STATE = """DELETE FROM states
    WHERE session = (SELECT key FROM sessions WHERE id = ?) AND name = ?"""
