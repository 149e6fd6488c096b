"""The queues of async observers: one per observer and loop, which shows events in order."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.dispatch.contexts import QUEUED, observer_context
from toolbus.bus.dispatch.deadlines import abandon, calling_loop, running_loop
from toolbus.bus.dispatch.depth import current_level, is_inside, next_level
from toolbus.bus.dispatch.failures import log, log_failure
from toolbus.bus.dispatch.observers import show
from toolbus.errors import ClosedError, DeadlineError, DispatchError, NoLoopError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.depth import Level

logger = logging.getLogger("toolbus")

CUT_OFF = "observer %r of %r was cut off by the end of its loop; events lost: %d"


class Item(NamedTuple):
    """An event for an observer, with the context variables of its dispatch.

    *level* is the observer's turn; *held* keeps a weak observer alive until then.
    """

    context: EventContext[Any]
    variables: Context
    level: Level
    held: object


class Queue:
    """The pending events of one observer in one loop, and the task that shows them."""

    def __init__(self, binding: Binding, loop: asyncio.AbstractEventLoop, owner: Queues) -> None:
        self.binding, self.loop, self._owner = binding, loop, owner
        self.entered = self.done = 0
        self._items: deque[Item] = deque()
        self._shown: Item | None = None
        self._is_moving = False
        self._moved = asyncio.Event()
        # Kept here, because the loop keeps only weak references to its tasks.
        self._task: asyncio.Task[None] | None = None

    @property
    def length(self) -> int:
        """The number of events that wait or are being shown."""
        return self.entered - self.done

    def add(self, item: Item) -> None:
        """Add *item*, from any thread; the caller holds the lock of the queues."""
        self._items.append(item)
        self.entered += 1
        self.start()

    def start(self) -> None:
        """Ensure that the queue moves, also after its task was cancelled."""
        if not self._is_moving:
            # A loop closed just now leaves its events to `Queues`, which counts them.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._serve)
                self._is_moving = True

    async def until(self, done: int) -> None:
        """Wait, in the loop of the queue, until *done* events have left it."""
        while self.done < done:
            self.start()
            await self._moved.wait()
            self._moved = asyncio.Event()

    def _serve(self) -> None:
        self._task = self.loop.create_task(self._show_all())
        self._task.add_done_callback(self._stop)

    async def _show_all(self) -> None:
        while True:
            with self._owner.lock:
                item = self._shown = self._items.popleft() if self._items else None
                if item is None:
                    self._owner.forget(self)
                    return
            await self._show(item)
            self._count()

    async def _show(self, item: Item) -> None:
        """Show one event, in a task with the dispatch's own context variables."""
        binding = self.binding
        # A thread has a deadline of its own.
        seconds = None if binding.in_thread else binding.timeout
        task = self.loop.create_task(
            show(binding, item.context, item.level), context=item.variables
        )
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            if task.done() and not task.cancelled():
                self._count()  # It ended at that very moment.
            task.cancel()
            raise
        if not task.done():
            abandon(task)
            item.level.over = True
            error = DeadlineError(seconds or 0)
            log_failure(binding.event.name, binding.name, error, str(error))

    def _count(self) -> None:
        self._shown = None
        self.done += 1
        self._moved.set()

    def _stop(self, _: object) -> None:
        # Not restarted here: all tasks of a loop are cancelled when it is about to close.
        with self._owner.lock:
            self._is_moving = False
            if self._shown is not None:
                self._shown.level.over = True
                self._owner.count_lost(self, 1)
                self._count()
        self._moved.set()


