"""How a session is copied from one store to another: whole, resumable, and proved by digests."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from toolbus.errors import DecodeError, StoreError
from toolbus.messages.ids import new_id
from toolbus.messages.records import Message, encode
from toolbus.store.leases import LEASE_SECONDS
from toolbus.store.protocol import Original, Position, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.store.protocol import Store
    from toolbus.store.reading import MessageRow, Page, SessionRow, StoreReader

_BATCH, _BATCH_BYTES = 128, 2**22
"""How many entries are appended at the same time, and the bytes of them after which no more are."""

_VALUES = 16
"""How many originals go into one append."""


class SessionCopy(Struct, frozen=True, kw_only=True):
    """What became of the copy of one session.

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
    """What one append wrote: a message, records, or both; *size* and *digest* are of its JSON."""

    message: Message | None
    records: tuple[DispatchRecord, ...]
    size: int
    digest: bytes


def read_entries(reader: StoreReader, session: SessionRow) -> Iterator[StoredEntry]:
    """Give the entries of a session in their order; raises `DecodeError` for a damaged one.

    Up to the messages that *session* counts: what is written meanwhile is not among them.
    """
    pages, end = reader.pages(session.key), session.messages
    page = next(pages, None)
    for row in islice(reader.messages(session.key), end):
        waiting: list[Page] = []
        while page is not None and page.place <= row.seq:
            waiting.append(page)
            page = next(pages, None)
        beside = waiting.pop() if waiting and waiting[-1].with_message else None
        yield from [_entry(session, None, other) for other in waiting]
        yield _entry(session, row, beside)
    for leftover in reader.pages(session.key, end, end + 1):
        if not leftover.with_message:
            yield _entry(session, None, leftover)


def _entry(session: SessionRow, row: MessageRow | None, page: Page | None) -> StoredEntry:
    for part in (row, page):
        if part is not None and part.damage:
            raise DecodeError(part.problem_in(session.id))
    message, records = row.message if row else None, page.records if page else ()
    body = encode([message, records])
    return StoredEntry(message, records, len(body), sha256(body).digest())


async def copy_session(
    source: StoreReader, session: SessionRow, target: Store, progress: Callable[[int], None]
) -> SessionCopy:
    """Copy *session* of *source* into *target*, or go on where an earlier copy was interrupted.

    *progress* is called with the number of entries that are there. Nothing that is in *target* is
    changed: raises `StoreError` if the session there is not the beginning of this one, or if what
    is read back is not what was read here; `SessionBusyError` while somebody writes it there;
    `DecodeError` for what is damaged here.
    """
    # All of it once before anything is written: damage at its end leaves no half of it there.
    digest = digest_of(source, session)
    with target.reader() as reader:
        known = reader.session(session.id)
        if known is not None and digest_of(reader, known) == digest:
            return _report(reader, known, "unchanged", digest)
    copier = _Copier(source, session, target)
    try:
        await copier.copy(progress)
    finally:
        await copier.close()
    with target.reader() as reader:
        copy = reader.session(session.id)
        if copy is None or digest_of(reader, copy) != copier.digest:
            reason = "what was read back of it is not what was copied; check both stores"
            raise StoreError(session.id, reason)
        return _report(reader, copy, "copied", copier.digest)


def digest_of(reader: StoreReader, session: SessionRow) -> str:
    """Return the SHA-256, in hex, of messages, records, originals and states of *session*."""
    total = sha256()
    for entry in read_entries(reader, session):
        total.update(entry.digest)
    for original in reader.originals(session.key):
        total.update(_digest("original", original.digest, original.body))
    for name, body in _states(reader, session):
        total.update(_digest("state", name, body))
    return total.hexdigest()


def _digest(kind: str, name: str, body: bytes) -> bytes:
    return sha256(encode([kind, name, sha256(body).hexdigest()])).digest()


def _states(reader: StoreReader, session: SessionRow) -> Iterator[tuple[str, bytes]]:
    for state in reader.states(session.key):
        if state.body is None:
            raise DecodeError(state.problem_in(session.id))
        yield state.name, state.body


