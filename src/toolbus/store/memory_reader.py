"""A session in memory, and a reader that goes through all of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, Self

from toolbus.errors import StoreError
from toolbus.store.reading import FEW, MessageRow, Page, SessionRow, StateRow, StoreFacts
from toolbus.store.rows import call_ids, mentioned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Original, Stored
    from toolbus.store.reading import IdKind

_FEW_PAGES = 200


class _StoredMessage(NamedTuple):
    """A message, and the store's own number of it."""

    key: int
    message: Message


class _StoredPage(NamedTuple):
    """Records that were written together, and the ids that they speak of.

    *key* is that of the message that came with them, 0 if none did.
    """

    key: int
    page: Page
    mentioned: frozenset[str]


class MemorySession:
    """What one session holds; lists that only grow, so that a reader needs no lock."""

    __slots__ = (
        *("created_ns", "id", "key", "messages", "originals", "pages"),
        *("records_count", "states", "updated_ns"),
    )

    def __init__(self, key: int, session_id: str, now_ns: int) -> None:
        self.key, self.id = key, session_id
        self.created_ns = self.updated_ns = now_ns
        self.messages: list[_StoredMessage] = []
        self.pages: list[_StoredPage] = []
        self.records_count = 0
        self.originals: dict[str, Original] = {}
        self.states: dict[str, bytes] = {}

    def add(self, stored: Stored, keys: Iterator[int]) -> None:
        """Add what one append writes; *keys* numbers messages."""
        rows = [_StoredMessage(next(keys), message) for message in stored.messages]
        if stored.records:
            place = len(self.messages) + max(1, len(rows))
            page = Page(self.key, place, self.records_count + 1, stored.records)
            names = frozenset(mentioned(stored.records, stored.message))
            self.pages.append(_StoredPage(rows[-1].key if rows else 0, page, names))
            self.records_count += len(stored.records)
        for original in stored.originals:
            self.originals.setdefault(original.digest, original)
        self.messages += rows

    def records(self) -> tuple[DispatchRecord, ...]:
        """Return all records, in order."""
        return tuple([record for stored in tuple(self.pages) for record in stored.page.records])

    def row(self) -> SessionRow:
        """Return what a reader gives of it."""
        return SessionRow(
            self.key,
            self.id,
            len(self.messages),
            self.records_count,
            self.created_ns,
            self.updated_ns,
            bool(self.originals),
        )

    def rows(self, after: int = 0) -> Iterator[MessageRow]:
        """Give the messages behind the number *after*."""
        for seq, (key, message) in enumerate(self.messages[after:], after + 1):
            yield MessageRow(key, self.key, seq, message.id, message)


