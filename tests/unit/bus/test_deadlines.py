"""What `specs` should not mention of `toolbus.bus.dispatch.deadlines`."""

import asyncio
import threading
from concurrent.futures import Future
from contextvars import ContextVar
from queue import SimpleQueue

import pytest

from toolbus.bus.dispatch import deadlines
from toolbus.bus.dispatch.deadlines import (
    in_thread,
    in_thread_now,
    start,
    within,
)
from toolbus.errors import DeadlineError


class Boom(Exception):
    pass


async def boom():
    raise Boom


async def test_within_gives_what_the_coroutine_gives():
    assert await within(None, asyncio.sleep(0, "x")) == "x"
    assert await within(30, asyncio.sleep(0, "x")) == "x"
    with pytest.raises(Boom):
        await within(30, boom())


async def test_within_abandons_what_is_late():
    cancelled, release = asyncio.Event(), asyncio.Event()

    async def stubborn():
        try:
            await release.wait()
        except asyncio.CancelledError:
            cancelled.set()
            await release.wait()
        raise Boom

    with pytest.raises(DeadlineError, match=r"timed out after 0\.01 s"):
        await within(0.01, stubborn())

    await cancelled.wait()
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    release.set()
    await asyncio.wait({task})


async def test_within_passes_cancellation_on_and_does_not_wait():
    release, cancelled, started = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn():
        started.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            cancelled.set()
            await release.wait()

    waiting = asyncio.ensure_future(within(30, stubborn()))
    await started.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await cancelled.wait()
    release.set()


async def test_a_coroutine_may_be_cancelled_from_within():
    async def give_up():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await within(30, give_up())


async def test_threads_give_what_the_function_gives():
    variable = ContextVar("variable")
    variable.set("mine")

    def function(more):
        return variable.get() + more

    left = []
    assert await in_thread(function, "x", seconds=30, on_left=left.append) == "minex"
    assert await in_thread(function, "x", on_left=left.append) == "minex"
    assert in_thread_now(function, "x", seconds=30, on_left=left.append) == "minex"
    assert in_thread_now(function, "x", on_left=left.append) == "minex"
    assert not left


@pytest.mark.parametrize("error", [Boom, TimeoutError, KeyboardInterrupt, asyncio.CancelledError])
async def test_threads_give_the_function_s_own_error(error):
    def function():
        raise error

    with pytest.raises(error):
        await in_thread(function, seconds=30, on_left=print)
    with pytest.raises(error):
        in_thread_now(function, seconds=30, on_left=print)


async def test_a_late_thread_is_watched():
    release, left, begun = threading.Event(), [], SimpleQueue()

    def hang():
        begun.put(threading.current_thread())
        release.wait()

    with pytest.raises(DeadlineError, match=r"timed out after 0\.01 s"):
        await in_thread(hang, seconds=0.01, on_left=left.append)
    with pytest.raises(DeadlineError, match=r"timed out after 0\.01 s"):
        in_thread_now(hang, seconds=0.01, on_left=left.append)

    assert [work.done() for work in left] == [False, False]
    threads = [begun.get(timeout=60), begun.get(timeout=60)]
    assert all(thread.daemon and thread.name.startswith("toolbus <func") for thread in threads)
    release.set()
    for thread in threads:
        thread.join()
    assert all(work.done() for work in left)


async def test_a_thread_that_is_left_by_cancellation_is_watched():
    started, release, left, threads = asyncio.Event(), threading.Event(), [], []
    loop = asyncio.get_running_loop()

    def hang():
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(started.set)
        release.wait()

    task = asyncio.ensure_future(in_thread(hang, on_left=left.append))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [work.done() for work in left] == [False]
    release.set()
    threads[0].join()


def test_a_thread_may_outlive_its_loop():
    release, left, begun = threading.Event(), [], SimpleQueue()

    def hang():
        begun.put(threading.current_thread())
        release.wait()

    async def leave():
        with pytest.raises(DeadlineError):
            await in_thread(hang, seconds=0.01, on_left=left.append)

    asyncio.run(leave())
    release.set()
    begun.get(timeout=60).join()

    assert all(work.done() for work in left)


async def test_what_ends_at_the_last_moment_has_ended_in_time(monkeypatch):
    class Last(Future):
        """Ends while whoever waits for it is told that the time is up."""

        def exception(self, timeout=None):
            super().exception()
            raise TimeoutError

    def begin(function, *args):
        work = Last()
        work.set_result(function(*args))
        return work

    monkeypatch.setattr(deadlines, "start", begin)

    assert in_thread_now(lambda: "x", seconds=0.01, on_left=print) == "x"


def test_start_gives_a_future_that_nobody_can_cancel():
    release = threading.Event()

    work = start(release.wait)

    assert not work.cancel()
    release.set()
    assert work.result() is True
