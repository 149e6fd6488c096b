"""The check of a store's chains: the first record of each that does not fit, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.errors import StoreError
from toolbus.store.chain import (
    ALL_STATES,
    COUNT,
    KINDS,
    LINK,
    NOTHING,
    QUESTION_NAMES,
    QUESTIONS,
    SALT,
    commitment,
    genesis,
    head_of,
    is_column,
    next_link,
)
from toolbus.store.sql_reader import SqlReader
from toolbus.store.sqlite.sqlite_reader import SqliteReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.store.check.session_check import ProgressCallback
    from toolbus.store.store_reader import SessionRow, StoreReader

SeenCallback: TypeAlias = Callable[[bytes, int, bytes], None]
"""Called with the name of a session's chains, the number of a kind, and each of its links."""

Heads: TypeAlias = tuple[bytes | None, ...]
"""The last links of messages, batches and questions, None before the first."""

_Row: TypeAlias = tuple[int, int, object, bytes, bytes | None]
"""The number, size, label, commitment and link of a record; no link of an older toolbus."""

_FIRST = -(2**63)
"""The least number of a row: records before number 1 are found, too."""

# The words in braces differ between the databases. A damaged file may have texts for bytes.
_HAS_COLUMN = "SELECT 1 FROM pragma_table_info('sessions') WHERE name = 'chain'"
_ROW = "SELECT id, CAST(chain AS {blob}) FROM {toolbus}sessions WHERE key = {value}"
_CHAINS = """SELECT CAST(chain AS {blob}), coalesce(messages + records, 0) FROM {toolbus}sessions
    WHERE chain IS NOT NULL ORDER BY key"""
_FORGOTTEN = (
    "SELECT CAST(chain AS {blob}), forgotten_ns FROM {toolbus}forgotten ORDER BY forgotten_ns"
)
# The last columns are the number, the size, the label, the body and the seal of a record.
_MESSAGES = """SELECT seq, seq, 1, seq || ':' || version || ':' || id, {text}, CAST(seal AS {blob})
    FROM {toolbus}messages
    WHERE session = {value} AND seq > {value} ORDER BY seq LIMIT {value}"""
# The place is there twice, since SQLite finds rows by an index for a single column only.
_BATCHES = """SELECT place, place, seq, records,
        place || ':' || seq || ':' || records || ':' || version, {text}, CAST(seal AS {blob})
    FROM {ledger}
    WHERE session = {value} AND place >= {value} AND (place, seq) > ({value}, {value})
    ORDER BY place, seq LIMIT {value}"""
# A write and the state are read at once, so that another write between them is no finding.
_LINKS = """SELECT n, CAST(body AS {blob}), CAST(salt AS {blob}),
        n, 1, n || ':' || links.name, links.name, CAST(seal AS {blob})
    FROM {toolbus}links AS links LEFT JOIN {toolbus}states AS states
        ON states.session = links.session AND states.name = links.name
    WHERE links.session = {value} AND n > {value} ORDER BY n LIMIT {value}"""
_STATES = "SELECT name FROM {toolbus}states WHERE session = {value}"

_POSTGRES = {
    "toolbus": "toolbus.",
    "value": "%s",
    "blob": "bytea",
    "text": "convert_to(body, 'UTF8')",
    "ledger": "toolbus.ledger",
}
_SQLITE = {
    "toolbus": "",
    "value": "?",
    "blob": "BLOB",
    "text": "CAST(body AS BLOB)",
    # The place of a batch is that of its message, as readers have it.
    "ledger": """(SELECT messages.session, messages.seq AS place, page.seq, page.records,
            page.version, page.body, page.seal
        FROM messages CROSS JOIN ledger AS page ON page.key = messages.key
        UNION ALL SELECT session, place, seq, records, version, body, seal
        FROM ledger WHERE key < 0)""",
}

_UNSEALED = "has no link: it was inserted, an older toolbus wrote it, or its link was removed"
_MISFIT = "does not fit: it or its link was changed, or others were moved or removed before it"
_PUT_BACK = "is not as it was written last: it was changed, removed, or put back to an earlier one"


class SessionChain(Struct, frozen=True):
    """The chains of one session, by their random *name*; b"" without chains.

    *unchained* is the number of messages, batches and questions that an older toolbus wrote.
    """

    session_id: str
    name: bytes = b""
    heads: Heads = (None, None, None)
    breaks: tuple[str, ...] = ()
    unchained: int = 0


