"""Deadlines: for a coroutine in a task of its own, for a function in a daemon thread.

At the deadline the caller continues at once. The late work is cancelled, not awaited, and its
result is dropped.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.errors import DeadlineError
from toolbus.tasks.shield import forget

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

calling_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "toolbus_calling_loop", default=None
)
"""In a thread that `start` began: the loop that ran in the starting thread."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def within(seconds: float | None, coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of *coroutine*; raises `DeadlineError` after *seconds* (None: never)."""
    task = asyncio.ensure_future(coroutine)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        abandon(task)
        raise
    if not task.done():
        abandon(task)
        raise DeadlineError(seconds or 0)
    return task.result()


def start(function: Callable[..., T], *args: object) -> Future[T]:
    """Start *function* in a daemon thread, with the context variables of the caller."""
    work: Future[T] = Future()
    work.set_running_or_notify_cancel()
    context = copy_context()
    if (loop := running_loop()) is not None:
        context.run(calling_loop.set, loop)

    def run() -> None:
        try:
            work.set_result(context.run(function, *args))
        except BaseException as error:  # noqa: BLE001 - passed on to the waiting caller
            work.set_exception(error)

    # A pool would join its threads at exit, so one stuck function would keep the process alive.
    threading.Thread(target=run, name=f"toolbus {function!r}", daemon=True).start()
    return work


async def in_thread(
    function: Callable[..., T],
    *args: object,
    seconds: float | None = None,
    on_left: Callable[[Future[Any]], object] | None = None,
) -> T:
    """Return the result of *function* in a thread; raises `DeadlineError` after *seconds*.

    *on_left* gets the work of a thread that is left behind, by the deadline or by cancellation.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object) -> None:
        # The loop may be closed by the time that an abandoned thread ends.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    work = start(function, *args)
    work.add_done_callback(wake)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
    finally:
        if on_left is not None and not work.done():
            on_left(work)
    return _result(work, seconds)


def in_thread_now(
    function: Callable[..., T],
    *args: object,
    seconds: float | None = None,
    on_left: Callable[[Future[Any]], object] | None = None,
) -> T:
    """Do as `in_thread` does, and block the calling thread meanwhile."""
    work = start(function, *args)
    try:
        work.exception(seconds)
    except TimeoutError:
        pass  # From the wait: an error of the work itself would have been returned.
    finally:
        if on_left is not None and not work.done():
            on_left(work)
    return _result(work, seconds)


def _result(work: Future[T], seconds: float | None) -> T:
    # Work that ended at the last moment is in time.
    if not work.done():
        raise DeadlineError(seconds or 0)
    return work.result()


def abandon(task: asyncio.Future[Any]) -> None:
    """Cancel *task* without waiting for it."""
    task.cancel()
    task.add_done_callback(forget)
