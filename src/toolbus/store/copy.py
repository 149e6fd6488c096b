"""The copy of a session to another store: complete, resumable, and verified by a digest."""

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
"""The most entries appended at the same time, and the bytes after which no more are added."""

_VALUES = 16
"""The most originals of one append."""


class SessionCopy(Struct, frozen=True, kw_only=True):
    """The outcome of the copy of one session.

    "unchanged" is a session that was copied before. *digest* is the SHA-256 of its contents, read
    back from the copy. *reason* is the reason of a failure.
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
    """The message and records of one append, with the *size* and the *digest* of their JSON."""

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
        """The SHA-256 of the contents, in hex."""
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
    """Yield the entries of a session in order; raises `DecodeError` for a damaged one.

    Messages written after *session* was read are excluded.
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
    for unattached in reader.record_batches(session.key, end, end + 1):
        if not unattached.with_message:
            yield _entry(session, None, unattached)


def _entry(session: SessionRow, row: MessageRow | None, batch: RecordBatch | None) -> StoredEntry:
    message = whole(row, session.id).message if row else None
    records = whole(batch, session.id).records if batch else ()
    body = encode([message, records])
    return StoredEntry(message, records, len(body), sha256(body).digest())


async def copy_session(
    source: StoreReader, session: SessionRow, target: Store, progress: Callable[[int], None]
) -> SessionCopy:
    """Copy *session* of *source* to *target*, or resume an interrupted copy.

    *progress* is called with the number of copied entries. Existing rows of *target* never change:
    raises `StoreError` if its session is not a prefix of this session, or if the copy that is read
    back differs; `SessionBusyError` while another writer has the session in *target*;
    `DecodeError` for a damaged row of *source*.
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
            reason = "the copy differs from the original when read back; check both stores"
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
    """Raise `StoreError` unless *there*, the entries of the target, are a prefix of *entries*."""
    for number, (known, entry) in enumerate(zip(there, entries, strict=False), 1):
        if known != entry:
            raise _conflict(session_id, f"its entry {number} differs in the target")
    if len(there) > len(entries):
        raise _conflict(session_id, "it has more entries in the target")


def _conflict(session_id: str, reason: str) -> StoreError:
    way_out = "nothing more of it was copied; copy it to another store, or forget it in the target"
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
    """The writer of one session in *target*, which copies it from *source*."""

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
            raise _conflict(session_id, "it has more entries in the target")

    async def keep(self, seconds: float) -> None:
        """Extend the lease to *seconds* from now."""
        await self._target.extend_lease(self._session.id, self._holder, seconds)

    async def copy(
        self, contents: SessionContents, there: SessionContents, progress: Callable[[int], None]
    ) -> None:
        """Append what *contents* has and *there* lacks; raises as `copy_session`."""
        done, end = len(there.entries), len(contents.entries)
        moment = self._session.updated_ns
        # The first append creates the session, at its original time.
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
        """Append entries concurrently, each at the position where the previous one ends."""
        appends, moment = [], self._session.updated_ns
        for entry in batch:
            request = AppendRequest(message=entry.message, records=entry.records, written_ns=moment)
            appends.append(self._append(request))
            epoch, length = self._position.epoch, self._position.length
            self._position = Position(epoch, length + len(request.messages))
        # Wait for all of them, so that none is pending when one has failed.
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
            raise _conflict(self._session.id, f"its state {name!r} was changed in the target")
