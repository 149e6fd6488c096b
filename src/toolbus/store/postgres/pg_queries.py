"""The statements that read a PostgreSQL store."""

from __future__ import annotations

from toolbus.store.sql_reader import Statements

# Bodies are read as bytes: their checksum is that of these. No EXISTS, for which the server may
# read all originals once.
_SESSION = """SELECT key, coalesce(long_id, id), messages, records, created_ns, updated_ns,
    (SELECT true FROM toolbus.originals WHERE session = sessions.key LIMIT 1) IS NOT NULL
    FROM toolbus.sessions"""
_MESSAGE = """SELECT one.key, one.session, one.seq, one.id,
    one.version, convert_to(one.body, 'UTF8'), one.checksum FROM toolbus.messages AS one"""
_PAGE = """SELECT page.session, page.place, page.seq, page.key > 0,
    page.version, convert_to(page.body, 'UTF8'), page.checksum FROM toolbus.ledger AS page"""


def _of_call(condition: str, order: str) -> str:
    """Return the statement that finds messages by the index of calls first."""
    hits = f"""SELECT session, seq, key FROM toolbus.calls
        WHERE id = %s AND session = coalesce(%s, session) AND {condition}
        ORDER BY id {order}, key {order} LIMIT %s"""
    return f"""{_MESSAGE} JOIN ({hits}) AS call
        ON one.session = call.session AND one.seq = call.seq ORDER BY call.key {order}"""


def _pages_of(condition: str) -> str:
    """Return the statement that finds pages by the index of mentions first."""
    hits = f"""SELECT session, place, seq, key FROM toolbus.mentions
        WHERE id = %s AND {condition} ORDER BY id, key LIMIT %s"""
    return f"""{_PAGE} JOIN ({hits}) AS one ON page.session = one.session
        AND page.place = one.place AND page.seq = one.seq ORDER BY one.key"""


STATEMENTS = Statements(
    # Each transaction that writes begins or ends between two snapshots that differ by it.
    changes="SELECT hashtextextended(pg_current_snapshot()::text, 0)",
    session=f"{_SESSION} WHERE id = %s AND key IS NOT NULL",
    session_of_key=f"{_SESSION} WHERE key = %s",
    sessions_after=f"{_SESSION} WHERE key > %s ORDER BY key LIMIT %s",
    newest_sessions="""SELECT coalesce(long_id, id) FROM toolbus.sessions
        WHERE key IS NOT NULL ORDER BY key DESC LIMIT %s""",
    ids_from={
        "session": """SELECT coalesce(long_id, id) FROM toolbus.sessions
            WHERE id >= %s AND key IS NOT NULL ORDER BY id LIMIT %s""",
        "message": "SELECT DISTINCT id FROM toolbus.messages WHERE id >= %s ORDER BY id LIMIT %s",
        "call": "SELECT DISTINCT id FROM toolbus.calls WHERE id >= %s ORDER BY id LIMIT %s",
    },
    ids_before={
        "session": """SELECT coalesce(long_id, id) FROM toolbus.sessions
            WHERE id < %s AND key IS NOT NULL ORDER BY id DESC LIMIT %s""",
        "message": """SELECT DISTINCT id FROM toolbus.messages
            WHERE id < %s ORDER BY id DESC LIMIT %s""",
        "call": "SELECT DISTINCT id FROM toolbus.calls WHERE id < %s ORDER BY id DESC LIMIT %s",
    },
    mentions_from="SELECT DISTINCT id FROM toolbus.mentions WHERE id >= %s ORDER BY id LIMIT %s",
    messages_after=f"{_MESSAGE} WHERE one.session = %s AND one.seq > %s ORDER BY one.seq LIMIT %s",
    messages_of_id=f"""{_MESSAGE} WHERE one.id = %s AND one.session = coalesce(%s, one.session)
        ORDER BY one.key LIMIT %s""",
    of_call_before=_of_call("key < %s", "DESC"),
    of_call_after=_of_call("key > %s", ""),
    pages_after=f"""{_PAGE} WHERE page.session = %s AND page.place <= %s
        AND (page.place, page.seq) > (%s, %s) ORDER BY page.place, page.seq LIMIT %s""",
    pages_of_id=_pages_of("key > %s"),
    # The newest have the lowest numbers.
    leftovers_of_id=_pages_of("key < 0"),
    original="SELECT body FROM toolbus.originals WHERE session = %s AND digest = %s",
    originals_after="""SELECT body, digest FROM toolbus.originals
        WHERE session = %s AND digest > %s ORDER BY digest LIMIT %s""",
    state="""SELECT version, body, checksum FROM toolbus.states
        WHERE session = (SELECT key FROM toolbus.sessions WHERE id = %s) AND name = %s""",
    state_names="SELECT name FROM toolbus.states WHERE session = %s ORDER BY name",
    state_of_key="""SELECT version, body, checksum FROM toolbus.states
        WHERE session = %s AND name = %s""",
    states_from="""SELECT one.name, one.session, coalesce(sessions.long_id, sessions.id),
        one.version, one.body, one.checksum
        FROM (SELECT * FROM toolbus.states AS each WHERE (each.name, each.session) > (%s, %s)
            ORDER BY each.name, each.session LIMIT %s) AS one
        LEFT JOIN toolbus.sessions ON sessions.key = one.session ORDER BY one.name, one.session""",
)

FACTS = """SELECT (SELECT version FROM toolbus.meta),
    (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
        WHERE relnamespace = 'toolbus'::regnamespace AND relkind IN ('r', 'm', 'S'))"""
INVALID = """SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid
    WHERE relnamespace = 'toolbus'::regnamespace AND NOT indisvalid AND relkind = 'i'"""
MISSING = """SELECT wanted FROM unnest(%s::text[]) AS wanted
    WHERE to_regclass('toolbus.' || wanted) IS NULL"""
