"""A worker of durable runs that is killed at every write and around every tool.

`ADDRESS FOLDER MODE`: the engine is that of one process, with a journal beside the store's file. At
each step a child kills itself, and another one takes over to the end. The run pays, which a person
must approve, and looks; MODE is `alone`, or `below` (the tools are those of a sub-agent). A line of
JSON for each kill says the step, the word of the run, how often each tool has run, the answers of
each call, and how many workflows are open.
"""

import asyncio
import itertools
import sys
from collections import Counter, defaultdict
from pathlib import Path

from kill_asking_agent import counted
from kill_steps import (
    Steps,
    address_of,
    clear,
    kill_at_each_step,
    run_child,
    runs_in,
    store_class,
    value_of,
)
from memory_engine import MemoryEngine
from toolbus import Agent, Ask, AssistantMessage, ToolCall
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.durable.engine import QueueLimits
from toolbus.durable.holds import wake
from toolbus.durable.runs import VERSION, RunIndex, read_run
from toolbus.durable.segment import durable
from toolbus.durable.slots import WorkerSlot
from toolbus.durable.submission import submit
from toolbus.durable.worker import QueueWorker
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.store.store_factory import open_store

SESSION, RUN = "s", "r"


def turn(request):
    if request.messages[-1].role == "tool":
        return "Done."
    calls = [ToolCall(id=name, name=name) for name in ("pay", "look")]
    return AssistantMessage(tool_calls=calls)


def delegate(request):
    if request.messages[-1].role == "tool":
        return "Done."
    call = ToolCall(id="down", name="worker", arguments={"prompt": "pay"})
    return AssistantMessage(tool_calls=[call])


def factory(effects, steps, mode):
    """Return a factory of agents whose tools write each of their runs to the file *effects*."""

    own_tools = counted(effects, steps)

    def make_agent(session_id, store):
        model, tools = ScriptedModel(itertools.repeat(turn)), own_tools
        if mode == "below":
            worker = Agent(model, tools=tools, agent_id="worker")
            model, tools = ScriptedModel(itertools.repeat(delegate)), [worker.as_tool("worker")]
        options = {"store": store, "session_id": session_id, "approver": StoredApprovals()}
        agent = Agent(model, tools=tools, **options)
        agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("?"), tools=["pay"])
        return agent

    return make_agent


async def to_the_end(address, effects, mode, steps):
    """Submit the run, work and answer until the run is at its end; return the facts."""
    store, engine = open_store(address), MemoryEngine(Path(f"{address}.journal"), version=VERSION)
    index, make_agent = RunIndex(store), factory(effects, steps, mode)
    await engine.open()
    await submit(make_agent, store, engine, "go", queue="q", session_id=SESSION, run_id=RUN)
    slot = WorkerSlot(store, "worker:q:1")
    await QueueWorker(store, engine, "q", slot).renew_runs(slot.name)
    await engine.start(slot.name, durable(make_agent, store), QueueLimits(name="q"))
    for _ in range(2_000):
        run = await read_run(store, SESSION, RUN)
        if run.word not in {"queued", "held"} and not await engine.workflows():
            break
        for name in [session.id for session in await store.sessions()]:
            for question in await questions_of(store, name):
                if question.state == "pending":
                    await answer(store, question.id, question.digest, approve=True, by="ann")
        await wake(store, engine, index)
        await asyncio.sleep(0.005)
    answers = defaultdict(list)
    for session in await store.sessions():
        for message in await store.read(session.id):
            if message.role == "tool":
                answers[message.tool_call_id].append(message.tool_response.error_type or "ok")
    facts = {
        "word": run.word,
        "open": len(await engine.workflows()),
        "ran": Counter(runs_in(effects)),
        "answers": answers,
    }
    index.close()
    await engine.close()
    await store.close()
    return facts


def main(address, folder, mode):
    written = store_class(address)

    def place(name):
        return address_of(address, name), f"{folder}/{name}", mode

    def kill(name, number):
        def work(tell):
            steps = Steps(number, tell)
            steps.at_writes(written)
            MemoryEngine.step = steps._stepped("step", MemoryEngine.step)
            asyncio.run(to_the_end(*place(name), steps))

        done = run_child(work)
        assert done.is_killed or done.code == 0, done
        return done.lines[-1] if done.is_killed else None

    def go_on(names):
        quiet = Steps(0, lambda _: None)
        facts = [value_of(to_the_end, *place(name), quiet) for name in names]
        clear(place(name)[0] for name in names)
        return facts

    kill_at_each_step(kill, go_on, 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
