"""The readers of stores: all that is kept, a few rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias, TypeVar

from toolbus.errors import DecodeError, StoreError
from toolbus.store.rows import call_ids, mentioned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Original

IdKind: TypeAlias = Literal["session", "message", "call"]
"""The kinds of ids."""

FEW = 20
"""The most candidates for an id that is not known or not unique."""

MANY = 200
"""The most rows that are read at once."""


class SessionRow(NamedTuple):
    """A session; times are nanoseconds since the epoch.

    *key* is the store's own number of it, by which the verbs of a reader name it: the older
    session has the lower one.
    """

    key: int
    id: str
    messages: int
    records: int
    created_ns: int
    updated_ns: int
    has_originals: bool


class MessageRow(NamedTuple):
    """The message number *seq* of a session, or None and its *damage*: "is damaged: …".

    *key* is the store's own number of it; in one session it grows with *seq*, which begins at 1.
    """

    key: int
    session: int
    seq: int
    id: str
    message: Message | None
    damage: str = ""

    @property
    def problem(self) -> str:
        """Why it cannot be read, "" if it can."""
        return f"message {self.seq} {self.damage}" if self.damage else ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with the session where it is."""
        return f"message {self.seq} of session {session_id!r} {self.damage}"


class Page(NamedTuple):
    """Records that were written together, before the message number *place* of a session.

    *seq* is the number of the first record; *damage* says why there are none: "is damaged: …".
    Records that came with a message have its number as their place; records that came without one
    have the number of the next message, also if it is still to come.
    """

    session: int
    place: int
    seq: int
    with_message: bool
    records: tuple[DispatchRecord, ...]
    damage: str = ""

    @property
    def problem(self) -> str:
        """Why they cannot be read, "" if they can."""
        return f"record {self.seq} {self.damage}" if self.damage else ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with the session where it is."""
        return f"record {self.seq} of session {session_id!r} {self.damage}"


class StateRow(NamedTuple):
    """The JSON that is kept for a session under *name*, or None and its *damage*."""

    name: str
    body: bytes | None
    damage: str = ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with the session where it is."""
        return f"state {self.name!r} of session {session_id!r} {self.damage}"


R = TypeVar("R", MessageRow, Page, StateRow)


def whole(row: R, session_id: str) -> R:
    """Return *row* of the session; raises `DecodeError` if it is damaged."""
    if row.damage:
        raise DecodeError(row.problem_in(session_id))
    return row


def whole_messages(rows: Iterable[MessageRow], session_id: str) -> tuple[Message, ...]:
    """Return the messages of *rows*; raises `DecodeError` that names the first damaged row."""
    messages = [whole(row, session_id).message for row in rows]
    return tuple([message for message in messages if message is not None])


class StoreFacts(NamedTuple):
    """Facts of a whole store: the *version* of its tables, its size in *bytes*, 0 if unknown.

    *problems* is what the database finds wrong with its own structure. A file also tells its
    *pages*, and how many *calls* its index of calls has.
    """

    version: int
    bytes: int = 0
    problems: tuple[str, ...] = ()
    pages: int = 0
    calls: int | None = None