def read_heads(reader: SqlReader, *, forgotten: bool = False) -> Iterator[tuple[bytes, Heads, int]]:
    """Yield the name and heads of each session with chains, and its messages and records.

    Of *forgotten* sessions yield the time of the deletion in ns instead. No record is read.
    """
    statement = _FORGOTTEN if forgotten else _CHAINS
    for column, number in _rows(reader, statement) if _has_chains(reader) else ():
        if is_column(column):
            yield *_name_and_heads(column), number


def _name_and_heads(column: bytes | None) -> tuple[bytes, Heads]:
    heads = [(column or NOTHING * 4)[head_of(kind)] for kind in range(len(KINDS))]
    return (column or b"")[:SALT], tuple([None if head == NOTHING else head for head in heads])


def _has_chains(reader: SqlReader) -> bool:
    """Return whether the store has chains: not a file that only an older toolbus has written."""
    return not isinstance(reader, SqliteReader) or bool(reader.rows(_HAS_COLUMN))


def _rows(reader: SqlReader, statement: str, *values: object) -> list[Any]:
    return reader.rows(_in_dialect(reader, statement), *values)


def _batched(reader: SqlReader, statement: str, session: int, columns: int) -> Iterator[Any]:
    after = (_FIRST,) * columns
    return reader.batched_rows(_in_dialect(reader, statement), (session,), after, slice(columns))


def _in_dialect(reader: SqlReader, statement: str) -> str:
    return statement.format_map(_SQLITE if isinstance(reader, SqliteReader) else _POSTGRES)


def check_chains(
    reader: SqlReader, progress: ProgressCallback, seen: SeenCallback
) -> Iterator[SessionChain]:
    """Yield the chains of all sessions, the oldest first; *seen* is called before each."""
    # The forgotten ones come first: another process may forget a session meanwhile.
    gone = {name for name, _, _ in read_heads(reader, forgotten=True)}
    has_chains, sessions, done = _has_chains(reader), list(reader.sessions()), 0
    total = max(1, sum(map(_size, sessions)))
    for session in sessions:
        chain = SessionChain(session.id, unchained=_size(session))
        if has_chains:
            chain = _check(reader, session, seen)
        if chain.name in gone:
            reason = "its chain is in the list of forgotten sessions"
            chain = replace(chain, breaks=(*chain.breaks, reason))
        yield chain
        done += _size(session)
        progress(done, total)


def questions_fit(reader: StoreReader, session: SessionRow) -> bool:
    """Return whether the questions of *session* are as they were written last.

    True without chains: in memory, and in a file or a session of an older toolbus.
    """
    if not isinstance(reader, SqlReader) or not _has_chains(reader):
        return True
    for session_id, column in (before := _rows(reader, _ROW, session.key)):
        if column is not None and not is_column(column):
            return False
        name, heads = _name_and_heads(column)
        questions = _Questions(reader, session.key, column)
        writes = questions.writes(_batched(reader, _LINKS, session.key, 1))
        first = genesis(name, session_id, QUESTIONS)
        misfit, missing_end, _ = _walk(QUESTIONS, first, heads[QUESTIONS], writes, lambda _: None)
        changed, _ = questions.result(may_be_older=not name or _has_older(reader, session))
        is_cut = missing_end and _rows(reader, _ROW, session.key) == before
        return not (misfit or changed or is_cut)
    return True


def _has_older(reader: SqlReader, session: SessionRow) -> bool:
    """Return whether the first message, or batch, has no link."""
    for statement, columns in ((_MESSAGES, 1), (_BATCHES, 3)):
        for *_, link in _sealed(_batched(reader, statement, session.key, columns)):
            if link is None:
                return True
            break
    return False


def _size(session: SessionRow) -> int:
    counts = (session.messages, session.records)
    return sum([count for count in counts if isinstance(count, int)])


def _check(reader: SqlReader, session: SessionRow, seen: SeenCallback) -> SessionChain:
    """Return the chains of *session*, none if it was forgotten or began its chains meanwhile."""
    chain = SessionChain(session.id)
    try:
        before = _rows(reader, _ROW, session.key)
        for session_id, column in before:
            if column is not None and not is_column(column):
                return replace(chain, breaks=("the chain in its row is damaged",))
            walked, ends = _walk_all(reader, session, session_id, column, seen)
            after = _rows(reader, _ROW, session.key)
            if after == before:
                walked = replace(walked, breaks=(*walked.breaks, *ends))
            if after and _name_and_heads(after[0][1])[0] == walked.name:
                chain = walked
    except (StoreError, TypeError, ValueError) as error:
        if not isinstance(reader, SqliteReader):
            raise
        chain = replace(chain, breaks=(f"its rows cannot be read: {error}",))
    return chain