class Queues:
    """All queues of one bus, by event loop; *lock* guards them."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may dispatch from a finalizer, at any moment.
        self.lock = threading.RLock()
        self._loops: dict[asyncio.AbstractEventLoop, dict[Binding, Queue]] = {}
        self._is_closed = False
        self._lost = 0

    @property
    def pending(self) -> int:
        """The number of events that wait or are being shown, in all loops."""
        with self.lock:
            self._forget_closed_loops()
            return sum([queue.length for here in self._loops.values() for queue in here.values()])

    @property
    def lost(self) -> int:
        """The number of events that were cut off or never shown, because their loop ended."""
        with self.lock:
            self._forget_closed_loops()
            return self._lost

    def open(self) -> None:
        """Serve from the running loop; raises `ClosedError` after `close`."""
        self._check_open()
        loop = asyncio.get_running_loop()
        for queue in self._queues_of(loop):
            queue.start()
        # For threads started in this block by other means than ours.
        calling_loop.set(loop)

    def loop_for(self, event: str) -> asyncio.AbstractEventLoop:
        """Return the loop for a dispatch of *event*; raises `NoLoopError` without a loop.

        It is the running loop, else the loop that started this thread, else the loop in which
        the bus was used last.
        """
        self._check_open()
        loop = running_loop() or calling_loop.get()
        if loop is None or loop.is_closed():
            with self.lock:
                used = [each for each in self._loops if not each.is_closed()]
            loop = used[-1] if used else None
        if loop is None:
            raise NoLoopError(event)
        if loop not in self._loops:
            self._queues_of(loop)
        return loop

    def put(self, binding: Binding, context: EventContext[Any]) -> object:
        """Queue *context* for the observer *binding*; raises `DispatchDepthError`."""
        loop = self.loop_for(binding.event.name)
        level, variables = next_level(self, binding.event), copy_context()
        variables.run(current_level.set, level)
        item = Item(observer_context(context), variables, level, binding.hold())
        with self.lock:
            queues = self._loops[loop]
            if binding not in queues:
                queues[binding] = Queue(binding, loop, self)
            queues[binding].add(item)
        return QUEUED

    async def drain(self, seconds: float | None) -> None:
        """Wait, at most *seconds*, until all events now queued in the running loop are seen."""
        self._check_outside()
        await self._within(seconds, self._below(0))

    async def below(self, limit: int) -> None:
        """Wait until no queue of this loop is longer than *limit*; no wait in an async observer."""
        if not is_inside(self):
            await self._below(limit)

    async def close(self, seconds: float | None) -> None:
        """Drain, including events that observers dispatch meanwhile, then refuse new events."""
        self._check_outside()
        await self._within(seconds, self._until_empty())
        self._is_closed = True

    def forget(self, queue: Queue) -> None:
        """Remove the empty *queue*: a cancelled subscription leaves nothing behind."""
        self._loops.get(queue.loop, {}).pop(queue.binding, None)

    def count_lost(self, queue: Queue, count: int) -> None:
        """Count the events of *queue* that were lost with its loop."""
        self._lost += count
        name, event = queue.binding.name, queue.binding.event.name
        log(CUT_OFF, name, event, count)

    async def _until_empty(self) -> None:
        while any(queue.length for queue in self._queues_of(asyncio.get_running_loop())):
            await self._below(0)

    async def _below(self, limit: int) -> None:
        for queue in self._queues_of(asyncio.get_running_loop()):
            await queue.until(queue.entered - limit)

    async def _within(self, seconds: float | None, waiting: Coroutine[Any, Any, None]) -> None:
        """Await *waiting* for *seconds*; then log the number of waiting events, and go on."""
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await waiting
        except TimeoutError:
            if not limit.expired():
                raise
            pending = sum([queue.length for queue in self._queues_of(asyncio.get_running_loop())])
            logger.warning("%d events still wait for async observers after %g s", pending, seconds)

    def _queues_of(self, loop: asyncio.AbstractEventLoop) -> list[Queue]:
        """Return the queues of *loop*, registering it."""
        with self.lock:
            self._forget_closed_loops()
            return list(self._loops.setdefault(loop, {}).values())

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._loops if loop.is_closed()]:
            for queue in self._loops.pop(loop).values():
                if queue.length:
                    self.count_lost(queue, queue.length)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the bus")

    def _check_outside(self) -> None:
        if is_inside(self):
            raise DispatchError("drain", "an async observer would wait for itself; call it outside")
