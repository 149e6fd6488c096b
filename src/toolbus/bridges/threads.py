"""Calls from threads without an event loop: a loop in a thread, tools in the calling thread."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from toolbus.bridges.bridged_call import RUNNING, BridgeError
from toolbus.tasks.loops import set_context
from toolbus.tools.calls.execution import Ending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Future

    from toolbus.bridges.bridged_call import RunningCall

T = TypeVar("T")


class _Work(NamedTuple):
    """A *function* for the calling thread; the *future* of the loop gets its `Ending`."""

    function: Callable[[], Any]
    future: asyncio.Future[Ending]


def run_for_thread(
    work: Callable[[Callable[[Any], Callable[..., Awaitable[Any]]]], Coroutine[Any, Any, Any]],
) -> Any:
    """Run the coroutine of *work* in the loop of all such calls; return its result, or raise.

    *work* gets a function that makes a sync function awaitable: it then runs in the calling thread,
    with its context variables.
    """
    loop = _loop(os.getpid())
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            reason = "a sync agent runs in a handler of another one, whose loop it would block"
            raise BridgeError(f"{reason}; use its async methods")
    queue: SimpleQueue[_Work | None] = SimpleQueue()

    def in_caller(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any) -> Any:
            future: asyncio.Future[Ending] = loop.create_future()
            work = partial(_run_in, RUNNING.get(), function, *args)
            queue.put(_Work(work, future))
            ending = await future
            if ending.error is not None:
                raise ending.error
            return ending.value

        return call

    running = asyncio.run_coroutine_threadsafe(work(in_caller), loop)
    running.add_done_callback(lambda _: queue.put(None))
    try:
        while (wanted := queue.get()) is not None:
            loop.call_soon_threadsafe(_settle, wanted.future, _end_of(wanted.function))
    except BaseException:
        # An interrupt of the waiting thread cancels the call.
        running.cancel()
        raise
    return running.result()


def start(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start *work* in the loop of all such calls; return its future, which any thread may read."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid()))


def _run_in(running: RunningCall | None, function: Callable[..., Any], *args: Any) -> Any:
    with set_context(RUNNING, running):
        return function(*args)


def _end_of(function: Callable[[], Any]) -> Ending:
    try:
        return Ending(function())
    except Exception as error:  # noqa: BLE001 - raised where the tool is awaited
        return Ending(error=error)


def _settle(future: asyncio.Future[Ending], ending: Ending) -> None:
    if not future.done():
        future.set_result(ending)


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:  # noqa: ARG001 - the key of the cache
    """Return the running loop of a daemon thread, one for a *process*: a fork has no threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="toolbus-bridges", daemon=True).start()
    return loop
