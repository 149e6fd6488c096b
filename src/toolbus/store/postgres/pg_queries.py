"""The statements that read a PostgreSQL store: each finds its rows by an index."""

from __future__ import annotations

# Bodies are read as bytes: their checksum is that of these. No EXISTS, for which the server may
# read all originals once.
_SESSION = """SELECT key, coalesce(long_id, id), messages, records, created_ns, updated_ns,
    (SELECT true FROM toolbus.originals WHERE session = sessions.key LIMIT 1) IS NOT NULL
    FROM toolbus.sessions"""
SESSION = f"{_SESSION} WHERE id = %s AND key IS NOT NULL"
SESSION_OF_KEY = f"{_SESSION} WHERE key = %s"
SESSIONS_AFTER = f"{_SESSION} WHERE key > %s ORDER BY key LIMIT %s"
NEWEST_SESSIONS = """SELECT coalesce(long_id, id) FROM toolbus.sessions
    WHERE key IS NOT NULL ORDER BY key DESC LIMIT %s"""
KEY_OF = "(SELECT key FROM toolbus.sessions WHERE id = %s)"

_MESSAGE = """SELECT one.key, one.session, one.seq, one.id,
    one.version, convert_to(one.body, 'UTF8'), one.checksum FROM toolbus.messages AS one"""
MESSAGES_AFTER = f"{_MESSAGE} WHERE one.session = %s AND one.seq > %s ORDER BY one.seq LIMIT %s"
MESSAGES_OF_ID = f"{_MESSAGE} WHERE one.id = %s ORDER BY one.key LIMIT %s"
MESSAGES_OF_ID_IN = f"{_MESSAGE} WHERE one.id = %s AND one.session = %s ORDER BY one.key LIMIT %s"


def _of_call(condition: str, order: str) -> str:
    """Return the statement that finds messages by the index of calls first."""
    hits = f"""SELECT session, seq, key FROM toolbus.calls WHERE id = %s {condition}
        ORDER BY id {order}, key {order} LIMIT %s"""
    return f"""{_MESSAGE} JOIN ({hits}) AS call
        ON one.session = call.session AND one.seq = call.seq ORDER BY call.key {order}"""


FIRST_OF_CALL = _of_call("", "")
LAST_OF_CALL = _of_call("", "DESC")
LAST_OF_CALL_IN = _of_call("AND session = %s", "DESC")
OF_CALL_BEFORE = _of_call("AND session = %s AND key < %s", "DESC")
OF_CALL_AFTER = _of_call("AND session = %s AND key > %s", "")

IDS_FROM = {
    "session": """SELECT coalesce(long_id, id) FROM toolbus.sessions
        WHERE id >= %s AND key IS NOT NULL ORDER BY id LIMIT %s""",
    "message": "SELECT DISTINCT id FROM toolbus.messages WHERE id >= %s ORDER BY id LIMIT %s",
    "call": "SELECT DISTINCT id FROM toolbus.calls WHERE id >= %s ORDER BY id LIMIT %s",
    "mention": "SELECT DISTINCT id FROM toolbus.mentions WHERE id >= %s ORDER BY id LIMIT %s",
}
IDS_BEFORE = {
    "session": """SELECT coalesce(long_id, id) FROM toolbus.sessions
        WHERE id < %s AND key IS NOT NULL ORDER BY id DESC LIMIT %s""",
    "message": "SELECT DISTINCT id FROM toolbus.messages WHERE id < %s ORDER BY id DESC LIMIT %s",
    "call": "SELECT DISTINCT id FROM toolbus.calls WHERE id < %s ORDER BY id DESC LIMIT %s",
}

_PAGE = """SELECT page.session, page.place, page.seq,
    page.version, convert_to(page.body, 'UTF8'), page.checksum FROM toolbus.ledger AS page"""
PAGE = f"{_PAGE} WHERE page.session = %s AND page.place = %s AND page.key = %s"


def _pages_of(condition: str) -> str:
    hits = f"""SELECT session, place, seq, key FROM toolbus.mentions
        WHERE id = %s AND {condition} ORDER BY id, key LIMIT %s"""
    return f"""{_PAGE} JOIN ({hits}) AS one ON page.session = one.session
        AND page.place = one.place AND page.seq = one.seq ORDER BY one.key"""


PAGES_OF_ID = _pages_of("key > %s")
# The newest have the lowest numbers.
LEFTOVERS_OF_ID = _pages_of("key < 0")
PAGES_AFTER = f"""{_PAGE} WHERE page.session = %s AND (page.place, page.seq) > (%s, %s)
    ORDER BY page.place, page.seq LIMIT %s"""
LEFTOVERS_BETWEEN = f"""{_PAGE} WHERE page.session = %s AND page.place > %s AND page.place <= %s
    AND page.key < 0 ORDER BY page.place, page.seq"""
ORIGINAL = "SELECT body FROM toolbus.originals WHERE session = %s AND digest = %s"
ORIGINALS_AFTER = """SELECT digest, body FROM toolbus.originals
    WHERE session = %s AND digest > %s ORDER BY digest LIMIT %s"""
STATE_NAMES = "SELECT name FROM toolbus.states WHERE session = %s ORDER BY name"
STATE = """SELECT version, body, checksum FROM toolbus.states
    WHERE session = %s AND name = %s"""
STATES_FROM = """SELECT one.name, one.session, coalesce(sessions.long_id, sessions.id),
    one.version, one.body, one.checksum
    FROM (SELECT * FROM toolbus.states AS each WHERE (each.name, each.session) > (%s, %s)
        ORDER BY each.name, each.session LIMIT %s) AS one
    LEFT JOIN toolbus.sessions ON sessions.key = one.session ORDER BY one.name, one.session"""
STATE_OF = f"""SELECT version, body, checksum FROM toolbus.states
    WHERE session = {KEY_OF} AND name = %s"""

# Each transaction that writes begins or ends between two snapshots that differ by it.
CHANGES = "SELECT hashtextextended(pg_current_snapshot()::text, 0)"
FACTS = """SELECT (SELECT version FROM toolbus.meta),
    (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
        WHERE relnamespace = 'toolbus'::regnamespace AND relkind IN ('r', 'm', 'S'))"""
INVALID = """SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid
    WHERE relnamespace = 'toolbus'::regnamespace AND NOT indisvalid AND relkind = 'i'"""
MISSING = """SELECT wanted FROM unnest(%s::text[]) AS wanted
    WHERE to_regclass('toolbus.' || wanted) IS NULL"""
