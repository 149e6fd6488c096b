"""The loops in which a bus is used, each with its own queues of async observers."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from toolbus.bus.dispatch.deadlines import calling_loop, running_loop
from toolbus.bus.dispatch.nesting import current_turn
from toolbus.bus.queues import LoopQueues
from toolbus.errors import ClosedError, DispatchError, NoLoopError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext

logger = logging.getLogger("toolbus")


class Loops:
    """All queues of one bus, by the loop that empties them; *lock* guards them.

    *lost* counts the turns that were cut off, because their loop ended.
    """

    def __init__(self) -> None:
        # Reentrant: the garbage collector may dispatch from a finalizer, at any moment.
        self.lock = threading.RLock()
        self._loops: dict[asyncio.AbstractEventLoop, LoopQueues] = {}
        self._closed = False
        self.lost = 0

    @property
    def pending(self) -> int:
        """How many events wait, or are being shown, in all loops."""
        with self.lock:
            return sum([queues.pending for queues in self._loops.values()])

    def open(self) -> None:
        """Serve from the running loop; raises `ClosedError` after `close`."""
        self._check_open()
        queues = self._here()
        queues.start()
        # For whatever this block hands to a thread by means of its own.
        calling_loop.set(queues.loop)

    def ready(self, event: str) -> LoopQueues:
        """Return the queues for a dispatch of *event*; raises `NoLoopError` if there is no loop.

        That is the running loop, else the one that called this thread's function, else the one
        in which the bus was used last.
        """
        self._check_open()
        loop = running_loop() or self._elsewhere()
        if loop is None:
            raise NoLoopError(event)
        return self._loops.get(loop) or self._of(loop)

    def put(self, binding: Binding, context: EventContext[Any]) -> None:
        """Queue *context* for the observer *binding*; raises `DispatchDepthError`."""
        self.ready(binding.event.name).put(binding, context)

    async def drain(self, seconds: float | None) -> None:
        """Wait until all that is queued now in the running loop has been seen, or *seconds*."""
        if self._is_serving():
            raise DispatchError("drain", "an async observer would wait for itself; call it outside")
        await self._within(seconds, self._below(0))

    async def below(self, limit: int) -> None:
        """Wait until no queue here is longer than *limit*; an async observer does not wait."""
        if not self._is_serving():
            await self._below(limit)

    async def close(self, seconds: float | None) -> None:
        """Drain, also what observers dispatch meanwhile, then take no more."""
        if self._is_serving():
            raise DispatchError("drain", "an async observer would wait for itself; call it outside")
        await self._within(seconds, self._until_empty())
        self._closed = True

    async def _until_empty(self) -> None:
        while (queues := self._here()).pending:
            await queues.below(0)

    async def _below(self, limit: int) -> None:
        if self._loops:
            await self._here().below(limit)

    async def _within(self, seconds: float | None, waiting: Coroutine[Any, Any, None]) -> None:
        """Await *waiting*; after *seconds* say how much is left, and go on."""
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await waiting
        except TimeoutError:
            if not limit.expired():
                raise
            pending = self._here().pending
            logger.warning("%d events still wait for async observers after %g s", pending, seconds)

    def _is_serving(self) -> bool:
        turn = current_turn()
        return turn is not None and turn.place is self

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the bus")

    def _elsewhere(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop for a thread that has none."""
        caller = calling_loop.get()
        if caller is not None and not caller.is_closed():
            return caller
        with self.lock:
            used = [loop for loop in self._loops if not loop.is_closed()]
        return used[-1] if used else None

    def _here(self) -> LoopQueues:
        return self._of(asyncio.get_running_loop())

    def _of(self, loop: asyncio.AbstractEventLoop) -> LoopQueues:
        """Return the queues of *loop*, which takes over what closed loops have left."""
        with self.lock:
            if loop not in self._loops:
                self._loops[loop] = LoopQueues(loop, self)
            queues = self._loops[loop]
            for former in tuple(self._loops.values()):
                if former is not queues and former.loop.is_closed():
                    del self._loops[former.loop]
                    queues.take_over(former)
            return queues

    def count_lost(self) -> None:
        """Count a turn that was cut off, because its loop ended."""
        self.lost += 1