class MemoryReader:
    """Reads *sessions*, those of a memory store; each verb goes through all that there is."""

    def __init__(self, sessions: Mapping[str, MemorySession], changes: Callable[[], int]) -> None:
        self._sessions, self._changes = sessions, changes

    @property
    def changes(self) -> int:
        """A number that is another one once something was appended."""
        return self._changes()

    def sessions(self) -> Iterator[SessionRow]:
        """Give all sessions, the oldest first."""
        return iter([session.row() for session in self._all()])

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session of that very id."""
        session = self._sessions.get(session_id)
        return None if session is None else session.row()

    def session_of(self, key: int) -> SessionRow:
        """Return the session of a message or page."""
        for session in self._within(key):
            return session.row()
        raise StoreError("memory", f"session {key} is lost")

    def ids_like(self, kind: IdKind, prefix: str) -> list[str]:
        """Return a few ids that begin with *prefix*."""
        ids = self._ids(kind)
        if kind != "session":
            ids.update(*[page.mentioned for page in self._pages(None)])
        return sorted([name for name in ids if name.startswith(prefix)])[:FEW]

    def ids_near(self, kind: IdKind, name: str) -> list[str]:
        """Return ids next to *name* in the alphabet; of sessions, there are never many, all."""
        ids = sorted(self._ids(kind))
        if kind == "session":
            return ids
        place = bisect_left(ids, name)
        return ids[max(0, place - FEW) : place + FEW]

    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Give the messages of a session behind the number *after*, in order."""
        for each in self._within(session):
            yield from each.rows(after)

    def messages_of(self, name: str, session: int | None) -> list[MessageRow]:
        """Return a few messages of the id *name*."""
        return [row for row in self._rows(session) if row.id == name][:FEW]

    def messages_of_call(self, name: str, session: int | None) -> list[MessageRow]:
        """Return the last few messages that ask for the call *name* or answer it, in order."""
        rows = [row for row in self._rows(session) if _speaks_of(row, name)]
        first = rows[:1] if session is None and len(rows) > FEW else []
        return [*first, *rows[-FEW:]]

    def before_in_call(self, name: str, row: MessageRow) -> list[MessageRow]:
        """Return the last few messages before *row* that speak of the call *name*, last first."""
        rows = [other for other in self._rows(row.session) if _speaks_of(other, name)]
        return [other for other in reversed(rows) if other.seq < row.seq][:FEW]

    def after_in_call(self, name: str, row: MessageRow) -> MessageRow | None:
        """Return the first message behind *row* that speaks of the call *name*."""
        rows = self.messages(row.session, row.seq)
        return next((other for other in rows if _speaks_of(other, name)), None)

    def page(self, row: MessageRow) -> Page | None:
        """Return the records that were written with the message *row*."""
        return next((page for key, page, _ in self._pages(row.session) if key == row.key), None)

    def pages(self, session: int) -> Iterator[Page]:
        """Give all records of a session, in order."""
        return iter([page for _, page, _ in self._pages(session)])

    def pages_of(self, name: str, behind: MessageRow | None = None) -> list[Page]:
        """Return pages that speak of the id *name*, but for those of its own message."""
        pages = [stored for stored in self._pages(None) if name in stored.mentioned]
        after = behind.key if behind else 0
        alone = [page for key, page, _ in pages if not key]
        return [*alone[-_FEW_PAGES:], *[page for key, page, _ in pages if key > after][:_FEW_PAGES]]

    def leftovers(self, session: int, after: int, to: int) -> Iterator[Page]:
        """Give the records without a message whose place is one of *after* + 1 to *to*."""
        pages = self._pages(session)
        return iter([page for key, page, _ in pages if not key and after < page.place <= to])

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the JSON of the value of *digest*, if the session kept it."""
        for each in self._within(session):
            if digest in each.originals:
                return each.originals[digest].body
        return None

    def originals(self, session: int) -> Iterator[Original]:
        """Give the values that the session kept, by their digests."""
        for each in self._within(session):
            originals = dict(each.originals)
            yield from [originals[digest] for digest in sorted(originals)]

    def states(self, session: int) -> Iterator[StateRow]:
        """Give what components keep for the session, by its name."""
        for each in self._within(session):
            yield from [StateRow(name, body) for name, body in sorted(dict(each.states).items())]

    def states_like(self, prefix: str) -> Iterator[tuple[str, StateRow]]:
        """Give what is kept under names that begin with *prefix*, with the ids of sessions."""
        rows = [
            (name, each.key, each.id, body)
            for each in self._all()
            for name, body in dict(each.states).items()
            if name.startswith(prefix)
        ]
        return iter([(session, StateRow(name, body)) for name, _, session, body in sorted(rows)])

    def facts(self) -> StoreFacts:
        """Return that there is nothing that could be wrong."""
        return StoreFacts(0)

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self) -> list[MemorySession]:
        # A thread may add one meanwhile: `list` takes a copy in one step.
        return list(self._sessions.values())

    def _within(self, session: int | None) -> list[MemorySession]:
        return [each for each in self._all() if session in {None, each.key}]

    def _rows(self, session: int | None) -> list[MessageRow]:
        return sorted([row for each in self._within(session) for row in each.rows()])

    def _pages(self, session: int | None) -> list[_StoredPage]:
        return [stored for each in self._within(session) for stored in tuple(each.pages)]

    def _ids(self, kind: IdKind) -> set[str]:
        match kind:
            case "session":
                return set(self._sessions)
            case "message":
                return {row.id for row in self._rows(None)}
        return {name for row in self._rows(None) if row.message for name in call_ids(row.message)}


def _speaks_of(row: MessageRow, name: str) -> bool:
    return row.message is not None and name in call_ids(row.message)
