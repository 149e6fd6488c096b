"""The Store protocol: the messages of sessions, with ledger records, originals and states.

`toolbus.testing.check_store` checks any store against this contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import force_setattr

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.messages.records import Message, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.store.store_reader import StoreReader


class Original(Struct, frozen=True, kw_only=True):
    """A value that the ledger refers to by *digest*; *body* is its JSON.

    >>> Original(digest="d1", body=b'"secret"').body
    b'"secret"'
    """

    digest: str
    body: bytes


def originals_of(records: Iterable[DispatchRecord]) -> tuple[Original, ...]:
    """Return the values in *records* that the transcript does not hold, each once."""
    values = {digest: value for record in records for digest, value in _values_of(record) if digest}
    return tuple([Original(digest=digest, body=encode(value)) for digest, value in values.items()])


def _values_of(record: DispatchRecord) -> Iterator[tuple[str, object]]:
    changes = [entry for entry in record.entries if entry.before is not None]
    # An unchanged value is the message or the call itself, which the transcript holds; the request
    # of each turn, with all messages so far, would grow the file with the square of the session.
    if changes or record.outcome not in {"observed", "unchanged"}:
        yield record.original, record.value
    for entry in record.entries:
        if entry.detail is not None:
            yield entry.detail_digest, entry.detail
    for entry in changes:
        yield entry.before or "", entry.value_before
        yield entry.after or "", entry.value_after


class Position(Struct, frozen=True):
    """The state of a session: the *epoch* of its writer, and its number of messages, *length*.

    >>> asyncio.run(MemoryStore().open_session("s1", "me", 30))
    Position(epoch=1, length=0)
    """

    epoch: int
    length: int


class AppendRequest(Struct, frozen=True, kw_only=True):
    """The contents of one atomic append: a message, ledger records, or both.

    *before* are messages to insert right before it, such as a call before its answer, or results
    that were ready at the same time. *at* is the position that the writer expects: at any other
    position nothing is written. None skips this check, as for records, which any process may add.

    Values and details of *records* are dropped and their digests kept: a value that a guard
    refused must not come back through the ledger. *originals* are values that the session opted
    in to keep. *written_ns* (nanoseconds since the epoch) is the time of the first write when a
    session is copied; None is now.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", AppendRequest(message=UserMessage(content="hello"))))
    >>> [message.text for message in asyncio.run(store.read("s1"))]
    ['hello']
    """

    message: Message | None = None
    records: tuple[DispatchRecord, ...] = ()
    originals: tuple[Original, ...] = ()
    at: Position | None = None
    before: tuple[Message, ...] = ()
    written_ns: int | None = None

    def __post_init__(self) -> None:
        if self.records != ():
            bare = tuple([record.without_values().without_details() for record in self.records])
            force_setattr(self, "records", bare)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in the order in which they are written."""
        return self.before if self.message is None else (*self.before, self.message)


class SessionInfo(Struct, frozen=True, kw_only=True):
    """An entry in the list of sessions; times are nanoseconds since the epoch.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", AppendRequest(message=UserMessage(content="hello"))))
    >>> [(session.id, session.messages) for session in asyncio.run(store.sessions())]
    [('s1', 1)]
    """

    id: str
    messages: int
    created_ns: int
    updated_ns: int


class Store(Protocol):
    """Storage for sessions: appends and reads, and never changes stored messages or records.

    Every method may be called from any thread and event loop; after `close` each raises
    `ClosedError`. A failed read or write raises `StoreError`.

    >>> store: Store = MemoryStore()
    >>> asyncio.run(store.swap_state("s1", "count", None, b"1"))
    True
    >>> asyncio.run(store.read_state("s1", "count"))
    b'1'
    """

    @property
    def durable(self) -> bool:
        """Whether appends outlive the process."""

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return the session's position.

        Appends of earlier writers are refused from now on. The lease keeps other holders from
        opening the session for *seconds*. Raises `SessionBusyError` while another holder's lease
        lasts and its process runs.
        """
        ...

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, 0 for at once; ignore any other holder."""

    async def append(self, session_id: str, request: AppendRequest) -> None:
        """Add *request* to the end of the session; the first append creates the session.

        When this returns, the append is as durable as the store ever makes it. When it raises
        `StoreError`, or `SessionBusyError` if the session is not at the position *request.at*,
        nothing was written. Cancellation does not undo the write.
        """

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order; () for an unknown session."""
        ...

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        ...

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order; () for an unknown session."""
        ...

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the original values of the session, each once, sorted by digest."""
        ...

    async def forget_originals(self, session_id: str) -> int:
        """Delete the original values of the session, and nothing else; return their number.

        When this returns, no file of the store holds them any more.
        """
        ...

    async def forget_states(self, session_id: str) -> int:
        """Delete the states of the session; return their number.

        When this returns, no file of the store holds them any more.
        """
        ...

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions that were last written before *before_ns*; return their ids.

        *before_ns* is in nanoseconds since the epoch. Messages, records, originals, states and
        lease are deleted, of at most *limit* sessions, the oldest first, in one transaction: call
        it again until it returns (). A session under a lease stays. When this returns, no file of
        the store holds the deleted data any more.
        """
        ...

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the session's state *name*, as JSON; None if there is none."""
        ...

    async def swap_state(
        self,
        session_id: str,
        name: str,
        old: bytes | None,
        new: bytes | None,
        *,
        written_ns: int | None = None,
    ) -> bool:
        """Replace the state *name* by *new* if it equals *old*; return whether it did.

        Both are JSON, or None for a missing state: None creates or deletes it. The comparison and
        the write are one transaction, as durable as an append. The first state creates an unknown
        session. Cancellation does not undo the write. *written_ns* is as in `AppendRequest`.
        """
        ...

    def reader(self) -> StoreReader:
        """Return a reader of the store; close it before the store.

        It may wait for the disk or the network, so do not use it in an event loop's thread.
        """
        ...

    async def close(self) -> None:
        """Finish pending writes and close the store; a second call does nothing."""
