"""The queues of async observers: each gets its events one at a time and in order."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from toolbus.dispatch.chain import show
from toolbus.errors import ClosedError, DispatchError, NoLoopError

if TYPE_CHECKING:
    from toolbus.dispatch.bindings import Binding
    from toolbus.dispatch.contexts import EventContext

_serving: ContextVar[Queues | None] = ContextVar("toolbus_serving", default=None)


class Queue:
    """What one observer has still to see; *entered* and *left* only grow."""

    def __init__(self) -> None:
        self.items: deque[tuple[EventContext[Any], Context]] = deque()
        self.entered = self.left = 0
        self.running = False


class Queues:
    """All queues of one bus, and the loop that empties them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[Binding, Queue] = {}
        self._waiting: list[tuple[Queue, int, Future[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def pending(self) -> int:
        """How many events wait, or are being shown."""
        with self._lock:
            return sum(queue.entered - queue.left for queue in self._queues.values())

    def ready(self, event: str) -> None:
        """Make sure that a loop will empty the queues; raises `NoLoopError` if there is none."""
        if self._closed:
            raise ClosedError("the bus")
        if self._loop is not None and not self._loop.is_closed():
            return
        try:
            self.adopt(asyncio.get_running_loop())
        except RuntimeError:
            raise NoLoopError(event) from None

    def adopt(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve from *loop* if the former loop is closed, first what that one left behind."""
        with self._lock:
            if self._loop is not None and not self._loop.is_closed():
                return
            self._loop = loop
            self._tasks.clear()
            for queue in self._queues.values():
                # What the former loop was showing when it died has had its turn.
                queue.left, queue.running = queue.entered - len(queue.items), True
            left = list(self._queues.items())
        for binding, queue in left:
            loop.call_soon_threadsafe(self._serve, binding, queue)

    def put(self, binding: Binding, context: EventContext[Any]) -> None:
        """Queue *context* for the observer *binding*; from any thread."""
        with self._lock:
            queue = self._queues.setdefault(binding, Queue())
            queue.items.append((context, copy_context()))
            queue.entered += 1
            idle, queue.running = not queue.running, True
            loop = self._loop
        if idle and loop is not None:
            try:
                loop.call_soon_threadsafe(self._serve, binding, queue)
            except RuntimeError:  # The loop was closed just now; the next one finds the queue.
                queue.running = False

    async def drain(self) -> None:
        """Wait until all that is queued now has been seen."""
        if _serving.get() is self:
            raise DispatchError("drain", "an async observer would wait for itself; call it outside")
        with self._lock:
            marks = [(queue, queue.entered) for queue in self._queues.values()]
        for queue, mark in marks:
            await self._passed(queue, mark)

    async def below(self, limit: int) -> None:
        """Wait until no queue is longer than *limit*."""
        if _serving.get() is self:
            return
        with self._lock:
            marks = [(queue, queue.entered - limit) for queue in self._queues.values()]
        for queue, mark in marks:
            await self._passed(queue, mark)

    async def close(self) -> None:
        """Drain, then take no more."""
        await self.drain()
        self._closed = True

    async def _passed(self, queue: Queue, mark: int) -> None:
        """Wait until *mark* events have left *queue*."""
        self.adopt(asyncio.get_running_loop())
        # Not an asyncio event: whoever waits may do so in another loop than the one that serves.
        passed: Future[None] = Future()
        with self._lock:
            if queue.left >= mark:
                return
            self._waiting.append((queue, mark, passed))
        await asyncio.wrap_future(passed)

    def _serve(self, binding: Binding, queue: Queue) -> None:
        task = asyncio.ensure_future(self._empty(binding, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _empty(self, binding: Binding, queue: Queue) -> None:
        try:
            while item := self._next(binding, queue):
                try:
                    await self._show(binding, *item)
                finally:
                    self._count(queue)
        finally:
            queue.running = False

    def _next(self, binding: Binding, queue: Queue) -> tuple[EventContext[Any], Context] | None:
        with self._lock:
            if queue.items:
                return queue.items.popleft()
            # A queue lives no longer than it has work, so a cancelled subscription leaves nothing.
            del self._queues[binding]
            return None

    async def _show(self, binding: Binding, context: EventContext[Any], variables: Context) -> None:
        """Show one event, in a task with the dispatch's own context variables."""
        variables.run(_serving.set, self)
        loop = asyncio.get_running_loop()
        task = loop.create_task(show(binding, context), context=variables)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()

    def _count(self, queue: Queue) -> None:
        with self._lock:
            queue.left += 1
            due = [entry for entry in self._waiting if entry[0] is queue and queue.left >= entry[1]]
            self._waiting = [entry for entry in self._waiting if entry not in due]
        for _, _, passed in due:
            # Whoever waited may have been cancelled.
            if passed.set_running_or_notify_cancel():
                passed.set_result(None)
