"""What is kept of a client's session: its messages and its ledger, in a store if there is one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolbus.events.catalogue import MODEL_CALL_DELTA
from toolbus.messages.records import AssistantMessage
from toolbus.store.protocol import Stored
from toolbus.store.write_behind import MAX_WAITING, WriteBehind
from toolbus.transcript.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.bus.bus import EventBus
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus")

_SOON = 0.005
"""Seconds that a call waits for its answer, to be written with it."""


class SessionLog:
    """Writes the session *session_id* to *store*; without one it keeps nothing.

    *discard* is told at its end which session is over, for what components keep in memory.
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
        # Whether a call may go to the server before it is written: if the last write was good.
        self.works = False
        self.waiting: set[CallWriter] = set()
        self._unsaved = WriteBehind(MAX_WAITING)
        self._end_tap = (
            bus.tap(
                self._unsaved.add, idle=False, without=(MODEL_CALL_DELTA,), session_id=session_id
            )
            if store
            else None
        )

    @property
    def stores(self) -> bool:
        """Whether anything is kept."""
        return self._store is not None

    def transcript(self, *, sheltered: bool = False) -> Transcript:
        """Return the transcript of one call and its answer; *sheltered* as a transcript has it.

        A client may have many calls under way, and a proxy runs for weeks: so each has one of
        its own, in which the call and its answer are next to each other.
        """
        if self._store is None:
            return Transcript(self._bus, self.session_id, None, sheltered=sheltered)
        return Transcript(self._bus, self.session_id, CallWriter(self), sheltered=sheltered)

    async def close(self) -> None:
        """Write what waits, and the last records."""
        self._discard(self.session_id)
        if self._end_tap is None:
            return
        self._end_tap()
        await asyncio.gather(*[writer.flush() for writer in self.waiting], return_exceptions=True)
        await self._unsaved.flush(self.write, "are lost")

    async def write(self, message: Message | None = None, *before: Message) -> None:
        """Write *message*, right after *before*, with the records so far."""
        if self._store is None:
            return
        try:
            with self._unsaved.taking() as records:
                stored = Stored(message=message, before=before, records=records)
                await self._store.append(self.session_id, stored)
        except Exception:
            self.works = False
            raise
        self.works = True


class CallWriter:
    """Writes a call and its answer: at once if the answer comes soon, which is one commit less."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._call: Message | None = None
        self._written: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, message: Message) -> None:
        """Write *message*; a call may wait for its answer before, but not long."""
        if isinstance(message, AssistantMessage) and self._log.works:
            await self._wait(message)
        elif (call := self._take()) is not None:
            await self._settle(self._log.write(message, call))
        else:
            if self._written is not None:
                await asyncio.shield(self._written)
            await self._log.write(message)

    async def _wait(self, call: Message) -> None:
        loop = asyncio.get_running_loop()
        self._call, self._written = call, loop.create_future()
        self._log.waiting.add(self)
        self._timer = loop.call_later(_SOON, self._write_call)
        await asyncio.shield(self._written)

    async def flush(self) -> None:
        """Write the call now."""
        if (call := self._take()) is not None:
            await self._settle(self._log.write(call))

    def _take(self) -> Message | None:
        call, self._call = self._call, None
        self._log.waiting.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        return call

    def _write_call(self) -> None:
        self._alone = asyncio.ensure_future(self.flush())
        self._alone.add_done_callback(_log_failure)

    async def _settle(self, writing: Awaitable[None]) -> None:
        """Tell who waits for the call how *writing* it ended."""
        assert self._written is not None  # noqa: S101 - there is a call, and so who waits for it
        try:
            await writing
        except Exception as error:
            if not self._written.done():
                self._written.set_exception(error)
            raise
        if not self._written.done():
            self._written.set_result(None)


def _log_failure(writing: asyncio.Future[None]) -> None:
    if not writing.cancelled() and (error := writing.exception()) is not None:
        logger.warning("a call was not written: %s", error)
