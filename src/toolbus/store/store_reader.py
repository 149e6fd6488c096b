"""The readers of stores: all that is kept, a few rows at a time."""

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

    *key* is the store's own number of it, by which the verbs of a reader name it: an older session
    has a lower key.
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
        """The session's line in the list of sessions."""
        times = {"created_ns": self.created_ns, "updated_ns": self.updated_ns}
        return SessionInfo(id=self.id, messages=self.messages, **times)


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


class RecordBatch(NamedTuple):
    """Records that were written together, before the message number *place* of a session.

    *seq* is the number of the first record; *damage* says why there are none: "is damaged: …".
    Records that came with a message have its number as their place; records that came without one
    have the number of the next message, also if it is still to come.
    """

    session: int
    message_seq: int
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


R = TypeVar("R", MessageRow, RecordBatch, StateRow)


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

    *problems* are the faults that the database finds in its own structure. A file also tells its
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
    reads a few rows at a time (bounded in number and in bytes), however long the session is. A
    verb sees every commit before its call. A store that cannot be read raises `StoreError`; a
    single damaged row is not an error, and has its `damage`.

    The abstract verbs are enough for a store of your own: the other ones go through all rows.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", AppendRequest(message=UserMessage(content="hello"))))
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
    def record_batches(
        self, session: int, after: int = 0, to: int | None = None
    ) -> Iterator[RecordBatch]:
        """Give records of a session in the order in which they were written.

        Only records of the places *after* + 1 to *to*; None is the end of the session.
        """

    @abstractmethod
    def originals(self, session: int) -> Iterator[Original]:
        """Give the values that the session kept, by their digests."""

    @abstractmethod
    def states(self, session: int) -> Iterator[StateRow]:
        """Give the states of the session, by their names."""

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
        """Give the states whose names begin with *prefix*, each with its session's id.

        Of all sessions, by name in the order of code points, then the older session first.
        """
        states = [
            (state.name, session.key, session.id, state)
            for session in self.sessions()
            for state in self.states(session.key)
            if state.name.startswith(prefix)
        ]
        return iter([(session_id, state) for _, _, session_id, state in sorted(states)])


def first_folder(reader: StoreReader, session: int) -> str:
    """Return where a session began to work, "" if its first records do not say so."""
    batch = next(iter(reader.record_batches(session)), None)
    scopes = [] if batch is None else [record.scope for record in batch.records]
    return next((folder for each in scopes if (folder := each.project or each.folder)), "")
