"""The copy of a session in another store: whole, continued where it stopped, proved by a digest."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from toolbus.errors import StoreError
from toolbus.messages.ids import new_id
from toolbus.messages.records import Message, encode
from toolbus.store.leases import LEASE_SECONDS
from toolbus.store.protocol import AppendRequest, Position
from toolbus.store.store_reader import whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.store.protocol import Store
    from toolbus.store.store_reader import MessageRow, RecordBatch, SessionRow, StoreReader

_BATCH, _BATCH_BYTES = 128, 2**22
"""How many entries are appended at the same time, and the bytes of them after which no more are."""

_VALUES = 16
"""How many originals go into one append."""


class SessionCopy(Struct, frozen=True, kw_only=True):
    """The outcome of the copy of one session.

    "unchanged": it was there already. *digest* is the SHA-256 of all that it holds, as it was read
    back from the copy. *reason* says why it failed.
    """

    session: str
    status: Literal["copied", "unchanged", "failed"]
    messages: int = 0
    records: int = 0
    originals: int = 0
    states: int = 0
    digest: str = ""
    reason: str = ""


class StoredEntry(NamedTuple):
    """The message and records of one append; *size* and *digest* are of its JSON."""

    message: Message | None
    records: tuple[DispatchRecord, ...]
    size: int
    digest: bytes


class SessionContents(NamedTuple):
    """The digests of a session's entries and originals, and its states."""

    entries: list[bytes]
    originals: dict[str, bytes]
    states: dict[str, bytes]

    @property
    def digest(self) -> str:
        """The SHA-256 of all of it, in hex."""
        states = [_digest("state", name, body) for name, body in self.states.items()]
        return sha256(b"".join([*self.entries, *self.originals.values(), *states])).hexdigest()


def read_contents(reader: StoreReader, session: SessionRow) -> SessionContents:
    """Return the contents of *session*; raises `DecodeError` for a damaged row."""
    entries = [entry.digest for entry in read_entries(reader, session)]
    originals = {
        original.digest: _digest("original", original.digest, original.body)
        for original in reader.originals(session.key)
    }
    states = [whole(state, session.id) for state in reader.states(session.key)]
    return SessionContents(entries, originals, {name: body or b"" for name, body, _ in states})


def _digest(kind: str, name: str, body: bytes) -> bytes:
    return sha256(encode([kind, name, sha256(body).hexdigest()])).digest()


def read_entries(reader: StoreReader, session: SessionRow) -> Iterator[StoredEntry]:
    """Give the entries of a session in their order; raises `DecodeError` for a damaged one.

    Up to the messages that *session* counts, without those that are written meanwhile.
    """
    batches, end = reader.record_batches(session.key), session.messages
    batch = next(batches, None)
    for row in islice(reader.messages(session.key), end):
        waiting: list[RecordBatch] = []
        while batch is not None and batch.message_seq <= row.seq:
            waiting.append(batch)
            batch = next(batches, None)
        beside = waiting.pop() if waiting and waiting[-1].with_message else None
        yield from [_entry(session, None, other) for other in waiting]
        yield _entry(session, row, beside)
    for leftover in reader.record_batches(session.key, end, end + 1):
        if not leftover.with_message:
            yield _entry(session, None, leftover)


def _entry(session: SessionRow, row: MessageRow | None, batch: RecordBatch | None) -> StoredEntry:
    message = whole(row, session.id).message if row else None
    records = whole(batch, session.id).records if batch else ()
    body = encode([message, records])
    return StoredEntry(message, records, len(body), sha256(body).digest())


async def copy_session(
    source: StoreReader, session: SessionRow, target: Store, progress: Callable[[int], None]
) -> SessionCopy:
    """Copy *session* of *source* into *target*, or go on where an earlier copy was interrupted.

    *progress* is called with the number of entries that are there. No row of *target* is changed:
    raises `StoreError` if the session there is not the beginning of this session, or if the copy
    that is read back differs; `SessionBusyError` while another writer has the session there;
    `DecodeError` for a damaged row here.
    """
    contents = read_contents(source, session)
    with target.reader() as reader:
        known = reader.session(session.id)
        there = read_contents(reader, known) if known else SessionContents([], {}, {})
    is_there = known is not None and there.digest == contents.digest
    if not is_there:
        _check_beginning(session.id, there.entries, contents.entries)
        copier = _Copier(source, session, target)
        await copier.open(known.messages if known else 0)
        try:
            await copier.copy(contents, there, progress)
        finally:
            await copier.keep(0)
    with target.reader() as reader:
        copy = reader.session(session.id)
        if copy is None or read_contents(reader, copy).digest != contents.digest:
            reason = "what was read back of it is not what was copied; check both stores"
            raise StoreError(session.id, reason)
    return SessionCopy(
        session=copy.id,
        status="unchanged" if is_there else "copied",
        messages=copy.messages,
        records=copy.records,
        originals=len(contents.originals),
        states=len(contents.states),
        digest=contents.digest,
    )


