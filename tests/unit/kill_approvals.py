"""A program that is killed at every step between a question and its effect, in children of its own.

`ADDRESS FOLDER MODE TIMES`: for each step, before and after it, a child kills itself there, and
another one goes on to the end, in a session of its own. MODE is `approve`, `deny` or `below` (the
tool in a sub-agent). It prints a line of JSON for each kill: the step, what the store said then and
how often the tool had run, and the same at the end, with the results that the model read.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from toolbus import Agent, Ask, AssistantMessage, EventBus, ToolCall, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import find_question, questions_of
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.store.opening import open_store

WRITES = {"append", "swap_state", "open_session"}
MOST = 400
"""Steps that no way to the end has."""


class Place(NamedTuple):
    """Where a session is kept, and the file in which its tools count their runs."""

    address: str
    session_id: str
    effects: str
    mode: str


class Steps:
    """Counts steps, and kills this process at number *limit*, whose name goes to *file*."""

    def __init__(self, limit, file):
        self._limit, self._file, self.count = limit, file, 0

    def take(self, name):
        self.count += 1
        if self.count == self._limit:
            Path(self._file).write_text(name, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)


class SteppedStore:
    """The store at *address*; each of its writes is a step before and one after it."""

    def __init__(self, address, steps):
        self._store, self._steps = open_store(address), steps

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name not in WRITES:
            return method

        async def write(*arguments, **options):
            self._steps.take(f"before {name}")
            result = await method(*arguments, **options)
            self._steps.take(f"after {name}")
            return result

        return write


def counted(effects, steps):
    """Return the tools `pay` and `look`, which write each of their runs to the file *effects*."""

    def count(name):
        steps.take(f"before {name}")
        with open(effects, "a", encoding="utf-8") as file:  # noqa: PTH123 - as a tool would do it
            file.write(f"{name}\n")
        steps.take(f"after {name}")

    @tool
    async def pay() -> str:
        count("pay")
        return "paid"

    @tool
    async def look() -> str:
        count("look")
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
    return AssistantMessage(
        tool_calls=[ToolCall(id="down", name="worker", arguments={"prompt": "pay"})]
    )


def forever(answer_to):
    while True:
        yield answer_to


def make_agent(store, place, steps):
    bus, tools = EventBus(), counted(place.effects, steps)
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("?") if ctx.value.name == "pay" else None)
    model = ScriptedModel(forever(turn))
    if place.mode == "below":
        worker = Agent(model, tools=tools, bus=bus, agent_id="worker")
        model, tools = ScriptedModel(forever(delegate)), [worker.as_tool("worker")]
    options = {"store": store, "session_id": place.session_id, "approver": StoredApprovals()}
    return Agent(model, tools=tools, bus=bus, **options)


async def to_the_end(place, steps):
    """Run, answer and resume until the run is at its end; return the count of steps."""
    store = SteppedStore(place.address, steps)
    while True:
        has_begun = any(message.role == "user" for message in await store.read(place.session_id))
        async with make_agent(store, place, steps) as agent:
            result = await (agent.resume() if has_begun else agent.run("go"))
        if result.status == "ok":
            break
        for question_id in result.pending:
            question = await find_question(store, question_id)
            await answer(
                store, question_id, question.digest, approve=place.mode != "deny", by="ann"
            )
    await store.close()
    return steps.count


async def look_up(place):
    """Return what the store says of the questions, how often each tool ran, and the results."""
    store = open_store(place.address)
    try:
        ids = [session.id for session in await store.sessions()]
        sessions = [name for name in ids if f"{name}/".startswith(f"{place.session_id}/")]
        questions = [each for name in sessions for each in await questions_of(store, name)]
        results = [
            [message.tool_call_id, message.text]
            for name in sessions
            for message in await store.read(name)
            if message.role == "tool"
        ]
    finally:
        await store.close()
    effects = Path(place.effects)
    runs = effects.read_text(encoding="utf-8").split() if effects.exists() else []
    return {
        "states": [question.state for question in questions],
        "pay": runs.count("pay"),
        "look": runs.count("look"),
        "results": results,
    }


def in_child(work):
    """Run *work* in a child; return whether it ended by itself."""
    if child := os.fork():
        return os.waitpid(child, 0)[1] == 0
    try:
        asyncio.run(work())
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - what a child raises is told, and ends it
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def kill_once(place, limit):
    """Kill a child at step *limit*, let another one go on; return what is known, None: no step."""
    name = Path(f"{place.effects}.step")
    Path(place.effects).unlink(missing_ok=True)
    if in_child(lambda: to_the_end(place, Steps(limit, name))):
        return None
    facts = {"step": name.read_text(encoding="utf-8"), "number": limit}
    facts["then"] = asyncio.run(look_up(place))
    facts["ended"] = in_child(lambda: to_the_end(place, Steps(0, name)))
    facts["finally"] = asyncio.run(look_up(place))
    return facts


def main(address, folder, mode, times):
    for limit in range(1, MOST):
        for turn_number in range(int(times)):
            session_id = f"{mode}-{limit}-{turn_number}"
            facts = kill_once(Place(address, session_id, f"{folder}/effects", mode), limit)
            if facts is None:
                return
            print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
