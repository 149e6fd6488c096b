"""The scenarios of `specs/sessions.md`."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kill_agent
import toolbus
from toolbus import Agent, AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage, tool
from toolbus.errors import StoreError
from toolbus.events import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_PERSIST_BEFORE,
)
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.fakes import Recorder

ASKING = AssistantMessage(
    id="ask",
    tool_calls=[
        ToolCall(id="1", name="echo", arguments={"text": "a"}),
        ToolCall(id="2", name="echo", arguments={"text": "b"}),
    ],
)
ANSWER = ToolMessage(id="t1", tool_call_id="1", tool_name="echo", content="<a>")
INTERRUPTED = "the call was interrupted, and may have had effects; it was not run again"


@tool
async def echo(text: str) -> str:
    return f"<{text}>"


def texts(messages) -> list[str]:
    return [one.text for one in messages]


def open_calls(messages) -> list[str]:
    """Return the ids of the calls that have no answer, after a check that answers follow calls."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting += [call.id for call in getattr(message, "tool_calls", ())]
    return waiting


async def interrupted_store() -> MemoryStore:
    """Return a store with a session in which the second of two calls is open."""
    store = MemoryStore()
    for message in (UserMessage(id="u", content="go"), ASKING, ANSWER):
        await store.append("s", AppendRequest(message=message))
    return store


def resuming(store, *answers, **options) -> Agent:
    options.setdefault("tools", [echo])
    return Agent(ScriptedModel(answers), store=store, session_id="s", **options)


def start(*arguments: object) -> subprocess.Popen:
    """Start the program that is to be killed."""
    source = str(Path(toolbus.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, kill_agent.__file__, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(child: subprocess.Popen) -> list[str]:
    """Kill the program; return the lines that it said and nobody read yet."""
    child.send_signal(signal.SIGKILL)
    lines = list(child.stdout)
    assert all(line.endswith("\n") for line in lines)
    return lines


async def test_a_session_continues(tmp_path, caplog):
    path = tmp_path / "store.db"
    first = ScriptedModel([ASKING, "done"])
    async with SqliteStore(path) as store:
        async with Agent(first, tools=[echo], store=store, session_id="s", system="old") as agent:
            await agent.run("go")
        before = tuple(agent.messages)

    second = ScriptedModel(["and on"])
    async with SqliteStore(path) as store:
        agent = Agent(second, tools=[echo], store=store, session_id="s", system="new")
        result = await agent.run("go on")

        assert second.requests[0].messages[:-1] == before
        assert texts(before) == ["old", "go", "", "<a>", "<b>", "done"]
        assert texts(result.messages) == ["go on", "and on"]
        assert await store.read("s") == tuple(agent.messages) == (*before, *result.messages)
        assert [one.text for one in agent.messages if isinstance(one, SystemMessage)] == ["old"]
        told = "session 's' keeps another system message: "
        assert caplog.messages == [f"{told}`system=` applies to new sessions only"]
        again = Agent(ScriptedModel(["3"]), store=store, session_id="s", system="old")
        await again.run("once more")
        assert len(caplog.messages) == 1


async def test_a_started_agent_has_the_messages():
    store = await interrupted_store()

    async with resuming(store, system="new") as agent:
        messages = list(agent.messages)

    assert texts(messages) == ["go", "", "<a>"]
    assert texts(await store.read("s")) == ["go", "", "<a>"]


async def test_a_failed_read_is_repeated():
    class Hesitant(MemoryStore):
        failures = 1

        async def read(self, session_id):
            if self.failures:
                self.failures -= 1
                raise StoreError("disk", "it failed; see to it and try again")
            return await super().read(session_id)

    store = Hesitant()
    await store.append("s", AppendRequest(message=UserMessage(id="u", content="before")))
    agent = resuming(store, "done")

    with pytest.raises(StoreError, match="it failed"):
        await agent.run("go")
    await agent.run("go on")

    assert texts(agent.messages) == ["before", "go on", "done"]


async def test_an_open_call_is_interrupted():
    store, ran = await interrupted_store(), []

    @tool(name="echo")
    async def counting(text: str) -> str:
        ran.append(text)
        return text

    agent = resuming(store, "done", tools=[counting], agent_id="main")
    recorder = Recorder(agent.bus)

    result = await agent.run("go on")

    late = result.messages[0]
    response = late.tool_response
    assert (late.tool_call_id, late.tool_name, late.text) == ("2", "echo", INTERRUPTED)
    assert (response.is_error, response.error_type) == (True, "interrupted")
    assert (response.parameters, response.tool_call_id) == ({"text": "b"}, "2")
    assert texts(result.messages[1:]) == ["go on", "done"]
    (after,) = recorder.of(TOOL_CALL_AFTER)
    outcome = after.value
    assert (outcome.status, outcome.executed, outcome.attempts) == ("interrupted", None, 0)
    assert outcome.requested == ASKING.tool_calls[1]
    assert (after.scope.agent_id, after.scope.session_id) == ("main", "s")
    assert ran == []
    assert await store.read("s") == tuple(agent.messages)


async def test_the_interruption_passes_every_step():
    agent = resuming(await interrupted_store(), "done")
    recorder = Recorder(agent.bus)

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, ToolMessage))
    def explain(ctx):
        return ctx.value.with_tool_response(ctx.value.tool_response.with_text("ask again"))

    await agent.run("go on")

    assert [one.event for one in recorder.records if one.call_id] == [
        "tool:call:after",
        "message:append:before",
        "message:persist:before",
        "tool:call:persist:before",
        "tool:call:persist:after",
        "message:append:after",
    ]
    (facts,) = recorder.values(TOOL_CALL_PERSIST_BEFORE)
    assert (facts.message_id, facts.tool_input) == ("ask", {"text": "b"})
    assert texts(agent.messages)[3:] == ["ask again", "go on", "done"]


