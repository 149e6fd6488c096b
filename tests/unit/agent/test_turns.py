import asyncio
import gc
from contextlib import aclosing

from toolbus import Agent
from toolbus.events.catalogue import ModelDelta


class Breaking:
    """A model whose stream fails when it is cancelled."""

    name = "breaking"

    async def stream(self, request):
        yield ModelDelta(kind="text", text="at ")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError from None


async def test_a_failure_of_a_stream_that_was_left_is_not_reported():
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    agent = Agent(Breaking())

    async with aclosing(agent.stream("go")) as pieces:
        assert (await anext(pieces)).text == "at "
    gc.collect()
    await asyncio.sleep(0)

    assert reports == []
