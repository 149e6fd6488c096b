"""The messages and records of one host event, and the store that appends them atomically."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from time import time_ns
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.hosts.run import hook_client
from toolbus.messages.ids import new_id
from toolbus.store.jobs import TransactionJob
from toolbus.store.protocol import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_reader import whole_messages
from toolbus.store.write_behind import MAX_WAITING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from toolbus.events.catalogue import Scope
    from toolbus.hosts.run.shared_sessions import SharedSessions
    from toolbus.messages.records import Message, UserMessage
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.sqlite.writes import Writes
    from toolbus.transcript.transcript import AdmittedMessage

    Redact: TypeAlias = Callable[[str, Scope], Awaitable[str]]


_AGAIN = hook_client.AGAIN.decode()
_FAILURES = frozenset({"failed", "timeout", "contract"})


class HookStore(SqliteStore):
    """An SQLite store with the operations of hooks, whose events may arrive twice."""

    async def append_once(
        self, session_id: str, messages: Sequence[Message], records: Sequence[DispatchRecord]
    ) -> bool:
        """Append *records* and the *messages* whose ids the session does not have, atomically.

        Return False, and write nothing, if the session has all of the messages.
        """

        def work(writes: Writes) -> bool:
            new = [each for each in messages if not writes.has_message(session_id, each.id)]
            if not new and (messages or not records):
                return False
            request = AppendRequest(before=tuple(new), records=tuple(records))
            writes.insert(session_id, request)
            return True

        return bool(await self._write(TransactionJob(work)))

    async def length(self, session_id: str) -> int:
        """Return the number of messages of the session, 0 for an unknown session."""
        session = await self._query(lambda reader: reader.session(session_id))
        return 0 if session is None else session.messages

    async def read_call(self, session_id: str, call_id: str) -> tuple[Message, ...]:
        """Return the messages of the session that request or answer the call, in order."""

        def of_call(reader: SqlReader) -> tuple[Message, ...]:
            session = reader.session(session_id)
            rows = [] if session is None else reader.messages_of_call(call_id, session.key)
            return whole_messages(rows, session_id)

        return await self._query(of_call)

    async def read_latest(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return the last *count* messages of the session, in order."""

        def latest(reader: SqlReader) -> tuple[Message, ...]:
            session = reader.session(session_id)
            if session is None:
                return ()
            rows = reader.messages(session.key, max(0, session.messages - count))
            return whole_messages(rows, session_id)

        return await self._query(latest)


class EventLog:
    """The accepted messages of one event, and the records of its dispatches.

    *message_id* is the id of the event's own message. *is_retry* is whether a killed worker may
    have judged the event already. *redact* removes secrets from a text. *enqueued* has messages
    that handlers queued for the model during the event; *fills* is whether redacted values are
    restored in files that a call writes.
    """

    def __init__(self, scope: Scope, event_id: str, redact: Redact) -> None:
        self.scope, self._redact = scope, redact
        own_id = event_id.removesuffix(_AGAIN)
        self.is_retry = own_id != event_id
        self.message_id = f"{scope.session_id}/{own_id or new_id()}"
        self.messages: list[AdmittedMessage] = []
        self.records: list[DispatchRecord] = []
        self.enqueued: list[UserMessage] = []
        self.fills = self.is_written = False

    @property
    def has_failure(self) -> bool:
        """Whether a handler of the event has failed so far."""
        entries = [entry for record in self.records for entry in record.entries]
        return any(entry.status in _FAILURES for entry in entries)

    async def redacted(self, text: str | None) -> str | None:
        """Return *text* without secrets; None for None."""
        return None if text is None else await self._redact(text, self.scope)

    def note(self, event: str, reason: str, subject: str = "", call_id: str = "") -> None:
        """Add a ledger record without a dispatch."""
        record = DispatchRecord(
            event=event,
            scope=self.scope,
            subject=subject,
            call_id=call_id,
            started_ns=time_ns(),
            duration_ns=0,
            outcome="observed",
            reason=reason,
            original="",
        )
        self.records.append(record)


_CURRENT: ContextVar[EventLog | None] = ContextVar("toolbus_hook_event", default=None)


class EventLogs:
    """The logs of all concurrently handled events, which are written to *store*.

    *redact* removes secrets from the reasons of records, which may quote a refused value. Records
    of observers that end after their event was written are written with the next event of the
    session, or at the end. *shared* learns the number of written messages.
    """

    def __init__(self, store: HookStore, redact: Redact, shared: SharedSessions | None) -> None:
        self._store, self._redact, self._shared = store, redact, shared
        self._late: dict[str, list[DispatchRecord]] = {}

    @property
    def current(self) -> EventLog | None:
        """The log of the event handled in this context."""
        return _CURRENT.get()

    @contextmanager
    def collecting(self, scope: Scope, event_id: str) -> Iterator[EventLog]:
        """Return a context with the log of an event in *scope*, which is handled inside."""
        log = EventLog(scope, event_id, self._redact)
        token = _CURRENT.set(log)
        try:
            yield log
        finally:
            log.is_written = True
            _CURRENT.reset(token)

    def add(self, record: DispatchRecord) -> None:
        """Add *record* to the log of the event that produced it."""
        log = _CURRENT.get()
        if log is not None and not log.is_written:
            log.records.append(record)
            return
        late = self._late.setdefault(record.scope.session_id, [])
        if len(late) < MAX_WAITING:
            late.append(record)

    async def write(self, log: EventLog) -> None:
        """Write *log* and the late records of its session; raises `StoreError`.

        Messages that the session has already are not written again.
        """
        session_id = log.scope.session_id
        late = self._late.pop(session_id, [])
        copies = [entering.copy for entering in log.messages]
        log.is_written = True
        try:
            records = [await self._redacted(record) for record in (*late, *log.records)]
            is_new = await self._store.append_once(session_id, copies, records)
            if is_new and self._shared is not None:
                self._shared.add(session_id, len(copies))
        except Exception:
            self._late[session_id] = [*late, *self._late.get(session_id, [])]
            raise

    async def close(self) -> None:
        """Write the late records."""
        while self._late:
            session_id, late = self._late.popitem()
            records = [await self._redacted(record) for record in late]
            await self._store.append(session_id, AppendRequest(records=tuple(records)))

    async def _redacted(self, record: DispatchRecord) -> DispatchRecord:
        """Return *record* without secrets in its reasons."""
        if record.reason is None and all(entry.reason is None for entry in record.entries):
            return record
        entries = []
        for entry in record.entries:
            reason = entry.reason and await self._redact(entry.reason, record.scope)
            entries.append(replace(entry, reason=reason))
        reason = record.reason and await self._redact(record.reason, record.scope)
        return replace(record, reason=reason, entries=tuple(entries))
