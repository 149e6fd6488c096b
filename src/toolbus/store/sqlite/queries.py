"""The statements that read an SQLite store."""

from __future__ import annotations

from toolbus.store.sql_reader import Statements

# The newest rows of a table are found by their keys: an order that is cut short is a scan too.
_SESSION = """SELECT key, id, messages, records, created_ns, updated_ns,
    EXISTS (SELECT 1 FROM originals WHERE session = sessions.key) FROM sessions"""
_MESSAGE = """SELECT one.key, one.session, one.seq, one.id,
    one.version, CAST(one.body AS BLOB), one.checksum FROM messages AS one"""
# Some models give the ids of calls again and again.
_OF_CALL = f"""{_MESSAGE} JOIN calls ON calls.message = one.key
    WHERE calls.id = ? AND one.session = coalesce(?, one.session)"""
_PAGE = """SELECT page.session, page.place, page.seq, page.key > 0,
    page.version, CAST(page.body AS BLOB), page.checksum FROM ledger AS page"""
# A page without a message has an index; that of a message is found by the message.
_PAGE_OF_MESSAGE = """SELECT page.session, messages.seq AS place, page.seq, true,
    page.version, CAST(page.body AS BLOB), page.checksum
    FROM messages CROSS JOIN ledger AS page ON page.key = messages.key"""
_PAGE_OF_ID = f"{_PAGE} JOIN mentions ON mentions.page = page.key WHERE mentions.id = ?"

STATEMENTS = Statements(
    changes="PRAGMA data_version",
    session=f"{_SESSION} WHERE id = ?",
    session_of_key=f"{_SESSION} WHERE key = ?",
    sessions_after=f"{_SESSION} WHERE key > ? ORDER BY key LIMIT ?",
    newest_sessions="""SELECT id FROM sessions
        WHERE key > (SELECT max(key) FROM sessions) - ? ORDER BY key DESC""",
    ids_from={
        "session": "SELECT id FROM sessions WHERE id >= ? ORDER BY id LIMIT ?",
        "message": "SELECT DISTINCT id FROM messages WHERE id >= ? ORDER BY id LIMIT ?",
        "call": "SELECT DISTINCT id FROM calls WHERE id >= ? ORDER BY id LIMIT ?",
    },
    ids_before={
        "session": "SELECT id FROM sessions WHERE id < ? ORDER BY id DESC LIMIT ?",
        "message": "SELECT DISTINCT id FROM messages WHERE id < ? ORDER BY id DESC LIMIT ?",
        "call": "SELECT DISTINCT id FROM calls WHERE id < ? ORDER BY id DESC LIMIT ?",
    },
    mentions_from="SELECT DISTINCT id FROM mentions WHERE id >= ? ORDER BY id LIMIT ?",
    messages_after=f"{_MESSAGE} WHERE one.session = ? AND one.seq > ? ORDER BY one.seq LIMIT ?",
    messages_of_id=f"""{_MESSAGE} WHERE one.id = ? AND one.session = coalesce(?, one.session)
        ORDER BY one.key LIMIT ?""",
    of_call_before=f"{_OF_CALL} AND calls.message < ? ORDER BY calls.message DESC LIMIT ?",
    of_call_after=f"{_OF_CALL} AND calls.message > ? ORDER BY calls.message LIMIT ?",
    pages_after=f"""{_PAGE_OF_MESSAGE} WHERE messages.session = ?1 AND messages.seq <= ?2
            AND messages.seq >= ?3 AND (messages.seq, page.seq) > (?3, ?4)
        UNION ALL {_PAGE} WHERE page.key < 0 AND page.session = ?1 AND page.place <= ?2
            AND page.place >= ?3 AND (page.place, page.seq) > (?3, ?4)
        ORDER BY 2, 3 LIMIT ?5""",
    pages_of_id=f"{_PAGE_OF_ID} AND mentions.page > ? ORDER BY mentions.page LIMIT ?",
    # The newest have the lowest numbers.
    leftovers_of_id=f"{_PAGE_OF_ID} AND mentions.page < 0 ORDER BY mentions.page LIMIT ?",
    original="SELECT CAST(body AS BLOB) FROM originals WHERE session = ? AND digest = ?",
    originals_after="""SELECT CAST(body AS BLOB), digest FROM originals
        WHERE session = ? AND digest > ? ORDER BY digest LIMIT ?""",
    state="""SELECT version, CAST(body AS BLOB), checksum FROM states
        WHERE session = (SELECT key FROM sessions WHERE id = ?) AND name = ?""",
    state_names="SELECT name FROM states WHERE session = ? ORDER BY name",
    state_of_key="""SELECT version, CAST(body AS BLOB), checksum FROM states
        WHERE session = ? AND name = ?""",
    states_from="""SELECT one.name, one.session, sessions.id,
        one.version, CAST(one.body AS BLOB), one.checksum
        FROM states AS one CROSS JOIN sessions ON sessions.key = one.session
        WHERE (one.name, one.session) > (?, ?) ORDER BY one.name, one.session LIMIT ?""",
)
