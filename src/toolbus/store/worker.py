"""A daemon thread that serves jobs in batches, and returns each answer to the awaiting loop."""

from __future__ import annotations

from asyncio import wrap_future
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from weakref import finalize

from toolbus.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

J = TypeVar("J")
A = TypeVar("A")
"""The types of a job and of its answer."""

Order: TypeAlias = tuple[J, Future[A]]
"""A job, and the future of its answer."""

_PAUSE = 0.02
"""Seconds before a job that cannot be done yet is tried again."""


class NotYetError(Exception):
    """The answer to a job that cannot be done yet: it is the first of the next batch."""


class Worker(Generic[J, A]):
    """A thread that passes waiting jobs, up to *limit* at once, to *serve*.

    *serve* returns one answer per job, in order; an exception is raised where the answer is
    awaited. A `NotYetError` makes the job wait instead, for as long as *serve* returns it. *end*
    runs last in the thread: after `close`, or when the worker is garbage-collected. Cancellation
    does not reach a job.
    """

    def __init__(
        self,
        name: str,
        serve: Callable[[Sequence[J]], Sequence[A | Exception]],
        end: Callable[[], object],
        *,
        limit: int = 1,
    ) -> None:
        self._name, self._lock, self._closed = name, Lock(), False
        self._queue: SimpleQueue[Order[J, A] | None] = SimpleQueue()
        self._ended: Future[None] = _promise()
        # The thread has no reference to the worker, so that the worker can be garbage-collected.
        run = (self._queue, serve, end, limit, self._ended)
        self._thread = Thread(target=_run, args=run, name=name, daemon=True)
        self._thread.start()
        finalize(self, self._queue.put, None)

    @property
    def is_closed(self) -> bool:
        """Whether the worker accepts no more jobs."""
        return self._closed

    async def submit(self, job: J) -> A:
        """Wait for the answer to *job*; raises `ClosedError` after `close` or in a forked child."""
        answer: Future[A] = _promise()
        with self._lock:
            if self._closed or not self._thread.is_alive():
                raise ClosedError(self._name)
            self._queue.put((job, answer))
        return await wrap_future(answer)

    async def close(self) -> None:
        """Wait until the jobs that were submitted are done and the thread has ended."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._thread.is_alive():
            await wrap_future(self._ended)


def _promise() -> Future[A]:
    future: Future[A] = Future()
    # A future that runs cannot be cancelled, so an answer always finds it open.
    future.set_running_or_notify_cancel()
    return future


def _run(
    queue: SimpleQueue[Order[J, A] | None],
    serve: Callable[[Sequence[J]], Sequence[A | Exception]],
    end: Callable[[], object],
    limit: int,
    ended: Future[None],
) -> None:
    waiting: list[Order[J, A]] = []
    is_open = True
    try:
        while is_open or waiting:
            taken = _take(queue, limit, _PAUSE if waiting else None)
            is_open = is_open and None not in taken
            orders = waiting + [order for order in taken if order is not None]
            waiting = _answer(orders, serve) if orders else []
        end()
    finally:
        ended.set_result(None)


def _take(
    queue: SimpleQueue[Order[J, A] | None], limit: int, seconds: float | None
) -> list[Order[J, A] | None]:
    """Return waiting orders once there is one, or after *seconds*; None among them ends."""
    taken: list[Order[J, A] | None] = []
    with suppress(Empty):
        taken.append(queue.get(timeout=seconds))
        while taken[-1] is not None and len(taken) < limit:
            taken.append(queue.get_nowait())
    return taken


def _answer(
    orders: list[Order[J, A]], serve: Callable[[Sequence[J]], Sequence[A | Exception]]
) -> list[Order[J, A]]:
    """Answer *orders*; return the orders that cannot be done yet."""
    try:
        answers = serve([job for job, _ in orders])
    except Exception as error:  # noqa: BLE001 - the thread must go on, and callers get the error
        answers = [error] * len(orders)
    waiting = []
    for (job, promise), answer in zip(orders, answers, strict=True):
        if isinstance(answer, NotYetError):
            waiting.append((job, promise))
        elif isinstance(answer, Exception):
            promise.set_exception(answer)
        else:
            promise.set_result(answer)
    return waiting