async def test_an_append_resumes_as_well():
    appended, called = [resuming(await interrupted_store(), agent_id="main") for _ in range(2)]
    recorder = Recorder(appended.bus)

    await appended.append(UserMessage(id="note", content="note"))
    await appended.append(UserMessage(id="more", content="more"))
    outcome = await called.call_tool("echo", text="c")

    assert texts(appended.messages)[3:] == [INTERRUPTED, "note", "more"]
    assert [one.value.status for one in recorder.of(TOOL_CALL_AFTER)] == ["interrupted"]
    assert texts(called.messages)[3:] == [INTERRUPTED, "", "<c>"]
    assert outcome.status == "ok"


async def test_the_program_may_answer_the_call():
    agent = resuming(await interrupted_store(), "done")
    recorder = Recorder(agent.bus)

    await agent.append(ToolMessage(id="t2", tool_call_id="2", tool_name="echo", content="<b>"))
    await agent.run("go on")

    assert texts(agent.messages) == ["go", "", "<a>", "<b>", "go on", "done"]
    assert recorder.of(TOOL_CALL_AFTER) == []
    assert len(recorder.of(MESSAGE_APPEND_AFTER)) == 3


@pytest.mark.full
async def test_a_kill_loses_no_reported_message(tmp_path, thorough):
    chance, path, known = random.Random(3), tmp_path / "store.db", 0

    for turn in range(60 if thorough else 4):
        with start("work", path) as child:
            lines = [child.stdout.readline() for _ in range(chance.randrange(1, 30))]
            until = time.perf_counter_ns() + chance.randrange(1_000_000)
            while time.perf_counter_ns() < until:
                pass
            said = [line.strip() for line in lines + kill(child)]
        assert child.returncode == -signal.SIGKILL
        async with SqliteStore(path) as store:
            messages = await store.read("s")
            ids = [one.id for one in messages]
            assert said
            assert ids[known : known + len(said)] == said
            # The two results of a turn may share a commit.
            untold = messages[known + len(said) :]
            assert len(untold) <= 1 or [each.role for each in untold] == ["tool", "tool"]
            for place, message in enumerate(messages):
                if message.id.startswith("turn-"):
                    assert message.text == kill_agent.text_of(int(message.id.removeprefix("turn-")))
                elif isinstance(message, ToolMessage) and not message.tool_response.is_error:
                    asked = int(message.tool_call_id[1:])
                    assert message.text == kill_agent.text_of(asked)
                assert isinstance(message, SystemMessage) is (place == 0)
            agent = resuming(store, "done")
            result = await agent.run(f"after {turn}")
            assert result.text == "done"
            assert open_calls(agent.messages) == []
            assert await store.read("s") == tuple(agent.messages)
            known = len(agent.messages)


async def resume_after_hang(tmp_path, mode: str, *names: str):
    """Kill a process in which the calls *names* are made; return what resuming it brings."""
    path, runs = tmp_path / "store.db", tmp_path / "runs"
    with start(mode, path, runs, *names) as child:
        # Each call says when it has ended, or that it never will.
        lines = [child.stdout.readline() for _ in names]
        kill(child)
    assert sorted(lines) == sorted(f"{name}\n" for name in names)
    async with SqliteStore(path) as store:
        before = await store.read("s")
        tools = kill_agent.counting_tools(runs)
        agent = resuming(store, "done", tools=tools)
        with Recorder(agent.bus) as recorder:
            await agent.run("go on")
        sessions = [one.id for one in await store.sessions()]
        assert await store.read("s") == tuple(agent.messages)
    ran = sorted(runs.read_text("utf-8").split())
    return before, list(agent.messages), recorder.values(TOOL_CALL_AFTER), ran, sessions


async def test_a_killed_tool_is_not_repeated(tmp_path):
    before, after, outcomes, ran, _ = await resume_after_hang(tmp_path, "hang", "hangs")

    assert open_calls(before) == ["hangs"]
    assert texts(after) == ["go", "let me see", INTERRUPTED, "go on", "done"]
    assert after[2].tool_response.error_type == "interrupted"
    assert [one.status for one in outcomes] == ["interrupted"]
    assert ran == ["hangs"]


@pytest.mark.parametrize("names", [("ends", "hangs"), ("hangs", "ends")])
async def test_a_kill_keeps_the_results_of_siblings(tmp_path, names):
    before, after, outcomes, ran, _ = await resume_after_hang(tmp_path, "hang", *names)

    answers = [one.text for one in after if isinstance(one, ToolMessage)]
    missing = open_calls(before)
    assert set(missing) >= {"hangs"}
    kept = [one.text for one in before if isinstance(one, ToolMessage)]
    assert answers == kept + [INTERRUPTED] * len(missing)
    assert [(one.requested.id, one.status) for one in outcomes] == [
        (name, "interrupted") for name in missing
    ]
    assert open_calls(after) == []
    assert ran == ["ends", "hangs"]


async def test_a_killed_sub_agent_is_not_repeated(tmp_path):
    before, after, outcomes, ran, sessions = await resume_after_hang(tmp_path, "below", "hangs")

    assert open_calls(before) == ["down"]
    assert texts(after) == ["go", "", INTERRUPTED, "go on", "done"]
    assert [one.requested.name for one in outcomes] == ["worker"]
    assert ran == ["hangs"]
    assert [one.rsplit("/", 1)[0] for one in sessions] == ["s", "s/down"]