class StoreReader(ABC):
    """Reads a store for a person, and changes nothing; the right to read is enough.

    One thread at a time uses it, outside of event loops: each verb waits for its rows. An iterator
    reads a few rows at a time (bounded in number and in bytes), however long the session is; a
    list has at most `FEW` entries unless its verb says otherwise. A verb sees every commit before
    its call. A store that cannot be read raises `StoreError`; a single damaged row is not an
    error, and has its `damage`.

    The abstract verbs are enough for a store of your own: the lookups below go through all rows.
    A database finds rows by an index, so that a lookup in 10,000,000 rows costs no more than in
    10,000.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", Stored(message=UserMessage(content="hello"))))
    >>> with store.reader() as reader:
    ...     [row.id for row in reader.sessions()]
    ['s1']
    """

    @property
    @abstractmethod
    def changes(self) -> int:
        """A number that changes when another program or store has written; cheap to ask for."""

    @abstractmethod
    def sessions(self) -> Iterator[SessionRow]:
        """Give all sessions, the oldest first."""

    @abstractmethod
    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Give the messages of a session behind the number *after*, in order."""

    @abstractmethod
    def pages(self, session: int, after: int = 0, to: int | None = None) -> Iterator[Page]:
        """Give records of a session in the order in which they were written.

        Only records of the places *after* + 1 to *to*; None is the end of the session.
        """

    @abstractmethod
    def originals(self, session: int) -> Iterator[Original]:
        """Give the values that the session kept, by their digests."""

    @abstractmethod
    def states(self, session: int) -> Iterator[StateRow]:
        """Give what components keep for the session, by its name."""

    @abstractmethod
    def facts(self) -> StoreFacts:
        """Return the facts of the store, after the database has looked through its structure.

        Takes as long as this look. Rows are not decoded: `toolbus check` does that by the verbs.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the store."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session of that very id."""
        return next((row for row in self.sessions() if row.id == session_id), None)

    def session_of(self, key: int) -> SessionRow:
        """Return the session of a message or page; raises `StoreError` if it is lost."""
        for row in self.sessions():
            if row.key == key:
                return row
        raise StoreError(f"session {key}", "it is lost")

    def ids_like(self, kind: IdKind, prefix: str) -> list[str]:
        """Return a few ids that begin with *prefix*, each once, in the order of code points.

        For messages and calls also ids that only ledger records mention.
        """
        ids = self._ids(kind)
        if kind != "session":
            ids.update(*[names for _, _, names in self._mentions()])
        return sorted([name for name in ids if name.startswith(prefix)])[:FEW]

    def ids_near(self, kind: IdKind, name: str) -> list[str]:
        """Return ids next to *name* in the order of code points: candidates for a misspelt id.

        Of sessions also a few hundred of the newest.
        """
        ids = sorted(self._ids(kind))
        place = bisect_left(ids, name)
        return ids[-MANY:] if kind == "session" else ids[max(0, place - FEW) : place + FEW]

    def messages_of(self, name: str, session: int | None) -> list[MessageRow]:
        """Return a few messages of the id *name*, in the order in which they were written."""
        return [row for row in self._messages(session) if row.id == name][:FEW]

    def messages_of_call(
        self, name: str, session: int | None, before: MessageRow | None = None
    ) -> list[MessageRow]:
        """Return the last few messages that ask for the call *name* or answer it, in order.

        With *before* only messages before that one. Without a *session* the very first message,
        too, so that ids in several sessions are noticed.
        """
        rows = self._of_call(name, session)
        if before is not None:
            rows = [row for row in rows if row.key < before.key]
        first = rows[:1] if session is None and len(rows) > FEW else []
        return [*first, *rows[-FEW:]]

    def after_in_call(self, name: str, row: MessageRow) -> MessageRow | None:
        """Return the first message of its session behind *row* that speaks of the call *name*."""
        rows = self._of_call(name, row.session)
        return next((other for other in rows if other.seq > row.seq), None)

    def page(self, row: MessageRow) -> Page | None:
        """Return the records that were written with the message *row*."""
        pages = self.pages(row.session, row.seq - 1, row.seq)
        return next((page for page in pages if page.with_message), None)

    def pages_of(self, name: str, behind: MessageRow | None = None) -> list[Page]:
        """Return pages that speak of the id *name*, but for those of its own message.

        At most a few hundred, of any session: pages of messages that were added to the store
        behind the message *behind*, and the newest pages without a message.
        """
        pages = [(page, row) for page, row, names in self._mentions() if name in names]
        after = behind.key if behind else 0
        alone = [page for page, row in pages if row is None]
        return [*alone[-MANY:], *[page for page, row in pages if row and row.key > after][:MANY]]

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the JSON of the value of *digest*, if the session kept it."""
        originals = self.originals(session)
        return next((each.body for each in originals if each.digest == digest), None)

    def state(self, session_id: str, name: str) -> StateRow | None:
        """Return the state *name* of the session; None if there is none."""
        session = self.session(session_id)
        states = () if session is None else self.states(session.key)
        return next((state for state in states if state.name == name), None)

    def states_like(self, prefix: str) -> Iterator[tuple[str, StateRow]]:
        """Give what is kept under names that begin with *prefix*, each with its session's id.

        Of all sessions, by name in the order of code points, then the older session first.
        """
        states = [
            (state.name, session.key, session.id, state)
            for session in self.sessions()
            for state in self.states(session.key)
            if state.name.startswith(prefix)
        ]
        return iter([(session_id, state) for _, _, session_id, state in sorted(states)])

    def _messages(self, session: int | None) -> list[MessageRow]:
        """Return the messages of one session or of all, in the order in which they were written."""
        keys = [row.key for row in self.sessions()] if session is None else [session]
        return sorted([row for key in keys for row in self.messages(key)])

    def _of_call(self, name: str, session: int | None) -> list[MessageRow]:
        rows = self._messages(session)
        return [row for row in rows if row.message and name in call_ids(row.message)]

    def _ids(self, kind: IdKind) -> set[str]:
        match kind:
            case "session":
                return {row.id for row in self.sessions()}
            case "message":
                return {row.id for row in self._messages(None)}
        messages = [row.message for row in self._messages(None)]
        return {name for message in messages if message for name in call_ids(message)}

    def _mentions(self) -> Iterator[tuple[Page, MessageRow | None, set[str]]]:
        """Give each page, its message if it has one, and the ids that it mentions besides."""
        for session in self.sessions():
            rows = {row.seq: row for row in self.messages(session.key)}
            for page in self.pages(session.key):
                row = rows.get(page.place) if page.with_message else None
                yield page, row, mentioned(page.records, row.message if row else None)


def first_folder(reader: StoreReader, session: int) -> str:
    """Return where a session began to work, "" if its first records do not say so."""
    page = next(iter(reader.pages(session)), None)
    scopes = [] if page is None else [record.scope for record in page.records]
    return next((folder for each in scopes if (folder := each.project or each.folder)), "")
