"""The SQL of a PostgreSQL store's writer: one statement for all rows of a table in a batch."""

from __future__ import annotations

# Arrays go over the wire in binary form, `%b`: a text of megabytes is not escaped and parsed.
COUNT_COMMIT = """INSERT INTO toolbus.commits (writer, number) VALUES (%b, %b)
    ON CONFLICT (writer) DO UPDATE SET number = excluded.number, opened = now()"""
MAKE_WRITER = """INSERT INTO toolbus.commits (writer, number) VALUES (%b, 0)
    ON CONFLICT (writer) DO UPDATE SET opened = now()"""
# Waits for the transaction that changed the row, if that has not ended yet.
LAST_COMMIT = "SELECT number FROM toolbus.commits WHERE writer = %b FOR UPDATE"
END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = %b AND pid <> pg_backend_pid() AND datname = current_database()"""
DROP_COMMITS = """DELETE FROM toolbus.commits
    WHERE writer = %b OR opened < now() - interval '30 days'"""
NOT_OFF = """SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'"""
SOON = "SET LOCAL synchronous_commit = off"
CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1e9)::bigint"

# Nothing here waits for another writer: a session that another one creates or has locked is left
# out, and its jobs are tried again. Inserting an id of another open transaction would wait. The
# OFFSET restricts the lock, of which a server has some thousands, to missing sessions.
MAKE_SESSIONS = """INSERT INTO toolbus.sessions (id, long_id)
    SELECT * FROM (SELECT * FROM unnest(%b::text[], %b::text[]) AS one (id, long_id)
        WHERE NOT EXISTS (SELECT FROM toolbus.sessions WHERE sessions.id = one.id)
        OFFSET 0) AS new
    WHERE pg_try_advisory_xact_lock(1952609652, hashtext(new.id)) ON CONFLICT DO NOTHING"""
# A follower of a session holds a shared lock of that number, which a read-only role can take.
LOCK_SESSIONS = """SELECT id, key, messages, records, created_ns, updated_ns,
        epoch, holder, process, until_ns,
        CASE WHEN pg_try_advisory_lock(1952609651, hashtext(id))
        THEN NOT pg_advisory_unlock(1952609651, hashtext(id)) ELSE true END, chain
    FROM toolbus.sessions WHERE id = ANY(%b::text[]) ORDER BY id
    FOR UPDATE SKIP LOCKED"""
EXISTING_SESSIONS = "SELECT id FROM toolbus.sessions WHERE id = ANY(%b::text[])"
# Read after the sessions are locked, so that later keys are higher in each of them.
NUMBER = """SELECT nextval('toolbus.batches'),
    (extract(epoch FROM clock_timestamp()) * 1e9)::bigint"""
READ_STATES = """SELECT sessions.id, states.name, states.body
    FROM unnest(%b::text[], %b::text[]) AS wanted (id, name)
    JOIN toolbus.sessions ON sessions.id = wanted.id
    JOIN toolbus.states ON states.session = sessions.key AND states.name = wanted.name"""

UPDATE_SESSIONS = """UPDATE toolbus.sessions SET key = one.key, messages = one.messages,
        records = one.records, created_ns = one.created_ns, updated_ns = one.updated_ns,
        epoch = one.epoch, holder = one.holder, process = one.process, until_ns = one.until_ns,
        chain = one.chain
    FROM unnest(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],
        %b::bigint[], %b::text[], %b::text[], %b::bigint[], %b::bytea[])
    AS one (id, key, messages, records, created_ns, updated_ns, epoch, holder, process, until_ns,
        chain)
    WHERE sessions.id = one.id"""
ADD_MESSAGES = """INSERT INTO toolbus.messages
        (session, seq, key, id, version, body, checksum, written, seal)
    SELECT session, seq, key, id, version, body, checksum, to_timestamp(written_ns / 1e9), seal
    FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::int[], %b::text[],
        %b::bigint[], %b::bigint[], %b::bytea[])
    AS one (session, seq, key, id, version, body, checksum, written_ns, seal)"""
