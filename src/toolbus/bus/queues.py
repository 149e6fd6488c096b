"""The queues of async observers: each gets its events one at a time and in order."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.dispatch.showing import show
from toolbus.errors import ClosedError, DispatchError, NoLoopError

if TYPE_CHECKING:
    from toolbus.dispatch.bindings import Binding
    from toolbus.dispatch.contexts import EventContext

# Nothing tells that a loop was closed, so whoever waits for another loop's work looks again.
LOOK_AGAIN = 0.1


class Queue:
    """What one observer has still to see; *entered* and *left* only grow."""

    __slots__ = ("entered", "items", "left", "running")

    def __init__(self) -> None:
        self.items: deque[tuple[EventContext[Any], Context]] = deque()
        self.entered = self.left = 0
        self.running = False


class Waiter(NamedTuple):
    """Somebody in *loop* who waits until *mark* events have left *queue*."""

    queue: Queue
    mark: int
    loop: asyncio.AbstractEventLoop
    passed: asyncio.Event


class Turn:
    """An observer's turn, as its context variables show it; a task it leaves behind outlives it."""

    __slots__ = ("over", "queues")

    def __init__(self, queues: Queues) -> None:
        self.queues, self.over = queues, False


_turn: ContextVar[Turn | None] = ContextVar("toolbus_turn", default=None)


class Queues:
    """All queues of one bus, and the loop that empties them."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may dispatch from a finalizer, at any moment.
        self._lock = threading.RLock()
        self._queues: dict[Binding, Queue] = {}
        self._waiting: list[Waiter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def pending(self) -> int:
        """How many events wait, or are being shown."""
        with self._lock:
            return sum([queue.entered - queue.left for queue in self._queues.values()])

    def open(self) -> None:
        """Serve from the running loop; raises `ClosedError` after `close`."""
        if self._closed:
            raise ClosedError("the bus")
        self._adopt(asyncio.get_running_loop())

    def ready(self, event: str) -> None:
        """Make sure that a loop will empty the queues; raises `NoLoopError` if there is none."""
        if not self._closed and self._loop is not None and not self._loop.is_closed():
            return
        try:
            self.open()
        except RuntimeError:
            raise NoLoopError(event) from None

    def put(self, binding: Binding, context: EventContext[Any]) -> None:
        """Queue *context* for the observer *binding*; from any thread."""
        with self._lock:
            queue = self._queues.setdefault(binding, Queue())
            queue.items.append((context, copy_context()))
            queue.entered += 1
            if not queue.running:
                self._start(binding, queue)

    async def drain(self) -> None:
        """Wait until all that is queued now has been seen."""
        if self._is_serving():
            raise DispatchError("drain", "an async observer would wait for itself; call it outside")
        await self._wait(0)

    async def below(self, limit: int) -> None:
        """Wait until no queue is longer than *limit*; an async observer does not wait."""
        if not self._is_serving():
            await self._wait(limit)

    async def close(self) -> None:
        """Drain, also what observers dispatch meanwhile, then take no more."""
        await self.drain()
        while self.pending:
            await self.drain()
        self._closed = True

    def _is_serving(self) -> bool:
        turn = _turn.get()
        return turn is not None and turn.queues is self and not turn.over

    def _adopt(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve from *loop* if the former loop is closed; see that no queue stands still."""
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = loop
                self._tasks.clear()
                for queue in self._queues.values():
                    self._stop(queue)
            for binding, queue in self._queues.items():
                if not queue.running:
                    self._start(binding, queue)

    async def _wait(self, limit: int) -> None:
        """Wait until of each queue all but *limit* of its present events have left."""
        loop = asyncio.get_running_loop()
        with self._lock:
            waiters = [
                Waiter(queue, queue.entered - limit, loop, asyncio.Event())
                for queue in self._queues.values()
                if queue.entered - queue.left > limit
            ]
            self._waiting += waiters
        for waiter in waiters:
            while not waiter.passed.is_set():
                self._adopt(loop)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN):
                        await waiter.passed.wait()

    def _start(self, binding: Binding, queue: Queue) -> None:
        if self._loop is not None:
            # A loop that was closed just now is left to the next one, which finds the queue.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._serve, binding, queue)
                queue.running = True

    def _serve(self, binding: Binding, queue: Queue) -> None:
        task = asyncio.ensure_future(self._empty(binding, queue))
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._end(queue, task))

    def _end(self, queue: Queue, task: asyncio.Task[None]) -> None:
        # Also after a task that was cancelled before it began. It is not begun anew here: who
        # cancels all tasks is most likely about to close the loop.
        self._tasks.discard(task)
        with self._lock:
            self._stop(queue)

    async def _empty(self, binding: Binding, queue: Queue) -> None:
        while item := self._next(binding, queue):
            await self._show(binding, *item)
            with self._lock:
                self._count(queue, queue.left + 1)

    def _next(self, binding: Binding, queue: Queue) -> tuple[EventContext[Any], Context] | None:
        with self._lock:
            if queue.items:
                return queue.items.popleft()
            # A queue lives no longer than it has work, so a cancelled subscription leaves nothing.
            del self._queues[binding]
            return None

    async def _show(self, binding: Binding, context: EventContext[Any], variables: Context) -> None:
        """Show one event, in a task with the dispatch's own context variables."""
        turn = Turn(self)
        variables.run(_turn.set, turn)
        loop = asyncio.get_running_loop()
        task = loop.create_task(show(binding, context), context=variables)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            turn.over = True

    def _stop(self, queue: Queue) -> None:
        """Mark *queue* as not served; what was shown when that ended has had its turn."""
        queue.running = False
        self._count(queue, queue.entered - len(queue.items))

    def _count(self, queue: Queue, left: int) -> None:
        queue.left = left
        for waiter in [one for one in self._waiting if one.queue is queue and left >= one.mark]:
            self._waiting.remove(waiter)
            # Its loop may be closed, if it was cancelled.
            with suppress(RuntimeError):
                waiter.loop.call_soon_threadsafe(waiter.passed.set)
