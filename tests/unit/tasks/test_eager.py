"""What `specs` should not mention of `toolbus.tasks.eager`."""

import asyncio
from contextvars import ContextVar

import pytest

from toolbus.tasks.eager import MOST_IN_A_ROW, MOST_NESTED, Begun, _Steps, to_the_end

number = ContextVar("number", default=0)


class Boom(Exception):
    pass


async def value(given):
    return given


async def boom():
    raise Boom


async def test_what_never_waits_takes_no_turn():
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, 1)

    begun = Begun(value("a"))

    assert begun.ended
    assert (await begun, await to_the_end(begun), await begun) == ("a", "a", "a")
    assert turns == []
    assert await begun.task is None


async def test_what_waits_goes_on_in_its_task():
    async def work():
        first = asyncio.current_task()
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return first, asyncio.current_task()

    begun = Begun(work())

    assert not begun.ended
    assert await begun == (begun.task, begun.task)
    assert await to_the_end(Begun(asyncio.sleep(0, "b"))) == "b"


@pytest.mark.parametrize("error", [Boom, asyncio.CancelledError, SystemError])
async def test_an_error_is_for_who_waits(error):
    async def work():
        raise error

    begun = Begun(work())

    for _ in range(2):
        with pytest.raises(error):
            await begun
    with pytest.raises(error):
        await to_the_end(begun)


async def test_it_has_a_context_of_its_own():
    async def work():
        number.set(number.get() + 1)
        await asyncio.sleep(0)
        return number.get()

    number.set(1)

    assert await Begun(work()) == 2
    assert number.get() == 1


async def test_the_first_step_may_open_a_timeout():
    async def work():
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"

    assert await to_the_end(Begun(work())) == "late"
    assert asyncio.current_task().cancelling() == 0


async def test_the_first_step_may_open_a_group():
    async def work():
        async with asyncio.TaskGroup() as group:
            group.create_task(boom())
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup):
        await Begun(work())


async def test_a_cancellation_reaches_what_it_waits_for():
    inner, seen = asyncio.get_running_loop().create_future(), []

    async def work():
        try:
            await inner
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    begun = Begun(work())
    begun.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun

    assert inner.cancelled()
    assert seen == ["cancelled"]


async def test_a_cancellation_comes_after_the_end_of_what_it_waits_for():
    inner, seen = asyncio.get_running_loop().create_future(), []

    async def work():
        try:
            await inner
        except asyncio.CancelledError:
            seen.append("cancelled")
        await asyncio.sleep(0)
        return "cleaned up"

    begun = Begun(work())
    inner.set_result(None)
    begun.task.cancel()

    assert await begun == "cleaned up"
    assert seen == ["cancelled"]


async def test_a_cancellation_is_too_late_after_the_end():
    begun = Begun(value("a"))

    begun.task.cancel()
    await asyncio.sleep(0)

    assert await begun == "a"
    assert begun.task.done()
    assert not begun.task.cancelled()


async def test_two_may_wait_for_the_same():
    inner = asyncio.get_running_loop().create_future()

    async def work():
        return await inner

    first = Begun(work())
    plain = asyncio.ensure_future(work())
    second = Begun(work())
    asyncio.get_running_loop().call_later(0.001, inner.set_result, "a")

    assert await asyncio.gather(first.task, plain, second.task) == ["a", "a", "a"]


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
        task = asyncio.ensure_future(
            to_the_end(Begun(work(error)), lambda: told.append("cancelled"))
        )
        for _ in range(2):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told == ["cancelled", "cancelled", *([] if error else ["ended"])]

    assert caplog.record_tuples == []


async def test_who_is_told_may_cancel_it():
    begun = Begun(asyncio.Event().wait())
    task = asyncio.ensure_future(to_the_end(begun, begun.task.cancel))
    await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert begun.task.cancelled()


async def test_a_long_row_lets_others_run():
    turns, tasks = [], asyncio.all_tasks()

    async def count():
        while True:
            turns.append(len(asyncio.all_tasks() - tasks))
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    for _ in range(10 * MOST_IN_A_ROW):
        await to_the_end(Begun(value(None)))
    counting.cancel()

    assert len(turns) >= 10
    assert max(turns) <= MOST_IN_A_ROW + 2


async def test_nesting_has_a_bound():
    async def work(left):
        task = asyncio.current_task()
        if left:
            begun = Begun(work(left - 1))
            return [begun.ended, *await begun]
        return [task is asyncio.current_task()]

    shallow, deep = await Begun(work(MOST_NESTED - 1)), await Begun(work(500))

    assert shallow == [True] * MOST_NESTED
    assert not all(deep)
    assert len(deep) == 501


async def test_a_task_that_has_not_begun_can_be_cancelled():
    async def work(left):
        if left:
            return await Begun(work(left - 1))
        begun = [Begun(value("a")), Begun(value("b"))]
        begun[1].task.cancel()
        return begun

    first, second = await Begun(work(MOST_NESTED - 1))

    assert not first.ended
    assert await first == "a"
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_work_begins_at_once_where_no_task_runs():
    loop, made = asyncio.get_running_loop(), asyncio.Event()

    async def work():
        return asyncio.current_task()

    def outside():
        begun.append(Begun(work()))
        now.append((begun[0].ended, asyncio.current_task()))
        made.set()

    begun, now = [], []
    loop.call_soon(outside)
    await made.wait()

    assert now == [(True, None)]
    assert await begun[0] is begun[0].task


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_exit_ends_the_loop_in_its_own_turn(error):
    async def leave():
        raise error

    left = []
    for resume in (lambda steps: steps.send(None), lambda steps: steps.throw(Boom())):
        steps = _Steps(leave(), alone=True)
        steps.begin()
        left.append(steps.ended)
        with pytest.raises(error):
            resume(steps)

    assert left == [False, False]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("waits", [False, True])
async def test_an_exit_reaches_whoever_waits(error, waits):
    async def leave():
        if waits:
            await asyncio.sleep(0)
        raise error

    begun = Begun(leave())
    with pytest.raises(error):
        await to_the_end(begun)

    with pytest.raises(error):
        begun.result()


def test_a_loop_may_end_at_once():
    async def main():
        return await to_the_end(Begun(value("a")))

    assert asyncio.run(main()) == "a"
    assert asyncio.run(main(), debug=True) == "a"
