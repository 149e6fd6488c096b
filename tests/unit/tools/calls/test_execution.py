"""What `specs` should not mention of `toolbus.tools.calls.execution`."""

import asyncio
import threading

import pytest

from toolbus.errors import DeadlineError
from toolbus.tools.calls import execution
from toolbus.tools.calls.execution import Ending, execute

SECONDS = 60
LATE = [("toolbus", 30, "it ended too late; its result is dropped")]


def stubborn(begun, released, result="late"):
    """Return an async function that takes no notice of its cancellation."""

    async def work():
        begun.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        if isinstance(result, BaseException):
            raise result
        return result

    return work


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


@pytest.mark.parametrize("result", ["late", ValueError("late")])
async def test_a_stubborn_function_has_a_moment_and_no_more(monkeypatch, caplog, result):
    monkeypatch.setattr(execution, "GRACE", 0.01)
    begun, released = asyncio.Event(), asyncio.Event()

    with pytest.raises(DeadlineError) as caught:
        await execute("it", stubborn(begun, released, result), is_async=True, seconds=0.01)

    assert caught.value.seconds == 0.01
    assert caplog.record_tuples == []
    released.set()
    await until(lambda: caplog.records)
    assert caplog.record_tuples == LATE


async def test_a_second_cancellation_takes_the_moment_away(monkeypatch, caplog):
    monkeypatch.setattr(execution, "GRACE", 1_000_000)
    begun, released = asyncio.Event(), asyncio.Event()
    task = asyncio.ensure_future(
        execute("it", stubborn(begun, released), is_async=True, seconds=None)
    )
    await begun.wait()

    for _ in range(2):
        assert not task.done()
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task

    released.set()
    await until(lambda: caplog.records)
    assert caplog.record_tuples == LATE


async def test_what_stops_when_told_is_not_late(caplog):
    async def work():
        await asyncio.Event().wait()

    with pytest.raises(DeadlineError):
        await execute("it", work, is_async=True, seconds=0.001)
    await asyncio.sleep(0)

    assert caplog.record_tuples == []


async def test_an_interrupt_passes():
    def interrupts():
        raise KeyboardInterrupt

    async def interrupts_later():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execution._end_now(interrupts)
    with pytest.raises(KeyboardInterrupt):
        execution.end_of(interrupts_later).send(None)


async def test_a_sync_function_runs_in_a_thread_of_its_own():
    ending = await execute("it", threading.current_thread, is_async=False, seconds=SECONDS)

    assert ending.error is None
    assert ending.value is not threading.current_thread()
    assert ending.value.daemon


def test_an_ending_says_what_it_is():
    assert Ending("a").response.text == "a"
    assert Ending().response.content == ()
    assert Ending(error=ValueError("b")).response.error_type == "ValueError"
    assert Ending(object()).response.error_type == "invalid_result"
