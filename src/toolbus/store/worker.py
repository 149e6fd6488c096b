"""A daemon thread that serves jobs in batches and answers each to whichever loop waits."""

from __future__ import annotations

from asyncio import wrap_future
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from weakref import finalize

from toolbus.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

J = TypeVar("J")
A = TypeVar("A")
"""The type of a job, and of its answer."""

_PAUSE = 0.02
"""Seconds between two rounds of a job that cannot be done yet."""


class NotYetError(Exception):
    """The answer to a job that cannot be done yet: it comes first in the next round."""


class Worker(Generic[J, A]):
    """Hands the jobs that wait, up to *limit* at once, to *serve* in a thread of its own.

    *serve* returns one answer per job, in order; an exception is raised where the answer is
    awaited, but for a `NotYetError`, for which *serve* sets the bound. *end* runs in the thread as
    its last act: after `close`, or when the worker is forgotten. No cancellation reaches a job.
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
        self._queue: SimpleQueue[_Order[J, A] | None] = SimpleQueue()
        self._ended: Future[None] = _promise()
        # The thread knows the queue and not the worker, so a forgotten worker can be collected.
        run = (self._queue, serve, end, limit, self._ended)
        self._thread = Thread(target=_run, args=run, name=name, daemon=True)
        self._thread.start()
        finalize(self, self._queue.put, None)

    @property
    def is_closed(self) -> bool:
        """Whether jobs are taken no more."""
        return self._closed

    async def submit(self, job: J) -> A:
        """Wait for the answer to *job*; raises `ClosedError` after `close` or in a forked child."""
        order: _Order[J, A] = _Order(job, _promise())
        with self._lock:
            if self._closed or not self._thread.is_alive():
                raise ClosedError(self._name)
            self._queue.put(order)
        return await wrap_future(order.answer)

    async def close(self) -> None:
        """Wait until the jobs that were submitted are done and the thread has ended."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._thread.is_alive():
            await wrap_future(self._ended)


class _Order(NamedTuple, Generic[J, A]):
    """A job, and the promise of its answer."""

    job: J
    answer: Future[A]


def _promise() -> Future[A]:
    future: Future[A] = Future()
    # A future that runs cannot be cancelled, so an answer always finds it open.
    future.set_running_or_notify_cancel()
    return future


def _run(
    queue: SimpleQueue[_Order[J, A] | None],
    serve: Callable[[Sequence[J]], Sequence[A | Exception]],
    end: Callable[[], object],
    limit: int,
    ended: Future[None],
) -> None:
    try:
        waiting: list[_Order[J, A]] = []
        is_open = True
        while is_open or waiting:
            taken = _take(queue, limit, _PAUSE if waiting else None)
            is_open = is_open and None not in taken
            waiting = _answer(waiting + [order for order in taken if order is not None], serve)
        end()
    finally:
        ended.set_result(None)


def _take(
    queue: SimpleQueue[_Order[J, A] | None], limit: int, seconds: float | None
) -> list[_Order[J, A] | None]:
    """Return the orders that are there once the first one is, or after *seconds*; None ends."""
    taken: list[_Order[J, A] | None] = []
    try:
        taken.append(queue.get(timeout=seconds))
        while taken[-1] is not None and len(taken) < limit:
            taken.append(queue.get_nowait())
    except Empty:
        pass
    return taken


def _answer(
    orders: list[_Order[J, A]], serve: Callable[[Sequence[J]], Sequence[A | Exception]]
) -> list[_Order[J, A]]:
    """Answer *orders*; return those that wait on."""
    if not orders:
        return []
    try:
        answers = serve([order.job for order in orders])
    except Exception as error:  # noqa: BLE001 - the thread must live, and those who wait must know
        answers = [error] * len(orders)
    waiting = []
    for order, answer in zip(orders, answers, strict=True):
        if isinstance(answer, NotYetError):
            waiting.append(order)
        elif isinstance(answer, Exception):
            order.answer.set_exception(answer)
        else:
            order.answer.set_result(answer)
    return waiting
