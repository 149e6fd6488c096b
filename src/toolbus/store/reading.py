"""The StoreReader protocol: what is kept, a few rows at a time, for whoever looks into a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from toolbus.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Original

IdKind: TypeAlias = Literal["session", "message", "call"]
"""What an id can be the id of."""

FEW = 20
"""How many candidates are looked at when an id is not known or not unique."""


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
    """The message number *seq* of a session, or None and what *damage* it has: "is damaged: …".

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
    Records that came with a message have its number as their place; those that came without one
    (leftovers) have that of the next message, also if it is still to come.
    """

    session: int
    place: int
    seq: int
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
    """What is kept for a session under *name*: JSON, or None and what *damage* it has."""

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
    """What a store says of itself: the *version* of its tables, its size in *bytes*, 0 if unknown.

    *problems* is what the database finds wrong with its own structure.
    """

    version: int
    bytes: int = 0
    problems: tuple[str, ...] = ()


class StoreReader(Protocol):
    """Reads a store for a person, and changes nothing; it needs no more than the right to read.

    Used by one thread at a time, and not in an event loop: each verb waits for its rows. What
    comes as an iterator is read a few rows at a time (bounded in number and in bytes), whatever
    the session holds; what comes as a list has at most `FEW` entries but where a verb says
    otherwise. Every verb finds its rows by an index, so that none costs more in a store of
    10,000,000 rows than in one of 10,000; only `sessions`, `messages` and `pages` take as long as
    what they give. Sees what was committed before the verb was called. Raises `StoreError` for
    what cannot be read; a single damaged row is no error, but has its `damage`.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", Stored(message=UserMessage(content="hello"))))
    >>> with store.reader() as reader:
    ...     [row.id for row in reader.sessions()]
    ['s1']
    """

    @property
    def changes(self) -> int:
        """A number that is another one once somebody else has written; cheap to ask for."""
        ...

    def sessions(self) -> Iterator[SessionRow]:
        """Give all sessions, the oldest first."""
        ...

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session of that very id."""
        ...

    def session_of(self, key: int) -> SessionRow:
        """Return the session of a message or page; raises `StoreError` if it is lost."""
        ...

    def ids_like(self, kind: IdKind, prefix: str) -> list[str]:
        """Return a few ids that begin with *prefix*, each once, in the order of code points.

        For messages and calls also those that only ledger records speak of.
        """
        ...

    def ids_near(self, kind: IdKind, name: str) -> list[str]:
        """Return ids next to *name* in the order of code points; of sessions also the newest.

        Of the newest, a few hundred. They are what a hint for a misspelt id is chosen from.
        """
        ...

    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Give the messages of a session behind the number *after*, in order."""
        ...

    def messages_of(self, name: str, session: int | None) -> list[MessageRow]:
        """Return a few messages of the id *name*, in the order in which they were written."""
        ...

    def messages_of_call(self, name: str, session: int | None) -> list[MessageRow]:
        """Return the last few messages that ask for the call *name* or answer it, in order.

        Without a *session* the very first one, too, so that it is known if several have the id.
        """
        ...

    def before_in_call(self, name: str, row: MessageRow) -> list[MessageRow]:
        """Return the last few messages of *row*'s session before it that speak of the call *name*.

        The last comes first.
        """
        ...

    def after_in_call(self, name: str, row: MessageRow) -> MessageRow | None:
        """Return the first message of its session behind *row* that speaks of the call *name*."""
        ...

    def page(self, row: MessageRow) -> Page | None:
        """Return the records that were written with the message *row*."""
        ...

    def pages(self, session: int) -> Iterator[Page]:
        """Give all records of a session, in the order in which they were written."""
        ...

    def pages_of(self, name: str, behind: MessageRow | None = None) -> list[Page]:
        """Return pages that speak of the id *name*, but for those of its own message.

        At most a few hundred, of any session: those written with messages that were added to the
        store behind the message *behind*, and the newest that came without a message.
        """
        ...

    def leftovers(self, session: int, after: int, to: int) -> Iterator[Page]:
        """Give the records without a message whose place is one of *after* + 1 to *to*."""
        ...

    def original(self, session: int, digest: str) -> bytes | None:
        """Return the JSON of the value of *digest*, if the session kept it."""
        ...

    def originals(self, session: int) -> Iterator[Original]:
        """Give the values that the session kept, by their digests."""
        ...

    def states(self, session: int) -> Iterator[StateRow]:
        """Give what components keep for the session, by its name."""
        ...

    def states_like(self, prefix: str) -> Iterator[tuple[str, StateRow]]:
        """Give what is kept under names that begin with *prefix*, each with its session's id.

        Of all sessions, by name in the order of code points, then the older session first.
        """
        ...

    def facts(self) -> StoreFacts:
        """Return what the store says of itself, having looked through its structure.

        Takes as long as that. Rows are not decoded here: `toolbus check` does that by the verbs.
        """
        ...

    def close(self) -> None:
        """Let go of the store."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def first_folder(reader: StoreReader, session: int) -> str:
    """Return where a session began to work, "" if its first records do not say so."""
    page = next(iter(reader.pages(session)), None)
    scopes = [] if page is None else [record.scope for record in page.records]
    return next((folder for each in scopes if (folder := each.project or each.folder)), "")
