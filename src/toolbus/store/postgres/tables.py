"""The schema of a PostgreSQL store, created and upgraded by the first process that needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.errors import StoreError, WrongPathError
from toolbus.store.postgres.answer_guard import ANSWER_GUARD
from toolbus.store.postgres.postgres_errors import READ_ONLY

if TYPE_CHECKING:
    from toolbus.store.postgres.connection import PgConnection

VERSION = 8
"""The version of the schema, in its table `meta`."""

OLDEST = 5
"""The version of toolbus 0.3.0, the first release with stores on PostgreSQL."""

SCHEMA = "toolbus"
"""The database schema of the store; a database has at most one store."""

SECONDS_OFFSET = 1_577_836_800
"""2020-01-01 in Unix time: keys of sessions count 2**30 per second since then."""

KEYS_PER_SECOND = 2**30

# Columns of ids compare by bytes, so that a prefix is a range of the index. The text of a body is
# JSON, in which NUL is escaped, so that it is stored exactly. No foreign keys: each row would lock
# its session's row again, which the writer has locked anyway.
# A row of `sessions` without a key is a session that was opened and never written.
_TABLES = (
    """CREATE TABLE toolbus.sessions (
        id text COLLATE "C" PRIMARY KEY,
        long_id text,
        key bigint UNIQUE,
        messages bigint NOT NULL DEFAULT 0,
        records bigint NOT NULL DEFAULT 0,
        created_ns bigint NOT NULL DEFAULT 0,
        updated_ns bigint NOT NULL DEFAULT 0,
        epoch bigint NOT NULL DEFAULT 0,
        holder text NOT NULL DEFAULT '',
        process text NOT NULL DEFAULT '',
        until_ns bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 70)""",
    """CREATE TABLE toolbus.messages (
        session bigint NOT NULL,
        seq bigint NOT NULL,
        key bigint NOT NULL,
        id text COLLATE "C" NOT NULL,
        version int NOT NULL,
        checksum bigint NOT NULL,
        written timestamptz NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (session, seq)
    )""",
    "CREATE INDEX messages_by_id ON toolbus.messages (id, key)",
    # The messages about a call: its request, without a status, and its answers.
    """CREATE TABLE toolbus.calls (
        id text COLLATE "C" NOT NULL,
        key bigint NOT NULL,
        session bigint NOT NULL,
        seq bigint NOT NULL,
        duration_ns bigint,
        tool text NOT NULL,
        status text,
        PRIMARY KEY (id, key, session)
    )""",
    "CREATE INDEX calls_by_session ON toolbus.calls (session, seq)",
    # A row has the records of one append as an array; its key is that of its message, or negative
    # without one, and then it precedes the message number `place`.
    """CREATE TABLE toolbus.ledger (
        session bigint NOT NULL,
        place bigint NOT NULL,
        seq bigint NOT NULL,
        key bigint NOT NULL,
        records int NOT NULL,
        version int NOT NULL,
        checksum bigint NOT NULL,
        written timestamptz NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (session, place, seq)
    )""",
    """CREATE TABLE toolbus.mentions (
        id text COLLATE "C" NOT NULL,
        key bigint NOT NULL,
        session bigint NOT NULL,
        place bigint NOT NULL,
        seq bigint NOT NULL,
        PRIMARY KEY (id, key, session)
    )""",
    "CREATE INDEX mentions_by_session ON toolbus.mentions (session)",
    """CREATE TABLE toolbus.originals (
        session bigint NOT NULL,
        digest text COLLATE "C" NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (session, digest)
    )""",
    """CREATE TABLE toolbus.states (
        session bigint NOT NULL,
        name text COLLATE "C" NOT NULL,
        version int NOT NULL,
        checksum bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (session, name)
    ) WITH (fillfactor = 70)""",
    # The last commit of each writing connection: after a connection lost during a commit it shows
    # whether the commit succeeded.
    """CREATE TABLE toolbus.commits (
        writer text PRIMARY KEY,
        number bigint NOT NULL,
        opened timestamptz NOT NULL DEFAULT now()
    ) WITH (fillfactor = 50)""",
    "CREATE SEQUENCE toolbus.batches",
    # 0.3.0 reads `period`, the length of a partition, before it reports a newer version.
    "CREATE TABLE toolbus.meta (version int NOT NULL, period text)",
)

# `jsonb` has no NUL: derived texts have U+FFFD in its place.
_VIEWS = (
    r"""CREATE FUNCTION toolbus.as_jsonb(body text) RETURNS jsonb
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
        CASE WHEN position('\u0000' IN body) = 0 THEN body
        ELSE regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END::jsonb""",
    """CREATE VIEW toolbus.toolbus_handlers AS
        SELECT sessions.id AS session, record ->> 'event' AS event,
            record ->> 'subject' AS subject, record ->> 'call_id' AS call,
            record ->> 'outcome' AS outcome, entry ->> 'name' AS handler,
            entry ->> 'kind' AS kind, entry ->> 'status' AS status, entry ->> 'reason' AS reason,
            (entry ->> 'duration_ns')::bigint / 1e6 AS duration_ms,
            to_timestamp((record ->> 'started_ns')::bigint / 1e9) AS started
        FROM toolbus.ledger AS page
        JOIN toolbus.sessions ON sessions.key = page.session,
        jsonb_array_elements(toolbus.as_jsonb(page.body)) AS record,
        jsonb_array_elements(record -> 'entries') AS entry""",
    """CREATE VIEW toolbus.toolbus_calls AS
        SELECT sessions.id AS session, call.id AS call, call.tool, call.status,
            call.duration_ns / 1e6 AS duration_ms, answer.written AS answered, answer.seq,
            (SELECT string_agg(DISTINCT entry ->> 'name', ', ')
                FROM toolbus.ledger AS page,
                jsonb_array_elements(toolbus.as_jsonb(page.body)) AS record,
                jsonb_array_elements(record -> 'entries') AS entry
                WHERE page.session = call.session AND (page.place = call.seq OR page.key IN (
                    SELECT key FROM toolbus.mentions
                    WHERE mentions.id = call.id AND mentions.session = call.session))
                AND record ->> 'call_id' = call.id
                AND entry ->> 'status' NOT IN ('ran', 'queued', 'skipped', 'not_run')) AS handler,
            toolbus.as_jsonb(answer.body) AS message
        FROM toolbus.calls AS call
        JOIN toolbus.sessions ON sessions.key = call.session
        JOIN toolbus.messages AS answer
            ON answer.session = call.session AND answer.seq = call.seq
        WHERE call.status IS NOT NULL""",
)

# A link is also kept of a deleted state; see `toolbus.store.chain`.
_CHAINS = (
    "ALTER TABLE toolbus.sessions ADD COLUMN IF NOT EXISTS chain bytea",
    "ALTER TABLE toolbus.messages ADD COLUMN IF NOT EXISTS seal bytea",
    "ALTER TABLE toolbus.ledger ADD COLUMN IF NOT EXISTS seal bytea",
    "ALTER TABLE toolbus.states ADD COLUMN IF NOT EXISTS salt bytea",
    """CREATE TABLE IF NOT EXISTS toolbus.links (
        session bigint NOT NULL,
        n bigint NOT NULL,
        name text COLLATE "C" NOT NULL,
        seal bytea NOT NULL,
        PRIMARY KEY (session, n)
    )""",
    """CREATE TABLE IF NOT EXISTS toolbus.forgotten (
        chain bytea NOT NULL,
        forgotten_ns bigint NOT NULL
    )""",
)
"""The statements that add the chains, of version 8."""

# Roles that may write states write links, too; else no agent could ask after the upgrade.
_RIGHTS = """DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT grantee, privilege_type FROM information_schema.table_privileges
        WHERE (table_schema, table_name) = ('toolbus', 'states')
    LOOP
        EXECUTE format('GRANT %s ON toolbus.links, toolbus.forgotten TO %s', one.privilege_type,
            CASE one.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(one.grantee) END);
    END LOOP; END $$"""

_SCHEMA = (
    f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
    *_TABLES,
    "CREATE INDEX states_by_name ON toolbus.states (name, session)",
    *_VIEWS,
    *ANSWER_GUARD,
    *_CHAINS,
)
"""The statements that create the schema."""

_UPGRADES = (
    # Version 5 had a function to append a message, and a counter for late calls of the function.
    "DROP FUNCTION IF EXISTS toolbus.append_message",
    "ALTER TABLE toolbus.commits DROP COLUMN IF EXISTS barrier",
    *_CHAINS,
    _RIGHTS,
)
"""The statements that upgrade an older schema."""

_LOCK = int.from_bytes(b"toolbus", "big")
"""The advisory lock for creating or changing the schema."""

_STANDS = """SELECT to_regclass('toolbus.meta') IS NOT NULL,
    (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('toolbus')),
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"""
_PARTITIONED = """SELECT relname FROM pg_class
    WHERE relnamespace = 'toolbus'::regnamespace AND relkind = 'p'"""


def read_version(where: str, connection: PgConnection, *, read_only: bool) -> int:
    """Return the version of the schema, 0 if there is none.

    Raises `StoreError` for a database that is not a store, or is a newer one.
    """
    is_ours, tables, only_reads = connection.execute(_STANDS).fetchone() or (False, 0, False)
    if only_reads and not read_only:
        raise StoreError(where, READ_ONLY)
    if not is_ours and tables:
        reason = f"its schema {SCHEMA!r} belongs to another application; give another database"
        raise WrongPathError(where, reason)
    if not is_ours:
        if read_only:
            raise StoreError(where, "the database is empty; give the address of a store")
        return 0
    (version,) = connection.execute("SELECT version FROM toolbus.meta").fetchone() or (-1,)
    _check_version(where, version)
    return int(version)


def _check_version(where: str, version: int) -> None:
    if version > VERSION:
        reason = f"version {version} is newer than {VERSION}; update toolbus"
        raise WrongPathError(where, reason)
    if version < OLDEST:
        raise StoreError(where, f"version {version} is not of any release; restore it")


def prepare(where: str, connection: PgConnection) -> None:
    """Create or upgrade the schema in one transaction.

    Raises `StoreError` for a database that cannot be a store.
    """
    if read_version(where, connection, read_only=False) == VERSION:
        return
    with connection.transaction():
        # A concurrent process waits here, and then finds the schema up to date.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = read_version(where, connection, read_only=False)
        if version == VERSION:
            return
        for statement in _UPGRADES if version else _SCHEMA:
            connection.execute(statement)
        _add_default_partitions(connection)
        connection.execute("DELETE FROM toolbus.meta")
        connection.execute("INSERT INTO toolbus.meta VALUES (%s)", (VERSION,))


def _add_default_partitions(connection: PgConnection) -> None:
    """Add a default partition, for sessions of any time, to each partitioned table of 0.3."""
    for (table,) in connection.execute(_PARTITIONED).fetchall():
        name = f"{SCHEMA}.{table}"
        connection.execute(f"CREATE TABLE {name}_rest PARTITION OF {name} DEFAULT")
