"""What the spec does not mention of what components keep."""

import asyncio

import pytest

from toolbus import AgentComponent, Scope
from toolbus.components import State
from toolbus.components.participants import ComponentHost
from toolbus.components.state import replay_place, temporary_place
from toolbus.store.memory import MemoryStore
from toolbus.tasks.loops import set_context


class Overtaking(MemoryStore):
    """A store in which somebody else counts before each of our first writes."""

    times = 3

    async def swap_state(self, session_id, name, old, new):
        if self.times:
            self.times -= 1
            theirs = str(int(old or b"0") + 1).encode()
            assert await super().swap_state(session_id, name, old, theirs)
        return await super().swap_state(session_id, name, old, new)


async def test_a_function_is_called_again_if_somebody_was_faster():
    seen, state = [], State(Overtaking(), "s", "count")

    count = await state.update(lambda old: seen.append(old) or (old or 0) + 1)

    assert seen == [None, 1, 2, 3]
    assert count == await state.read() == 4


async def test_what_does_not_change_is_not_written():
    class Counting(MemoryStore):
        writes = 0

        async def swap_state(self, *arguments):
            self.writes += 1
            return await super().swap_state(*arguments)

    store = Counting()
    state = State(store, "s", "n")
    for change in (lambda _: None, lambda _: {"a": 1}, lambda old: old, lambda _: {"a": 1}):
        await state.update(change)
    await state.update(lambda _: {"a": 1.0})

    assert store.writes == 2
    assert type((await state.read())["a"]) is float


async def test_a_cancelled_update_leaves_the_old_or_the_new():
    reached = asyncio.Event()

    class Slow(MemoryStore):
        async def swap_state(self, *arguments):
            reached.set()
            await asyncio.sleep(0)
            return await super().swap_state(*arguments)

    state = State(Slow(), "s", "n")
    task = asyncio.create_task(state.update(lambda _: 1))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await state.read() in {None, 1}


async def test_a_rehearsal_keeps_apart_what_is_tried():
    host = ComponentHost()
    scope = Scope(session_id="s")
    await host.state("n", scope).update(lambda _: 1)

    with set_context(replay_place, temporary_place("s")):
        tried = await host.state("n", scope).update(lambda old: (old or 0) + 10)
        unnamed = await host.state("n").read()

    assert (tried, unnamed) == (10, 10)
    assert await host.state("n", scope).read() == 1


async def test_shared_is_the_session_of_the_outermost():
    host = ComponentHost()
    below = Scope(session_id="s/1", root_session_id="s", lineage=("a",))

    await host.state("n", below, shared=True).update(lambda _: 1)

    read = [await host.state("n", scope).read() for scope in (Scope(session_id="s"), below)]
    assert read == [1, None]


async def test_components_of_one_name_have_states_of_their_own():
    host = ComponentHost(scope=Scope(session_id="s"))
    first, second, other = AgentComponent(), AgentComponent(), AgentComponent()
    for component in (first, second):
        component.setup(host)
    other.setup(ComponentHost(host.bus, host.scope))
    for number, component in enumerate((first, second, other), 1):
        await component.state().update(lambda _, number=number: number)

    first.teardown()
    other.teardown()
    # The lowest name that is free on this host: that of the first one.
    other.setup(host)

    assert [await each.state().read() for each in (second, other)] == [2, 1]