class _Copier:
    """Copies one session, as its writer in *target*."""

    def __init__(self, source: StoreReader, session: SessionRow, target: Store) -> None:
        self._source, self._session, self._target = source, session, target
        self._holder, self._leased = f"copy-{new_id()}", 0.0
        self._position = Position(0, 0)
        self._total, self._compared = sha256(), 0

    @property
    def digest(self) -> str:
        """That of what was read, as `digest_of`."""
        return self._total.hexdigest()

    async def copy(self, progress: Callable[[int], None]) -> None:
        """Append what is missing; raises as `copy_session`."""
        session_id = self._session.id
        self._position = await self._target.open_session(session_id, self._holder, LEASE_SECONDS)
        self._leased = monotonic()
        # The first append makes the session, and says when that was.
        await self._append(Stored(written_ns=self._session.created_ns, at=self._position))
        with self._target.reader() as reader:
            for batch in _batches(self._missing(reader)):
                await self._append_all(batch)
                progress(self._compared)
            await self._copy_originals(reader)
            await self._copy_states()

    async def close(self) -> None:
        """Give the lease back."""
        await self._target.extend_lease(self._session.id, self._holder, 0)

    def _missing(self, reader: StoreReader) -> Iterator[StoredEntry]:
        """Give the entries that the copy lacks, having compared those that it has."""
        copy = reader.session(self._session.id)
        there = read_entries(reader, copy) if copy else iter(())
        for number, entry in enumerate(read_entries(self._source, self._session), 1):
            self._total.update(entry.digest)
            self._compared = number
            known = next(there, None)
            if known is None:
                yield entry
            elif known.digest != entry.digest:
                raise self._conflict(f"its entry {number} is another one there")
        if next(there, None) is not None:
            raise self._conflict("it has gone on there")

    def _conflict(self, reason: str) -> StoreError:
        way_out = "nothing more of it was copied; copy it into another store, or forget it there"
        return StoreError(self._session.id, f"{reason}; {way_out}")

    async def _append_all(self, batch: list[StoredEntry]) -> None:
        """Append entries at the same time, each where those before it end."""
        appends = []
        for entry in batch:
            appends.append(self._append(self._stored(entry)))
            if entry.message is not None:
                epoch, length = self._position.epoch, self._position.length
                self._position = Position(epoch, length + 1)
        # All of them come to their end, so that none is under way when one has failed.
        results = await asyncio.gather(*appends, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        await self._keep_lease()

    def _stored(self, entry: StoredEntry) -> Stored:
        return Stored(
            message=entry.message,
            records=entry.records,
            at=self._position,
            written_ns=self._session.updated_ns,
        )

    async def _append(self, stored: Stored) -> None:
        await self._target.append(self._session.id, stored)

    async def _keep_lease(self) -> None:
        if monotonic() - self._leased > LEASE_SECONDS / 3:
            await self._target.extend_lease(self._session.id, self._holder, LEASE_SECONDS)
            self._leased = monotonic()

    async def _copy_originals(self, reader: StoreReader) -> None:
        copy, values = reader.session(self._session.id), list[Original]()
        for original in self._source.originals(self._session.key):
            self._total.update(_digest("original", original.digest, original.body))
            if copy is None or reader.original(copy.key, original.digest) is None:
                values.append(original)
            if len(values) == _VALUES:
                await self._append_values(values)
                values = []
        if values:
            await self._append_values(values)

    async def _append_values(self, values: list[Original]) -> None:
        moment = self._session.updated_ns
        stored = Stored(originals=tuple(values), at=self._position, written_ns=moment)
        await self._append(stored)
        await self._keep_lease()

    async def _copy_states(self) -> None:
        session_id, moment = self._session.id, self._session.updated_ns
        for name, body in _states(self._source, self._session):
            self._total.update(_digest("state", name, body))
            old = await self._target.read_state(session_id, name)
            swap = self._target.swap_state
            if old != body and not await swap(session_id, name, old, body, written_ns=moment):
                raise self._conflict(f"its state {name!r} changes there")


def _batches(entries: Iterator[StoredEntry]) -> Iterator[list[StoredEntry]]:
    batch: list[StoredEntry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += entry.size
        if len(batch) == _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _report(
    reader: StoreReader,
    copy: SessionRow,
    status: Literal["copied", "unchanged"],
    digest: str,
) -> SessionCopy:
    return SessionCopy(
        session=copy.id,
        status=status,
        messages=copy.messages,
        records=copy.records,
        originals=sum([1 for _ in reader.originals(copy.key)]),
        states=sum([1 for _ in reader.states(copy.key)]),
        digest=digest,
    )
