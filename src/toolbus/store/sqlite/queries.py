"""The statements that read an SQLite store for a person: each finds its rows by an index."""

from __future__ import annotations

# The newest rows of a table are found by their keys: an order that is cut short is a scan too.
_SESSION = """SELECT key, id, messages, records, created_ns, updated_ns,
    EXISTS (SELECT 1 FROM originals WHERE session = sessions.key) FROM sessions"""
SESSION = f"{_SESSION} WHERE id = ?"
SESSION_OF_KEY = f"{_SESSION} WHERE key = ?"
SESSIONS_AFTER = f"{_SESSION} WHERE key > ? ORDER BY key LIMIT ?"
NEWEST_SESSIONS = """SELECT id FROM sessions
    WHERE key > (SELECT max(key) FROM sessions) - ? ORDER BY key DESC"""

_MESSAGE = """SELECT one.key, one.session, one.seq, one.id,
    one.version, CAST(one.body AS BLOB), one.checksum FROM messages AS one"""
MESSAGES_AFTER = f"{_MESSAGE} WHERE one.session = ? AND one.seq > ? ORDER BY one.seq LIMIT ?"
MESSAGES_OF_ID = f"{_MESSAGE} WHERE one.id = ? ORDER BY one.key LIMIT ?"
MESSAGES_OF_ID_IN = f"{_MESSAGE} WHERE one.id = ? AND +one.session = ? ORDER BY one.key LIMIT ?"
# Some models give the ids of calls again and again.
_OF_CALL = f"{_MESSAGE} JOIN calls ON calls.message = one.key WHERE calls.id = ?"
FIRST_OF_CALL = f"{_OF_CALL} ORDER BY calls.message LIMIT 1"
LAST_OF_CALL = f"{_OF_CALL} ORDER BY calls.message DESC LIMIT ?"
LAST_OF_CALL_IN = f"{_OF_CALL} AND +one.session = ? ORDER BY calls.message DESC LIMIT ?"
OF_CALL_BEFORE = f"""{_OF_CALL} AND +one.session = ? AND calls.message < ?
    ORDER BY calls.message DESC LIMIT ?"""
OF_CALL_AFTER = f"""{_OF_CALL} AND +one.session = ? AND calls.message > ?
    ORDER BY calls.message LIMIT 1"""

IDS_FROM = {
    "session": "SELECT id FROM sessions WHERE id >= ? ORDER BY id LIMIT ?",
    "message": "SELECT DISTINCT id FROM messages WHERE id >= ? ORDER BY id LIMIT ?",
    "call": "SELECT DISTINCT id FROM calls WHERE id >= ? ORDER BY id LIMIT ?",
}
IDS_BEFORE = {
    "session": "SELECT id FROM sessions WHERE id < ? ORDER BY id DESC LIMIT ?",
    "message": "SELECT DISTINCT id FROM messages WHERE id < ? ORDER BY id DESC LIMIT ?",
    "call": "SELECT DISTINCT id FROM calls WHERE id < ? ORDER BY id DESC LIMIT ?",
}
MENTIONS_FROM = "SELECT DISTINCT id FROM mentions WHERE id >= ? ORDER BY id LIMIT ?"

_PAGE_COLUMNS = """SELECT page.session, page.place, page.seq,
    page.version, CAST(page.body AS BLOB), page.checksum"""
_PAGE = f"{_PAGE_COLUMNS} FROM ledger AS page"
PAGE = f"{_PAGE} WHERE page.key = ?"
_OF_ID = f"{_PAGE} JOIN mentions ON mentions.page = page.key WHERE mentions.id = ?"
PAGES_OF_ID = f"{_OF_ID} AND mentions.page > ? ORDER BY mentions.page LIMIT ?"
# The newest have the lowest numbers.
LEFTOVERS_OF_ID = f"{_OF_ID} AND mentions.page < 0 ORDER BY mentions.page LIMIT ?"
LEFTOVERS_BETWEEN = f"""{_PAGE} WHERE page.key < 0 AND page.session = ?
    AND page.place > ? AND page.place <= ? ORDER BY page.place, page.seq"""
ORIGINAL = "SELECT CAST(body AS BLOB) FROM originals WHERE session = ? AND digest = ?"
ORIGINALS_AFTER = """SELECT digest, CAST(body AS BLOB) FROM originals
    WHERE session = ? AND digest > ? ORDER BY digest LIMIT ?"""
STATE_NAMES = "SELECT name FROM states WHERE session = ? ORDER BY name"
STATE = """SELECT version, CAST(body AS BLOB), checksum FROM states
    WHERE session = ? AND name = ?"""
STATES_FROM = """SELECT one.name, one.session, sessions.id,
    one.version, CAST(one.body AS BLOB), one.checksum
    FROM states AS one CROSS JOIN sessions ON sessions.key = one.session
    WHERE (one.name, one.session) > (?, ?) ORDER BY one.name, one.session LIMIT ?"""
PAGES_AFTER = f"""{_PAGE_COLUMNS} FROM messages CROSS JOIN ledger AS page ON page.key = messages.key
    WHERE messages.session = ? AND messages.seq > ? ORDER BY messages.seq LIMIT ?"""
LEFTOVERS_AFTER = f"""{_PAGE} WHERE page.key < 0 AND page.session = ? AND page.seq > ?
    ORDER BY page.place, page.seq LIMIT ?"""
