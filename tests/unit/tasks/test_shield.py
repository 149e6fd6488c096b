"""What `specs` should not mention of `toolbus.tasks.shield`."""

import asyncio
from contextvars import ContextVar
from functools import partial

import anyio
import pytest

from toolbus.tasks.shield import ContainedTask, outlast, shield_until_done

number = ContextVar("number", default=0)


class Boom(Exception):
    pass


async def value(result):
    return result


async def fail(error):
    await asyncio.sleep(0)
    raise error


def cancel_all(*others):
    for task in asyncio.all_tasks() - {asyncio.current_task(), *others}:
        task.cancel()


async def test_work_has_a_task_of_its_own():
    async def work():
        await asyncio.sleep(0)
        return asyncio.current_task()

    running = ContainedTask(work)

    assert await running.wait(1)
    assert running.result() is running.task
    assert await shield_until_done(work) is not asyncio.current_task()


async def test_it_has_a_context_of_its_own():
    async def work():
        number.set(number.get() + 1)
        await asyncio.sleep(0)
        return number.get()

    number.set(1)

    assert await shield_until_done(work) == 2
    assert number.get() == 1


@pytest.mark.parametrize("error", [Boom, asyncio.CancelledError, KeyboardInterrupt, SystemExit])
async def test_an_error_is_for_who_waits(error):
    running = ContainedTask(partial(fail, error))
    assert await running.wait(1)

    for _ in range(2):
        with pytest.raises(error):
            running.result()
    with pytest.raises(error):
        await shield_until_done(partial(fail, error))


def test_an_exit_passes_every_finally():
    passed = []

    async def waits(level):
        try:
            await (shield_until_done(partial(waits, level - 1)) if level else fail(SystemExit))
        finally:
            passed.append(level)

    with pytest.raises(SystemExit):
        asyncio.run(waits(3))

    assert passed == [0, 1, 2, 3]


async def test_being_cancelled_does_not_reach_it(caplog):
    told, go_on = [], asyncio.Event()

    async def work(error):
        await go_on.wait()
        if error:
            raise error
        told.append("ended")

    for error in (None, Boom()):
        told.clear()
        go_on.clear()
        task = asyncio.ensure_future(shield_until_done(partial(work, error)))
        for _ in range(2):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told == ([] if error else ["ended"])

    assert caplog.record_tuples == []


async def test_each_cancellation_of_the_waiting_task_is_told():
    end, told = asyncio.get_running_loop().create_future(), []
    task = asyncio.ensure_future(outlast(end, lambda: told.append("cancelled")))
    for reason in ("first", "second"):
        await asyncio.sleep(0)
        task.cancel(reason)
    await asyncio.sleep(0)
    assert not task.done()
    end.set_result(None)

    assert (await task).args == ("second",)
    assert told == ["cancelled", "cancelled"]


async def test_a_cancelled_scope_of_anyio_waits_for_the_end():
    told = []

    async def work():
        await asyncio.sleep(0.02)
        told.append("ended")

    with anyio.move_on_after(0):
        await shield_until_done(work)

    assert told == ["ended"]


@pytest.mark.parametrize("begins", [True, False])
async def test_cancelled_work_ends_for_good(begins):
    runs = []

    async def work():
        runs.append("begun")
        await asyncio.Event().wait()

    running = ContainedTask(work)
    if begins:
        await asyncio.sleep(0)
    running.cancel()

    assert await running.wait(1)
    assert running.task.cancelled()
    assert not running.is_left_behind
    assert runs == ["begun"] * begins


async def test_work_may_be_left_behind(caplog):
    end, told = asyncio.Event(), []

    async def work():
        await end.wait()
        raise Boom

    running = ContainedTask(work)
    running.later(60, lambda: told.append("replaced"))
    running.later(0.001, running.leave_behind)
    assert await outlast(running.ended, lambda: None) is None
    assert running.is_left_behind

    end.set()
    await asyncio.wait({running.task})
    await asyncio.sleep(0)
    running.later(0, lambda: told.append("too late"))
    await asyncio.sleep(0.001)
    assert not running.is_left_behind
    assert told == []
    assert caplog.record_tuples == []


@pytest.mark.parametrize("turns", range(4))
async def test_work_that_has_not_begun_begins_once_more(turns):
    runs = []

    async def work():
        runs.append("begun")
        for _ in range(2):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                runs.append("cancelled")
        return "done"

    mine = asyncio.current_task()
    task = asyncio.ensure_future(shield_until_done(work))
    for _ in range(turns):
        await asyncio.sleep(0)
    cancel_all(mine)
    await asyncio.wait({task})

    # Cancelled before its own first step, not even the waiting has begun.
    assert task.cancelled()
    assert runs.count("begun") == min(turns, 1)


async def test_a_loop_of_its_own_may_end_at_once():
    def run(debug):
        return asyncio.run(shield_until_done(partial(value, "a")), debug=debug)

    assert [await asyncio.to_thread(run, debug) for debug in (False, True)] == ["a", "a"]
