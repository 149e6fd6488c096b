import asyncio

from toolbus.tasks.shielding import ContainedTask
from toolbus.tools.calls.order import next_to_answer


class Call:
    """A call that ends when it is told to."""

    def __init__(self):
        self.waits = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        self.running = ContainedTask(self.ended.wait)


async def order_of(calls, *steps):
    """Return in which order *calls* are answered, if the *steps* are taken one after another."""
    remaining, order = list(calls), []

    async def answer():
        while remaining:
            running = [call.running for call in remaining]
            order.append(calls.index(remaining.pop(await next_to_answer(remaining, running))))

    answering = asyncio.create_task(answer())
    for step in steps:
        step()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await answering
    return order


async def test_calls_are_answered_in_their_order():
    calls = [Call(), Call(), Call()]

    ends = [calls[index].ended.set for index in (2, 0, 1)]

    assert await order_of(calls, *ends) == [0, 1, 2]


async def test_a_call_that_waits_holds_up_nobody():
    calls = [Call(), Call(), Call()]

    steps = [
        lambda: calls[0].waits.set_result(None),
        calls[2].ended.set,
        calls[1].ended.set,
        calls[0].ended.set,
    ]

    assert await order_of(calls, *steps) == [1, 2, 0]


async def test_a_call_that_waits_later_holds_up_nobody():
    calls = [Call(), Call()]

    steps = [calls[1].ended.set, lambda: calls[0].waits.set_result(None), calls[0].ended.set]

    assert await order_of(calls, *steps) == [1, 0]


async def test_a_call_without_a_task_is_the_next():
    assert await next_to_answer([object()], [None]) == 0
