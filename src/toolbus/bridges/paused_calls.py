"""The calls of a session that their framework has paused, also for its next process."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING

from toolbus.messages.codec import encode
from toolbus.messages.records import AssistantMessage
from toolbus.settings.user_key import value_key

if TYPE_CHECKING:
    from toolbus.events.catalogue import Ask
    from toolbus.messages.records import Message, ToolCall
    from toolbus.store.protocol import Store
    from toolbus.transcript.session_log import CallRecord, SessionLog

_STATE = "bridges/paused/"
_OWN_KEY = os.urandom(32)


class PausedCalls:
    """The paused calls of the session of *log*; with a *store* another process finds them too.

    Each has its record, which lacks a result, and the digest of its question. An answer of the user
    is an answer to that question only.
    """

    def __init__(self, log: SessionLog, store: Store | None) -> None:
        self._log, self._store = log, store
        self._records: dict[str, CallRecord] = {}
        self._digests: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._records)

    async def take(self, call_id: str) -> CallRecord:
        """Return the record of the paused call, or a new one."""
        record = self._records.pop(call_id, None)
        if record is not None or self._store is None:
            return record or self._log.call_record()
        session_id = self._log.session_id
        state = await self._store.read_state(session_id, _STATE + call_id)
        if state is None:
            return self._log.call_record()
        self._digests[call_id] = state.decode().strip('"')
        messages = await self._store.read(session_id)
        asked = [each for each in messages if _requests(each, call_id)]
        return self._log.call_record(asked[-1:])

    def fits(self, call: ToolCall, ask: Ask) -> bool:
        """Return whether the user was last asked about the same call, or not at all; note it."""
        key = (value_key(durable=self._store.durable) if self._store else None) or _OWN_KEY
        question = encode((call.name, call.arguments, ask.prompt))
        digest = blake2b(question, key=key, digest_size=16).hexdigest()
        shown, self._digests[call.id] = self._digests.get(call.id, digest), digest
        return shown == digest

    async def keep(self, call_id: str, record: CallRecord) -> None:
        """Keep the call, which has paused."""
        self._records[call_id] = record
        await record.flush()
        if self._store is not None:
            await self._swap(call_id, f'"{self._digests.get(call_id, "")}"'.encode())

    async def end(self, call_id: str) -> None:
        """Forget the call, which has its result."""
        if self._digests.pop(call_id, None) is not None and self._store is not None:
            await self._swap(call_id, None)

    async def _swap(self, call_id: str, new: bytes | None) -> None:
        assert self._store is not None  # noqa: S101 - its callers have checked it
        session_id, name = self._log.session_id, _STATE + call_id
        old = await self._store.read_state(session_id, name)
        if old != new:
            await self._store.swap_state(session_id, name, old, new)


def _requests(message: Message, call_id: str) -> bool:
    if not isinstance(message, AssistantMessage):
        return False
    return any(call.id == call_id for call in message.tool_calls)
