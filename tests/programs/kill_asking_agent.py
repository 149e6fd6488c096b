"""A program whose agent is killed at every step between a question and its effect.

`ADDRESS FOLDER MODE TIMES`: at each step a child kills itself, so many times, each in a session of
its own, and another one goes on to the end. MODE is `approve`, `deny` or `below` (the tool in a
sub-agent). It writes a line of JSON for each kill: the step, what the store said then and how often
the tool had run, and the same at the end, with the results that the model read.
"""

import asyncio
import itertools
import sys
from collections import Counter
from itertools import groupby
from typing import NamedTuple

from kill_steps import (
    Steps,
    address_of,
    clear,
    count_run,
    kill_at_each_step,
    run_child,
    runs_in,
    store_class,
    value_of,
)
from toolbus import Agent, Ask, AssistantMessage, EventBus, ToolCall, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import find_question, questions_of
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.store.store_factory import open_store


class Place(NamedTuple):
    """Where a session is kept, and the file in which its tools count their runs."""

    address: str
    session_id: str
    effects: str
    mode: str


def counted(effects, steps):
    """Return the tools `pay` and `look`, which write each of their runs to the file *effects*."""

    def run(name):
        steps.take(f"before {name}")
        count_run(effects, name)
        steps.take(f"after {name}")

    @tool
    async def pay() -> str:
        run("pay")
        return "paid"

    @tool
    async def look() -> str:
        run("look")
        return "seen"

    return [pay, look]


def turn(request):
    """Ask for both tools, or else say what came of it."""
    if request.messages[-1].role == "tool":
        return "Done."
    calls = [ToolCall(id="c1", name="pay"), ToolCall(id="c2", name="look")]
    return AssistantMessage(tool_calls=calls)


def delegate(request):
    if request.messages[-1].role == "tool":
        return "Done."
    call = ToolCall(id="down", name="worker", arguments={"prompt": "pay"})
    return AssistantMessage(tool_calls=[call])


def make_agent(store, place, steps):
    bus, tools = EventBus(), counted(place.effects, steps)
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("?") if ctx.value.name == "pay" else None)
    model = ScriptedModel(itertools.repeat(turn))
    if place.mode == "below":
        worker = Agent(model, tools=tools, bus=bus, agent_id="worker")
        model, tools = ScriptedModel(itertools.repeat(delegate)), [worker.as_tool("worker")]
    options = {"store": store, "session_id": place.session_id, "approver": StoredApprovals()}
    return Agent(model, tools=tools, bus=bus, **options)


async def to_the_end(store, place, steps):
    """Run, answer and resume until the run is at its end."""
    while True:
        has_begun = any(message.role == "user" for message in await store.read(place.session_id))
        async with make_agent(store, place, steps) as agent:
            result = await (agent.resume() if has_begun else agent.run("go"))
        if result.status == "ok":
            return
        for question_id in result.pending:
            question = await find_question(store, question_id)
            approve = place.mode != "deny"
            await answer(store, question_id, question.digest, approve=approve, by="ann")


async def look_up(store, place):
    """Return what the store says of the questions, how often each tool ran, and the results."""
    ids = [session.id for session in await store.sessions()]
    sessions = [name for name in ids if f"{name}/".startswith(f"{place.session_id}/")]
    questions = [each for name in sessions for each in await questions_of(store, name)]
    messages = [message for name in sessions for message in await store.read(name)]
    runs = Counter(runs_in(place.effects))
    return {
        "states": [question.state for question in questions],
        "pay": runs["pay"],
        "look": runs["look"],
        "results": [[each.tool_call_id, each.text] for each in messages if each.role == "tool"],
    }


async def go_on(places):
    """Return what is known after kills, and again after another process went on to the end."""
    groups = groupby(places, key=lambda place: place.address)
    return [facts for _, group in groups for facts in await go_on_at([*group])]


async def go_on_at(places):
    """Do as `go_on`, for places with one address."""
    store = open_store(places[0].address)
    known = [{"then": await look_up(store, place)} for place in places]
    for place, facts in zip(places, known, strict=True):
        try:
            await to_the_end(store, place, Steps(0, lambda _: None))
        except Exception as error:  # noqa: BLE001 - which is what the test is about
            facts["error"] = repr(error)
        facts["finally"] = await look_up(store, place)
    await store.close()
    return known


async def run_stepped(place, steps):
    store = open_store(place.address)
    await to_the_end(store, place, steps)
    await store.close()


def main(address, folder, mode, times):
    written = store_class(address)

    def place_of(name):
        return Place(address_of(address, name), name, f"{folder}/{name}", mode)

    def kill(name, number):
        def work(tell):
            steps = Steps(number, tell)
            steps.at_writes(written)
            asyncio.run(run_stepped(place_of(name), steps))

        done = run_child(work)
        assert done.is_killed or done.code == 0, done
        return done.lines[-1] if done.is_killed else None

    def go_on_with(names):
        places = [place_of(name) for name in names]
        known = value_of(go_on, places)
        clear(place.address for place in places)
        return known

    kill_at_each_step(kill, go_on_with, int(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
