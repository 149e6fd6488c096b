"""The reader of a store: its base class, and the rows that it yields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from toolbus.errors import DecodeError
from toolbus.store.protocol import SessionInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Original


class SessionRow(NamedTuple):
    """A session; times are nanoseconds since the epoch.

    *key* is the store's own number of the session, the argument of the reader's methods: an older
    session has a lower key.
    """

    key: int
    id: str
    messages: int
    records: int
    created_ns: int
    updated_ns: int
    has_originals: bool

    @property
    def info(self) -> SessionInfo:
        """The session's entry in the list of sessions."""
        times = {"created_ns": self.created_ns, "updated_ns": self.updated_ns}
        return SessionInfo(id=self.id, messages=self.messages, **times)

    @property
    def has_entries(self) -> bool:
        """Whether it has messages, records or originals; any other is a place of states alone."""
        return self.messages > 0 or self.records > 0 or self.has_originals


class MessageRow(NamedTuple):
    """The message number *seq* of a session, or None and its *damage*: "is damaged: …".

    *key* is the store's own number of the message; within a session it grows with *seq*, which
    begins at 1.
    """

    key: int
    session: int
    seq: int
    id: str
    message: Message | None
    damage: str = ""

    @property
    def problem(self) -> str:
        """The reason why it cannot be read, or ""."""
        return f"message {self.seq} {self.damage}" if self.damage else ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with its session."""
        return f"message {self.seq} of session {session_id!r} {self.damage}"


class RecordBatch(NamedTuple):
    """The records of one append: *seq* is the number of the first.

    *message_seq* is the number of the message that they were written with, or of the next message,
    which may not exist yet. *damage* is the reason why *records* is empty: "is damaged: …".
    """

    session: int
    message_seq: int
    seq: int
    with_message: bool
    records: tuple[DispatchRecord, ...]
    damage: str = ""

    @property
    def problem(self) -> str:
        """The reason why they cannot be read, or ""."""
        return f"record {self.seq} {self.damage}" if self.damage else ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with its session."""
        return f"record {self.seq} of session {session_id!r} {self.damage}"


class StateRow(NamedTuple):
    """The state *name* of a session, as JSON in *body*, or None and its *damage*."""

    name: str
    body: bytes | None
    damage: str = ""

    def problem_in(self, session_id: str) -> str:
        """Return the problem, with its session."""
        return f"state {self.name!r} of session {session_id!r} {self.damage}"


R = TypeVar("R", MessageRow, RecordBatch, StateRow)


def whole(row: R, session_id: str) -> R:
    """Return *row* of a session; raises `DecodeError` if it is damaged."""
    if row.damage:
        raise DecodeError(row.problem_in(session_id))
    return row


def whole_messages(rows: Iterable[MessageRow], session_id: str) -> tuple[Message, ...]:
    """Return the messages of *rows*; raises `DecodeError` for the first damaged row."""
    messages = [whole(row, session_id).message for row in rows]
    return tuple([message for message in messages if message is not None])


class StoreFacts(NamedTuple):
    """Facts about a whole store: the *version* of its tables, its size in *bytes*, 0 if unknown.

    *problems* are the faults that the database finds in its own structure. For a file, *pages* is
    its number of pages, and *calls* the size of its index of calls.
    """

    version: int
    bytes: int = 0
    problems: tuple[str, ...] = ()
    pages: int = 0
    calls: int | None = None


class StoreReader(ABC):
    """A synchronous reader of a store; it needs only the right to read.

    Use it in one thread at a time, outside of event loops: each method waits for its rows. An
    iterator reads a few rows at a time (bounded in number and in bytes), however long the session
    is. A method sees all commits before its call. An unreadable store raises `StoreError`; a
    damaged row is not an error, and has its `damage`.

    For a store of your own implement the abstract methods: the others search through all rows.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", AppendRequest(message=UserMessage(content="hello"))))
    >>> with store.reader() as reader:
    ...     [row.id for row in reader.sessions()]
    ['s1']
    """

    @property
    @abstractmethod
    def changes(self) -> int:
        """A number that differs after writes of other programs or stores; cheap to read."""

    @abstractmethod
    def sessions(self) -> Iterator[SessionRow]:
        """Yield all sessions, the oldest first."""

    @abstractmethod
    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Yield the messages of a session after number *after*, in order."""

    @abstractmethod
    def record_batches(
        self, session: int, after: int = 0, to: int | None = None
    ) -> Iterator[RecordBatch]:
        """Yield the records of a session in the order of writing.

        Only batches with a `message_seq` from *after* + 1 to *to*; None is the end of the session.
        """

    @abstractmethod
    def originals(self, session: int) -> Iterator[Original]:
        """Yield the original values of the session, sorted by digest."""

    @abstractmethod
    def states(self, session: int) -> Iterator[StateRow]:
        """Yield the states of the session, sorted by name."""

    @abstractmethod
    def facts(self) -> StoreFacts:
        """Return facts about the store, with the database's own check of its structure.

        This may take long. Rows are not decoded: `toolbus check` reads them by the other methods.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the reader."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session with exactly this id; None if there is none."""
        return next((row for row in self.sessions() if row.id == session_id), None)

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the session's original value with *digest*, as JSON; None if there is none."""
        originals = self.originals(session)
        return next((each.body for each in originals if each.digest == digest), None)

    def state(self, session_id: str, name: str) -> StateRow | None:
        """Return the state *name* of the session; None if there is none."""
        session = self.session(session_id)
        states = () if session is None else self.states(session.key)
        return next((state for state in states if state.name == name), None)

    def states_like(self, prefix: str) -> Iterator[tuple[str, StateRow]]:
        """Yield the states of all sessions whose names begin with *prefix*, with the session's id.

        They are sorted by name in the order of code points, then with the older session first.
        """
        states = [
            (state.name, session.key, session.id, state)
            for session in self.sessions()
            for state in self.states(session.key)
            if state.name.startswith(prefix)
        ]
        return iter([(session_id, state) for _, _, session_id, state in sorted(states)])
