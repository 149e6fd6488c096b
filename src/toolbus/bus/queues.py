"""The queues of async observers in one loop: each gets its events one at a time and in order."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.dispatch.failures import log
from toolbus.bus.dispatch.nesting import next_turn
from toolbus.bus.dispatch.observers import show

if TYPE_CHECKING:
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.nesting import ObserverTurn
    from toolbus.bus.loops import Loops

# Who waits for a queue whose task was cancelled looks again, and starts it anew.
LOOK_AGAIN = 0.1


class Item(NamedTuple):
    """An event that an observer shall see, with the context variables of its dispatch.

    *held* keeps the observer until then, also if who subscribed it is gone meanwhile.
    """

    context: EventContext[Any]
    variables: Context
    turn: ObserverTurn
    held: object


class Queue:
    """What one observer has still to see, and what it is shown; the counts only grow."""

    __slots__ = ("done", "entered", "items", "running", "shown")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.entered = self.done = 0
        self.running = False
        self.shown: Item | None = None

    @property
    def length(self) -> int:
        """How many events wait, or are being shown."""
        return self.entered - self.done


class Waiter(NamedTuple):
    """Somebody who waits until *mark* events have left *queue*."""

    queue: Queue
    mark: int
    passed: asyncio.Event


class LoopQueues:
    """The queues of one *loop* among those of the bus, and the tasks that empty them there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bus_loops: Loops) -> None:
        self.loop, self._bus_loops, self._lock = loop, bus_loops, bus_loops.lock
        self._queues: dict[Binding, Queue] = {}
        self._waiting: list[Waiter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """How many events wait, or are being shown."""
        with self._lock:
            return sum([queue.length for queue in self._queues.values()])

    def put(self, binding: Binding, context: EventContext[Any]) -> None:
        """Queue *context* for the observer *binding*, from any thread.

        Raises `DispatchDepthError`.
        """
        turn, variables = next_turn(self._bus_loops, binding.event), copy_context()
        turn.mark(variables)
        with self._lock:
            self._add(binding, Item(context, variables, turn, binding.hold()))

    def take_over(self, former: LoopQueues) -> None:
        """Take what waits in the queues of a *former* loop, which was closed."""
        with self._lock:
            for binding, queue in former._queues.items():
                former._cut_off(binding, queue)
                for item in queue.items:
                    self._add(binding, item)
            former._queues.clear()

    def start(self) -> None:
        """See that no queue stands still."""
        with self._lock:
            for binding, queue in self._queues.items():
                if not queue.running:
                    self._start(binding, queue)

    async def below(self, limit: int) -> None:
        """Wait until of each queue all but *limit* of its present events have been seen."""
        with self._lock:
            waiters = [
                Waiter(queue, queue.entered - limit, asyncio.Event())
                for queue in self._queues.values()
                if queue.length > limit
            ]
            self._waiting += waiters
        try:
            for waiter in waiters:
                await self._wait(waiter)
        finally:
            self._waiting = [other for other in self._waiting if other not in waiters]

    async def _wait(self, waiter: Waiter) -> None:
        while not waiter.passed.is_set():
            self.start()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await waiter.passed.wait()

    def _add(self, binding: Binding, item: Item) -> None:
        queue = self._queues.setdefault(binding, Queue())
        queue.items.append(item)
        queue.entered += 1
        if not queue.running:
            self._start(binding, queue)

    def _start(self, binding: Binding, queue: Queue) -> None:
        # What a loop that was closed just now has in its queues is left to the next one.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._serve, binding, queue)
            queue.running = True

    def _serve(self, binding: Binding, queue: Queue) -> None:
        task = asyncio.ensure_future(self._empty(binding, queue))
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._end(binding, queue, task))

    def _end(self, binding: Binding, queue: Queue, task: asyncio.Task[None]) -> None:
        # Also after a task that was cancelled before it began. It is not begun anew here: who
        # cancels all tasks is most likely about to close the loop.
        self._tasks.discard(task)
        with self._lock:
            queue.running = False
            self._cut_off(binding, queue)

    async def _empty(self, binding: Binding, queue: Queue) -> None:
        while item := self._next(binding, queue):
            await self._show(binding, queue, item)
            with self._lock:
                self._seen(queue)

    def _next(self, binding: Binding, queue: Queue) -> Item | None:
        with self._lock:
            if queue.items:
                queue.shown = queue.items.popleft()
                return queue.shown
            # A queue lives no longer than it has work, so a cancelled subscription leaves nothing.
            del self._queues[binding]
            return None

    async def _show(self, binding: Binding, queue: Queue, item: Item) -> None:
        """Show one event, in a task with the dispatch's own context variables."""
        task = self.loop.create_task(show(binding, item.context), context=item.variables)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                with self._lock:
                    self._seen(queue)  # It ended just then.
            raise
        finally:
            item.turn.over = True

    def _cut_off(self, binding: Binding, queue: Queue) -> None:
        """Give up what was being shown when its task or its loop ended; it is not shown again."""
        if queue.shown is None:
            return
        queue.shown.turn.over = True
        event, waiting = binding.event.name, len(queue.items)
        log(
            "observer %r of %r was cut off by the end of its loop; %d more events wait for another",
            binding.name,
            event,
            waiting,
        )
        self._bus_loops.count_lost()
        self._seen(queue)

    def _seen(self, queue: Queue) -> None:
        """Count what was shown."""
        queue.shown = None
        queue.done += 1
        for waiter in self._waiting:
            if waiter.queue is queue and queue.done >= waiter.mark:
                waiter.passed.set()
