"""The log of a session outside an agent: concurrent calls with their results, and the ledger."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from toolbus.events.catalogue import MODEL_CALL_DELTA
from toolbus.store.protocol import AppendRequest
from toolbus.store.write_behind import MAX_WAITING, WriteBehind
from toolbus.tasks.shield import shield_until_done
from toolbus.transcript.transcript import Transcript, store_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Store
    from toolbus.transcript.transcript import AdmittedMessage

logger = logging.getLogger("toolbus")

_SOON = 0.005
"""Seconds for which a call waits to be written together with its response."""


class SessionLog:
    """The log of the session *session_id* in *store*; None keeps nothing.

    *discard* is called with the session's id at its end, to free the components' memory of it.
    """

    def __init__(
        self,
        bus: EventBus,
        session_id: str,
        store: Store | None,
        discard: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.session_id, self._discard = session_id, discard
        self._bus, self._store = bus, store
        self.stores = store is not None
        # Whether a call may reach the server before it is written: only after a successful write.
        self.works = False
        self.waiting: set[CallRecord] = set()
        self._unsaved = WriteBehind(MAX_WAITING)
        self._end_tap: Callable[[], None] | None = None
        if store:
            add, without = self._unsaved.add, (MODEL_CALL_DELTA,)
            self._end_tap = bus.tap(add, idle=False, without=without, session_id=session_id)

    def call_record(
        self, messages: Sequence[Message] = (), *, sheltered: bool = False
    ) -> CallRecord:
        """Return the record of a call and its response.

        *messages* are already stored: a call that was left open. *sheltered* as in `Transcript`.
        """
        transcript = Transcript(self._bus, self.session_id, None, messages, sheltered=sheltered)
        return CallRecord(self, transcript, messages[-1] if messages else None)

    async def flush(self) -> None:
        """Write the waiting calls and records."""
        await asyncio.gather(*[record.flush() for record in self.waiting], return_exceptions=True)
        if self.stores:
            await self._unsaved.flush(self.write, "are lost")

    async def close(self) -> None:
        """Write the waiting calls and the last records."""
        self._discard(self.session_id)
        if self._end_tap is None:
            return
        self._end_tap()
        await self.flush()

    async def write(self, message: Message | None = None, *before: Message) -> None:
        """Write *before* and then *message*, with the records so far; raises `StoreError`."""
        assert self._store is not None  # noqa: S101 - called only with a store
        try:
            with self._unsaved.taking() as records:
                stored = AppendRequest(message=message, before=before, records=records)
                await self._store.append(self.session_id, stored)
        except Exception as error:  # noqa: BLE001 - raised as a `StoreError`
            self.works = False
            raise store_error(self.session_id, error)  # noqa: B904 - the cause is set
        self.works = True


class CallRecord:
    """The messages of one call and its response, adjacent in a *transcript* of their own.

    A separate transcript keeps concurrent calls apart and bounds the memory of a long session. A
    call is written together with its response if that comes soon, which saves a commit. *asked* is
    the message of the call as admitted.
    """

    def __init__(self, log: SessionLog, transcript: Transcript, asked: Message | None) -> None:
        self._log, self._transcript, self.asked = log, transcript, asked
        self._unwritten: tuple[AdmittedMessage, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    async def ask(self, message: Message, scope: Scope) -> Message:
        """Admit the message of the call, write it now or soon, and return it as admitted."""
        entering = await self._transcript.prepare(message, scope, is_written=self._log.stores)
        self.asked = entering.message
        if self._log.works:
            self._unwritten = (entering,)
            self._log.waiting.add(self)
            self._timer = asyncio.get_running_loop().call_later(_SOON, self._write_soon)
        else:
            await self._write(entering)
        return entering.message

    async def answer(self, message: Message, scope: Scope, tool: ToolSpec | None = None) -> Message:
        """Append the response after the call, and return it as appended."""
        is_written = self._log.stores
        entering = await self._transcript.prepare(message, scope, tool, is_written=is_written)
        if self._writing is not None:
            await asyncio.shield(self._writing)
        await self._write(*self._claim(), entering)
        return entering.message

    async def flush(self) -> None:
        """Write the call now, if it is still unwritten."""
        if self._unwritten:
            await asyncio.shield(self._write_soon())

    async def _write(self, *entering: AdmittedMessage) -> None:
        """Write messages in one commit and announce them, shielded from a cancellation."""
        if self._log.stores:
            await shield_until_done(partial(self._write_now, *entering))
            return
        for each in entering:
            await self._transcript.announce(each)

    async def _write_now(self, *entering: AdmittedMessage) -> None:
        *before, answer = [each.copy for each in entering]
        await self._log.write(answer, *before)
        for each in entering:
            await self._transcript.announce(each)

    def _claim(self) -> tuple[AdmittedMessage, ...]:
        """Claim and return the unwritten call, so that it is written once."""
        taken, self._unwritten = self._unwritten, ()
        self._log.waiting.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        return taken

    def _write_soon(self) -> asyncio.Task[None]:
        self._writing = asyncio.create_task(self._write_now(*self._claim()))
        self._writing.add_done_callback(_log_failure)
        return self._writing


def _log_failure(writing: asyncio.Future[None]) -> None:
    if not writing.cancelled() and (error := writing.exception()) is not None:
        logger.warning("a call was not written: %s", error)