ADD_CALLS = """INSERT INTO toolbus.calls (id, key, session, seq, tool, status, duration_ns)
    SELECT * FROM unnest(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[],
        %b::text[], %b::bigint[]) ON CONFLICT DO NOTHING"""
ADD_BATCHES = """INSERT INTO toolbus.ledger
        (session, place, seq, key, records, version, body, checksum, written, seal)
    SELECT session, place, seq, key, records, version, body, checksum,
        to_timestamp(written_ns / 1e9), seal
    FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::int[], %b::int[],
        %b::text[], %b::bigint[], %b::bigint[], %b::bytea[])
    AS one (session, place, seq, key, records, version, body, checksum, written_ns, seal)"""
ADD_MENTIONS = """INSERT INTO toolbus.mentions (id, key, session, place, seq)
    SELECT * FROM unnest(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[])
    ON CONFLICT DO NOTHING"""
ADD_ORIGINALS = """INSERT INTO toolbus.originals (session, digest, body)
    SELECT * FROM unnest(%b::bigint[], %b::text[], %b::bytea[]) ON CONFLICT DO NOTHING"""
SET_STATES = """INSERT INTO toolbus.states (session, name, version, body, checksum, salt)
    SELECT * FROM unnest(%b::bigint[], %b::text[], %b::int[], %b::bytea[], %b::bigint[],
        %b::bytea[])
    ON CONFLICT (session, name) DO UPDATE SET version = excluded.version, body = excluded.body,
        checksum = excluded.checksum, salt = excluded.salt"""
DROP_STATES = """DELETE FROM toolbus.states USING unnest(%b::bigint[], %b::text[])
    AS one (session, name) WHERE states.session = one.session AND states.name = one.name"""
ADD_LINKS = """INSERT INTO toolbus.links (session, n, name, seal)
    SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::bytea[])"""
# Ids, not rows: a notification has at most 8,000 bytes.
NOTIFY = "SELECT pg_notify('toolbus', id) FROM unnest(%b::text[]) AS id"

FORGET = {
    "originals": """DELETE FROM toolbus.originals
        WHERE session = (SELECT key FROM toolbus.sessions WHERE id = %s)""",
    "states": """DELETE FROM toolbus.states
        WHERE session = (SELECT key FROM toolbus.sessions WHERE id = %s)""",
}
LOCK_CHAIN = "SELECT key, chain FROM toolbus.sessions WHERE id = %s FOR UPDATE"
SET_CHAIN = "UPDATE toolbus.sessions SET chain = %s WHERE key = %s"
REMEMBER = """INSERT INTO toolbus.forgotten (chain, forgotten_ns)
    SELECT chain, %s FROM toolbus.sessions WHERE key = ANY(%s) AND chain IS NOT NULL"""
OLD_SESSIONS = """SELECT key, coalesce(long_id, id) FROM toolbus.sessions
    WHERE key IS NOT NULL AND created_ns < %(before)s AND updated_ns < %(before)s
        AND until_ns <= %(now)s
    ORDER BY key LIMIT %(limit)s FOR UPDATE SKIP LOCKED"""
DROP_SESSIONS = (
    "DELETE FROM toolbus.messages WHERE session = ANY(%s)",
    "DELETE FROM toolbus.calls WHERE session = ANY(%s)",
    "DELETE FROM toolbus.ledger WHERE session = ANY(%s)",
    "DELETE FROM toolbus.mentions WHERE session = ANY(%s)",
    "DELETE FROM toolbus.originals WHERE session = ANY(%s)",
    "DELETE FROM toolbus.states WHERE session = ANY(%s)",
    "DELETE FROM toolbus.links WHERE session = ANY(%s)",
    "DELETE FROM toolbus.sessions WHERE key = ANY(%s)",
)
