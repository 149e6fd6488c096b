"""The calls of a session that their framework has paused, also for its next process."""

from __future__ import annotations

import logging
import os
from hashlib import blake2b
from typing import TYPE_CHECKING

from toolbus.messages.codec import encode
from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.settings.user_key import value_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.events.catalogue import Ask
    from toolbus.messages.records import Message, ToolCall
    from toolbus.store.protocol import Store
    from toolbus.transcript.session_log import CallRecord, SessionLog

logger = logging.getLogger("toolbus")

_STATE = "bridges/paused/"
_OWN_KEY = os.urandom(32)


class PausedCalls:
    """The paused calls of the session of *log*; with a *store* another process finds them too.

    Each has its record, which lacks a result, and the digest of its question. An answer of the user
    is an answer to that question only, and only once: a framework may keep it by the id of the
    call, which a model can repeat.
    """

    def __init__(self, log: SessionLog, store: Store | None) -> None:
        self._log, self._store = log, store
        self._records: dict[str, CallRecord] = {}
        # By call id; "" once the call has ended.
        self._digests: dict[str, str] = {}
        self._stored: set[str] = set()

    def __bool__(self) -> bool:
        # With a store, a later session finds them.
        return bool(self._records) and self._store is None

    async def take(self, call_id: str) -> CallRecord:
        """Return the record of the paused call, or a new one."""
        record = self._records.pop(call_id, None)
        if record is not None or self._store is None:
            return record or self._log.call_record()
        session_id = self._log.session_id
        state = await self._store.read_state(session_id, _STATE + call_id)
        if state is None:
            return self._log.call_record()
        self._stored.add(call_id)
        asked = _unanswered(await self._store.read(session_id), call_id)
        if asked and (digest := state.decode().strip('"')):
            self._digests.setdefault(call_id, digest)
        return self._log.call_record(asked)

    def fits(self, call: ToolCall, ask: Ask) -> bool:
        """Return whether the user was asked this question about the call, or none; note it."""
        key = (value_key(durable=self._store.durable) if self._store else None) or _OWN_KEY
        question = encode((call.name, call.arguments, ask.prompt))
        digest = blake2b(question, key=key, digest_size=16).hexdigest()
        return self._digests.setdefault(call.id, digest) == digest

    def unask(self, call_id: str) -> None:
        """Note that the framework has left the question to the approver."""
        self._digests.pop(call_id, None)

    async def keep(self, call_id: str, record: CallRecord) -> None:
        """Keep the call, which has paused."""
        self._records[call_id] = record
        await record.flush()
        if self._store is not None:
            self._stored.add(call_id)
            await self._swap(call_id, f'"{self._digests.get(call_id, "")}"'.encode())

    def spend(self, call_id: str) -> None:
        """Let no later call of this run use the answer to the question of this one."""
        if call_id in self._digests:
            self._digests[call_id] = ""

    async def end(self, call_id: str) -> None:
        """Forget the call, which has its result."""
        self.spend(call_id)
        if call_id in self._stored:
            self._stored.discard(call_id)
            try:
                await self._swap(call_id, None)
            except Exception as error:  # noqa: BLE001 - the call has run, and `take` knows its end
                logger.warning("a paused call is not marked as ended: %s", error)

    def begin_run(self) -> None:
        """Forget the answers of the run before: no framework keeps them for the next."""
        self._digests = {call_id: digest for call_id, digest in self._digests.items() if digest}

    async def _swap(self, call_id: str, new: bytes | None) -> None:
        assert self._store is not None  # noqa: S101 - its callers have checked it
        session_id, name = self._log.session_id, _STATE + call_id
        old = await self._store.read_state(session_id, name)
        if old != new:
            await self._store.swap_state(session_id, name, old, new)


def _unanswered(messages: Iterable[Message], call_id: str) -> list[Message]:
    """Return the message of the call, unless it has its result: a model may repeat an id."""
    asked: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if any(call.id == call_id for call in message.tool_calls):
                asked = [message]
        elif isinstance(message, ToolMessage) and message.tool_call_id == call_id:
            asked = []
    return asked