def _walk_all(
    reader: SqlReader,
    session: SessionRow,
    session_id: str,
    column: bytes | None,
    seen: SeenCallback,
) -> tuple[SessionChain, list[str]]:
    """Return the chains of *session*, and the missing ends if nothing was written meanwhile."""
    name, heads = _name_and_heads(column)
    questions = _Questions(reader, session.key, column)
    rows = (
        _sealed(_batched(reader, _MESSAGES, session.key, 1)),
        _sealed(_batched(reader, _BATCHES, session.key, 3)),
        questions.writes(_batched(reader, _LINKS, session.key, 1)),
    )
    walks = [
        _walk(kind, genesis(name, session_id, kind), heads[kind], each, partial(seen, name, kind))
        for kind, each in enumerate(rows)
    ]
    misfits, ends, older = zip(*walks, strict=True)
    changed, unlinked = questions.result(may_be_older=any(older) or not name)
    breaks = tuple([reason for reason in (*misfits, *changed) if reason])
    chain = SessionChain(session.id, name, heads, breaks, sum(older) + unlinked)
    return chain, [reason for reason in ends if reason]


def _sealed(rows: Iterator[Any]) -> Iterator[_Row]:
    """Yield messages, or batches, as they are walked along."""
    for *_, number, size, label, body, seal in rows:
        committed = b"" if seal is None else commitment(seal[:SALT], body)
        yield number, size, label, committed, seal and seal[SALT:]


class _Questions:
    """The questions of the *session* with the *column*, compared to their last writes."""

    def __init__(self, reader: SqlReader, session: int, column: bytes | None) -> None:
        names = [f"{name}" for (name,) in _rows(reader, _STATES, session)]
        self._names = {name for name in names if name.startswith(QUESTION_NAMES)}
        self._count = int.from_bytes((column or b"")[-COUNT:], "big")
        self._reasons: dict[str, str] = {}

    def writes(self, rows: Iterator[Any]) -> Iterator[_Row]:
        """Yield the writes as they are walked along."""
        for number, body, salt, _, size, label, name, seal in rows:
            stored = commitment(salt, body or b"") if salt else b"" if body else NOTHING
            self._reasons[name] = "" if stored == seal[:LINK] else _PUT_BACK
            if name == ALL_STATES:
                self._reasons = {}
                if number > self._count:  # The names may have been read before.
                    self._names = set()
            yield number, size, label, seal[:LINK], seal[LINK:]

    def result(self, *, may_be_older: bool) -> tuple[list[str], int]:
        """Return the findings, and the number of questions that an older toolbus wrote."""
        bare, older = self._names - self._reasons.keys(), 0
        if may_be_older:
            bare, older = set(), len(bare)
        reasons = {**self._reasons, **dict.fromkeys(bare, _UNSEALED)}
        return [f"question {name!r} {why}" for name, why in sorted(reasons.items()) if why], older


def _misfit(row: _Row, previous: bytes, *, is_begun: bool) -> str:
    """Return why *row* does not fit to the link *previous*, "" if it does."""
    *_, label, committed, link = row
    if link is None:
        return _UNSEALED if is_begun else ""
    return "" if next_link(previous, committed, f"{label}") == link else _MISFIT


def _gap(word: str, due: int) -> str:
    place = f"does not follow {word} {due - 1}" if due > 1 else f"is first, not {word} 1"
    return f"{place}: others were moved or removed"


def _missing_end(word: str, due: int, *, has_links: bool) -> str:
    place = f"no {word} has a link: the links, or the {word}s with one,"
    if has_links:
        place = f"the chain does not end with {word} {due - 1}: later ones"
    return f"{place} were removed, or the session's row was changed"


def _walk(
    kind: int,
    previous: bytes,
    head: bytes | None,
    rows: Iterable[_Row],
    seen: Callable[[bytes], None],
) -> tuple[str, str, int]:
    """Compare each record with the link before it, *previous* for the first; *head* is the last.

    Return the first misfit and a missing end, "" without, and the number of unchained records.
    """
    word, due, first, misfits, older = KINDS[kind], 1, "", 0, 0
    end, reason = None, ""
    for row in rows:
        number, size, *_, link = row
        if number != due:
            reason = _gap(word, due)
        else:
            reason = _misfit(row, previous, is_begun=end is not None)
        due, misfits = number + size, misfits + bool(reason)
        first = first or (reason and f"{word} {number} {reason}")
        if link is not None:
            previous = end = link
            seen(link)
        older += end is None
    if misfits > 1:
        first = f"{first}; later {word}s that do not fit either: {misfits - 1:,}"
    if reason:
        return first, "", older
    if misfits == 1:
        first = f"{first}; all after it, up to {word} {due - 1}, fit"
    return first, "" if end == head else _missing_end(word, due, has_links=end is not None), older
