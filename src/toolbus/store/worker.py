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


class Worker(Generic[J, A]):
    """Hands the jobs that wait, up to *limit* at once, to *serve* in a thread of its own.

    *serve* returns one answer per job, in order; an answer that is an exception is raised in
    the one who waits for it. *end* runs in the thread as its last act: after `close`, or when
    the worker is forgotten. Nobody's cancellation reaches a job.
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
        while _serve_round(queue, serve, limit):
            pass
        end()
    finally:
        ended.set_result(None)


def _serve_round(
    queue: SimpleQueue[_Order[J, A] | None],
    serve: Callable[[Sequence[J]], Sequence[A | Exception]],
    limit: int,
) -> bool:
    """Wait for a job and serve all that wait by then; return False when it is time to end."""
    taken = [queue.get()]
    while taken[-1] is not None and len(taken) < limit:
        try:
            taken.append(queue.get_nowait())
        except Empty:
            break
    orders = [order for order in taken if order is not None]
    if orders:
        _answer(orders, serve)
    return taken[-1] is not None


def _answer(
    orders: list[_Order[J, A]], serve: Callable[[Sequence[J]], Sequence[A | Exception]]
) -> None:
    try:
        answers = serve([order.job for order in orders])
    except Exception as error:  # noqa: BLE001 - the thread must live, and those who wait must know
        answers = [error] * len(orders)
    for order, answer in zip(orders, answers, strict=True):
        if isinstance(answer, Exception):
            order.answer.set_exception(answer)
        else:
            order.answer.set_result(answer)
