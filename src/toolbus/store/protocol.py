"""The Store protocol: the messages of sessions, with ledger records, originals and states.

`toolbus.testing.check_store` tries its promises on any store.
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
    """A value as the ledger knows it, by its digest; *body* is its JSON.

    >>> Original(digest="d1", body=b'"secret"').body
    b'"secret"'
    """

    digest: str
    body: bytes


def originals_of(records: Iterable[DispatchRecord]) -> tuple[Original, ...]:
    """Return the values in *records* that are not in the transcript anyway, each once."""
    values = {digest: value for record in records for digest, value in _values_of(record) if digest}
    return tuple([Original(digest=digest, body=encode(value)) for digest, value in values.items()])


def _values_of(record: DispatchRecord) -> Iterator[tuple[str, object]]:
    changes = [entry for entry in record.entries if entry.before is not None]
    # What passed as it was is the message or the call itself. And the request of each turn, with
    # all messages so far, would make the file grow with the square of the session.
    if changes or record.outcome not in {"observed", "unchanged"}:
        yield record.original, record.value
    for entry in record.entries:
        if entry.detail is not None:
            yield entry.detail_digest, entry.detail
    for entry in changes:
        yield entry.before or "", entry.value_before
        yield entry.after or "", entry.value_after


class Position(Struct, frozen=True):
    """Where a session stands: the *epoch* of its writer, and how many messages it has.

    >>> asyncio.run(MemoryStore().open_session("s1", "me", 30))
    Position(epoch=1, length=0)
    """

    epoch: int
    length: int


class Stored(Struct, frozen=True, kw_only=True):
    """What one append writes, all or nothing: a message, ledger records, or both.

    *before* are messages that go in right before it, as a call before its answer, or results that
    were ready at the same time. *at* is where the writer believes the session to stand: if it
    stands elsewhere, nothing is written. None asks for nothing, as for records, which any process
    may add.

    Of *records* the digests are kept, and values and details dropped: what a guard refused must
    not come back through the ledger. *originals* are those that a session opted in to keep.
    *written_ns*, in nanoseconds since the epoch, is when a copy was first written; None: now.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", Stored(message=UserMessage(content="hello"))))
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
    """A line of the list of sessions; times are nanoseconds since the epoch.

    >>> store = MemoryStore()
    >>> asyncio.run(store.append("s1", Stored(message=UserMessage(content="hello"))))
    >>> [(session.id, session.messages) for session in asyncio.run(store.sessions())]
    [('s1', 1)]
    """

    id: str
    messages: int
    created_ns: int
    updated_ns: int


class Store(Protocol):
    """Keeps sessions: appends to them, reads them back, never changes what is there.

    Every method may be called from any thread and event loop; after `close` each raises
    `ClosedError`. What cannot be read or written raises `StoreError`.

    >>> store: Store = MemoryStore()
    >>> asyncio.run(store.swap_state("s1", "count", None, b"1"))
    True
    >>> asyncio.run(store.read_state("s1", "count"))
    b'1'
    """

    @property
    def durable(self) -> bool:
        """Whether an append outlives the process."""

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return where it stands.

        From now on the appends of an earlier writer are refused. The lease, for
        *seconds*, keeps others from opening it meanwhile: while that of another holder lasts,
        and its process does, this raises `SessionBusyError`.
        """
        ...

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once; of another it is left."""

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session, which its first append makes.

        When it returns, the append is as durable as the store ever makes it; when it raises
        `StoreError`, or `SessionBusyError` since the session does not stand where *stored* says,
        nothing of it is there. Cancelling it does not take the write back.
        """

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order; of an unknown session none."""
        ...

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        ...

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order; of an unknown session none."""
        ...

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the values that the session kept, each once, by their digests."""
        ...

    async def forget_originals(self, session_id: str) -> int:
        """Delete the values that the session kept, and nothing else; return how many there were.

        When it returns, no file of the store holds them any more.
        """
        ...

    async def forget_states(self, session_id: str) -> int:
        """Delete the states of the session; return how many there were.

        When it returns, no file of the store holds them any more.
        """
        ...

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions that were last written before *before_ns*; return their ids.

        In nanoseconds since the epoch. Whole: messages, records, originals, states and
        lease; at most *limit* sessions, the oldest first, in one transaction: call it again until
        it returns none. A session whose lease lasts is left. When it
        returns, no file of the store holds them any more.
        """
        ...

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the JSON that is kept for the session under *name*; None if there is none."""
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
        """Put *new* where *old* stands, or return False if something else stands there.

        Both are JSON, or None for nothing: so it is made or deleted. The comparison and the write
        are one transaction, and the write as durable as an append. Of an unknown session the first
        state makes it. Cancelling it does not take the write back. *written_ns* is as in `Stored`.
        """
        ...

    def reader(self) -> StoreReader:
        """Return a reader of the store, which must be closed before the store is.

        It may wait for the disk or the network, so it is not for an event loop's thread.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that were begun and close the store; a second call does nothing."""