def _check_beginning(session_id: str, there: list[bytes], entries: list[bytes]) -> None:
    """Raise `StoreError` if the entries that are *there* are not the first of *entries*."""
    for number, (known, entry) in enumerate(zip(there, entries, strict=False), 1):
        if known != entry:
            raise _conflict(session_id, f"its entry {number} is another one there")
    if len(there) > len(entries):
        raise _conflict(session_id, "it has gone on there")


def _conflict(session_id: str, reason: str) -> StoreError:
    way_out = "nothing more of it was copied; copy it into another store, or forget it there"
    return StoreError(session_id, f"{reason}; {way_out}")


def _next_batch(entries: Iterator[StoredEntry]) -> list[StoredEntry]:
    """Return the next entries, bounded in number and bytes."""
    batch: list[StoredEntry] = []
    size = 0
    for entry in islice(entries, _BATCH):
        batch.append(entry)
        if (size := size + entry.size) >= _BATCH_BYTES:
            break
    return batch


class _Copier:
    """Appends to one session, as its writer in *target*."""

    def __init__(self, source: StoreReader, session: SessionRow, target: Store) -> None:
        self._source, self._session, self._target = source, session, target
        self._holder = f"copy-{new_id()}"
        self._position = Position(0, 0)

    async def open(self, length: int) -> None:
        """Become the writer of the session, which must still have *length* messages."""
        session_id = self._session.id
        self._position = await self._target.open_session(session_id, self._holder, LEASE_SECONDS)
        if self._position.length != length:
            await self.keep(0)
            raise _conflict(session_id, "it has gone on there")

    async def keep(self, seconds: float) -> None:
        """Keep the lease for *seconds* from now on."""
        await self._target.extend_lease(self._session.id, self._holder, seconds)

    async def copy(
        self, contents: SessionContents, there: SessionContents, progress: Callable[[int], None]
    ) -> None:
        """Append what *contents* has and *there* lacks; raises as `copy_session`."""
        done, end = len(there.entries), len(contents.entries)
        moment = self._session.updated_ns
        # The first append makes the session, and says when that was.
        await self._append(AppendRequest(written_ns=self._session.created_ns))
        entries = islice(read_entries(self._source, self._session), done, end)
        while batch := _next_batch(entries):
            await self._append_all(batch)
            done += len(batch)
            progress(done)
        missing = contents.originals.keys() - there.originals.keys()
        originals = (
            each for each in self._source.originals(self._session.key) if each.digest in missing
        )
        while values := tuple(islice(originals, _VALUES)):
            await self._append(AppendRequest(originals=values, written_ns=moment))
        for name, body in contents.states.items():
            await self._copy_state(name, there.states.get(name), body)

    async def _append_all(self, batch: list[StoredEntry]) -> None:
        """Append entries at the same time, each where those before it end."""
        appends, moment = [], self._session.updated_ns
        for entry in batch:
            request = AppendRequest(message=entry.message, records=entry.records, written_ns=moment)
            appends.append(self._append(request))
            epoch, length = self._position.epoch, self._position.length
            self._position = Position(epoch, length + len(request.messages))
        # All of them come to their end, so that none is under way when one has failed.
        for result in await asyncio.gather(*appends, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        await self.keep(LEASE_SECONDS)

    def _append(self, request: AppendRequest) -> Awaitable[None]:
        """Append at the present position."""
        return self._target.append(self._session.id, replace(request, at=self._position))

    async def _copy_state(self, name: str, old: bytes | None, new: bytes) -> None:
        moment = self._session.updated_ns
        swap = self._target.swap_state
        if old != new and not await swap(self._session.id, name, old, new, written_ns=moment):
            raise _conflict(self._session.id, f"its state {name!r} changes there")
