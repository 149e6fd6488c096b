"""The scenarios of `specs/tool_calls.md`."""

import asyncio
import logging
import os
import subprocess
import threading
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import date
from itertools import permutations
from typing import Annotated, Any, Literal, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    Retry,
    Scope,
    TextPart,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolRunner,
    tool,
)
from toolbus.errors import FreezeError, HandlerError, RegistrationError, StoreError
from toolbus.events import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOL_CALL_PERSIST_AFTER,
    TOOLS_PROVIDE,
    ToolCallOutcome,
    ToolCallPersist,
    ToolStatus,
    by_name,
)
from toolbus.messages import UserMessage, encode
from toolbus.messages.immutable import freeze, thaw
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.fakes import FakeClock, Recorder, counting_ids
from toolbus.tools import ToolContext, Toolset

SCOPE = Scope(agent_id="main", session_id="s-1")
# Only to end a test that has failed already.
SECONDS = 60
SEQUENCE = [
    "tool:call:before",
    "tool:call:after",
    "message:append:before",
    "message:persist:before",
    "tool:call:persist:before",
    "tool:call:persist:after",
    "message:append:after",
]
UNAWAITED = {"tool:call:after", "message:append:after"}


class Boom(BaseException):
    """An exception that is no `Exception`."""


def runner_of(bus, *tools, **options):
    return ToolRunner(bus, Toolset(tools), SCOPE, ids=counting_ids("c"), **options)


def call_of(name, number=1, **arguments):
    return ToolCall(id=f"c-{number}", name=name, arguments=arguments)


def asks(*calls, id="m-1"):  # noqa: A002 - the record's own word
    return AssistantMessage(id=id, tool_calls=calls)


def agent_of(*answers, **options):
    """Return an agent whose model gives *answers*, and "done" after them."""
    model = ScriptedModel([*answers, "done"], ids=counting_ids("m"))
    options = {"agent_id": "main", "session_id": "s-1", "ids": counting_ids(), **options}
    return Agent(model, **options)


def tool_messages(messages):
    return [one for one in messages if isinstance(one, ToolMessage)]


def collects(bus, event):
    """Return the list that the values of the observe event *event* will be in."""
    values = []
    bus.on(event, lambda ctx: values.append(ctx.value))
    return values


def requests_of(agent):
    """Return the list that the requests to the agent's model will be in."""
    requests = []
    agent.on(MODEL_CALL_BEFORE, lambda ctx: requests.append(ctx.value), priority=-1_000)
    return requests


@tool
async def echo(n: int) -> str:
    """Return the number, at once."""
    return str(n)


def notes(ran):
    """Return a tool that puts its arguments into *ran*."""

    @tool
    def note(n: int = 0, text: str = "", user: str = "") -> str:
        """Note."""
        ran.append({"n": n, "text": text, "user": user})
        return f"noted {n}"

    return note


def fails(*errors, **options):
    """Return a tool that raises *errors* one after another, and then works."""
    left = list(errors)

    @tool(**options)
    def flaky() -> str:
        """Fail."""
        if left:
            raise left.pop(0)
        return "fine"

    return flaky


def hangs(begun=None, **options):
    """Return an async tool that never ends; it sets *begun* when it begins."""

    @tool(**options)
    async def hang() -> str:
        """Hang."""
        if begun is not None:
            begun.set()
        await asyncio.Event().wait()

    return hang


@contextmanager
def logged(text):
    """Give an event that is set when the logger `toolbus` gets *text*, from any thread."""
    told = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record):
            if record.getMessage() == text:
                told.set()

    listener = Listener()
    logging.getLogger("toolbus").addHandler(listener)
    try:
        yield told
    finally:
        logging.getLogger("toolbus").removeHandler(listener)


def call_id_of(value):
    """Return the id of the tool call that an event's value is about, or None."""
    match value:
        case ToolCall(id=own):
            return own
        case ToolMessage(tool_call_id=own):
            return own
    for field in ("requested", "call"):
        if hasattr(value, field):
            return getattr(value, field).id
    return getattr(value, "tool_call_id", None)


def sequence(recorder, call_id):
    """Return the names of the events that are about the call *call_id*, in order."""
    return [one.event for one in recorder.records if call_id_of(one.value) == call_id]


async def test_a_handler_injects_a_default():
    bus, ran = EventBus(), []
    runner = runner_of(bus, notes(ran))

    @bus.on(TOOL_CALL_BEFORE)
    def default(ctx):
        if "n" not in ctx.value.arguments:
            return ctx.value.merge_arguments({"n": 10})
        return None

    await runner.call("note", {"n": 3})
    await runner.call("note", {"text": "a"})

    assert ran == [{"n": 3, "text": "", "user": ""}, {"n": 10, "text": "a", "user": ""}]


async def test_a_handler_constrains_an_argument():
    bus, ran = EventBus(), []

    @bus.on(TOOL_CALL_BEFORE)
    def cap(ctx):
        return ctx.value.merge_arguments({"n": min(ctx.value.arguments["n"], 5)})

    await runner_of(bus, notes(ran)).call("note", {"n": 50})

    assert [one["n"] for one in ran] == [5]


async def test_a_handler_remaps_arguments():
    bus, ran = EventBus(), []

    @bus.on(TOOL_CALL_BEFORE)
    async def remap(ctx):
        renamed = {"text": ctx.value.arguments["title"], "n": 1}
        return ctx.value.without_arguments("title", "draft").merge_arguments(renamed)

    await runner_of(bus, notes(ran)).call("note", {"title": "a", "draft": True})

    assert ran == [{"n": 1, "text": "a", "user": ""}]


async def test_a_handler_redirects_a_call():
    bus, ran = EventBus(), []
    runner = runner_of(bus, notes(ran), fails(ValueError("not me")))
    bus.on(TOOL_CALL_BEFORE, lambda ctx: replace(ctx.value, name="note"))

    outcome = await runner.call("flaky")

    assert outcome.status == "ok"
    assert len(ran) == 1
    assert (outcome.requested.name, outcome.executed.name) == ("flaky", "note")
    assert outcome.response.tool_name == "note"


async def test_a_handler_sets_the_user():
    ran = []
    agent = agent_of(asks(call_of("note", 1)), "once", asks(call_of("note", 2)), tools=[notes(ran)])

    @agent.on(TOOL_CALL_BEFORE)
    def fill(ctx):
        assert ctx.tool.name == "note"
        marked = "user" in ctx.tool.input_schema["properties"]
        return ctx.value.merge_arguments({"user": ctx.scope.context["user"]}) if marked else None

    await agent.run("go", context={"user": "ann"})
    await agent.run("go", context={"user": "bo"})

    assert [one["user"] for one in ran] == ["ann", "bo"]
    await agent.aclose()


async def test_requested_and_executed_are_both_reported():
    agent = agent_of(asks(call_of("note", n=1)), tools=[notes([])])
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)
    agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.with_arguments({"n": 2}))

    await agent.run("go")

    ((outcome), asked, answer) = (outcomes[0], agent.messages[1], agent.messages[2])
    assert outcome.requested == call_of("note", n=1)
    assert outcome.executed == call_of("note", n=2)
    assert asked.tool_calls == (call_of("note", n=1),)
    assert answer.tool_response.parameters == {"n": 2}
    assert answer.text == "noted 2"
    await agent.aclose()


async def test_texts_and_schemas_can_be_reworded():
    agent = agent_of(tools=[notes([])])
    requests = requests_of(agent)

    @agent.on(TOOLS_PROVIDE)
    def reword(ctx):
        (spec,) = ctx.value
        return (replace(spec, description="Write it down.", input_schema={"type": "object"}),)

    await agent.run("go")

    ((told,),) = [request.tools for request in requests]
    assert (told.name, told.description) == ("note", "Write it down.")
    assert told.input_schema == {"type": "object"}
    await agent.aclose()


async def test_a_hidden_tool_does_not_run():
    ran = []
    agent = agent_of(asks(call_of("flaky")), tools=[notes(ran), fails(ValueError("it ran"))])
    outcomes, requests = collects(agent.bus, TOOL_CALL_AFTER), requests_of(agent)
    agent.on(TOOLS_PROVIDE, lambda ctx: tuple([one for one in ctx.value if one.name == "note"]))

    await agent.run("go")

    assert [one.name for one in requests[0].tools] == ["note"]
    assert [(one.status, one.executed, one.attempts) for one in outcomes] == [
        ("unknown_tool", None, 0)
    ]
    assert agent.messages[2].text == "no tool named 'flaky'; known tools: note"
    await agent.aclose()


async def test_a_program_sees_hidden_tools():
    agent = agent_of(tools=[notes([])])
    agent.on(TOOLS_PROVIDE, lambda ctx: ())
    runner = ToolRunner(agent.bus, agent.tools, agent.scope)

    direct = await agent.call_tool("note", n=1)
    outcome = await runner.call("note", {"n": 2})

    assert [direct.response.text, outcome.response.text] == ["noted 1", "noted 2"]
    await agent.aclose()


async def test_a_denial_leaves_no_tools():
    agent = agent_of(asks(call_of("note")), tools=[notes([])])
    requests = requests_of(agent)
    agent.guard(TOOLS_PROVIDE, lambda ctx: Deny("not today"))

    await agent.run("go")

    assert requests[0].tools == ()
    assert agent.messages[2].text == "no tool named 'note'; known tools: none"
    await agent.aclose()


async def test_a_result_is_reshaped():
    def login(user: str) -> dict[str, str]:
        """Log in."""
        return {"user": user, "token": "s3cret"}

    agent = agent_of(tools=[login])
    agent.on(MESSAGE_APPEND_BEFORE, changes(lambda one: one.map_text(redact)))
    agent.on(MESSAGE_APPEND_BEFORE, changes(lambda one: replace(one, metadata={"seen": True})))
    agent.on(
        MESSAGE_APPEND_BEFORE,
        changes(lambda one: replace(one, structured={**one.structured, "kind": "login"})),
    )

    outcome = await agent.call_tool("login", user="ann")

    expected = {"user": "ann", "token": "***", "kind": "login"}
    for response in (outcome.response, agent.messages[1].tool_response):
        assert response.structured == expected
        assert response.metadata == {"seen": True}
        assert (response.tool_name, response.parameters) == ("login", {"user": "ann"})
    await agent.aclose()


async def test_a_success_becomes_a_failure():
    bus = EventBus()
    runner = runner_of(bus, notes([]))
    bus.on(
        MESSAGE_APPEND_BEFORE,
        changes(lambda one: replace(one.with_text("no rows"), is_error=True, error_type="empty")),
    )

    outcome = await runner.call("note")

    response = outcome.response
    assert (response.text, response.is_error, response.error_type) == ("no rows", True, "empty")
    assert outcome.status == "ok"


async def test_a_failure_becomes_a_success():
    bus = EventBus()
    runner = runner_of(bus, fails(ValueError("offline")))
    bus.on(
        MESSAGE_APPEND_BEFORE,
        changes(lambda one: replace(one.with_text("cached"), is_error=False, error_type=None)),
    )

    outcome = await runner.call("flaky")

    response = outcome.response
    assert (response.text, response.is_error, response.error_type) == ("cached", False, None)
    assert outcome.status == "error"


async def test_a_handler_that_breaks_the_result_is_named():
    def count() -> dict[str, int]:
        """Count."""
        return {"n": 1}

    bus = EventBus()
    runner = runner_of(bus, count)

    @bus.on(MESSAGE_APPEND_BEFORE)
    def spoil(ctx):
        return ctx.value.with_tool_response(
            replace(ctx.value.tool_response, structured={"n": "one"})
        )

    ran = await runner.call("count")
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse(structured={"n": 2}))
    answered = await runner.call("count")

    for outcome, status in ((ran, "ok"), (answered, "answered")):
        assert outcome.status == status
        assert outcome.response.error_type == "invalid_result"
        assert outcome.response.text == (
            "handler 'spoil' made the result invalid: expected integer, got string - at `$.n`"
        )


async def test_observers_see_the_result_as_returned():
    bus = EventBus()
    runner, outcomes = runner_of(bus, notes([])), collects(bus, TOOL_CALL_AFTER)
    bus.on(MESSAGE_APPEND_BEFORE, changes(lambda one: one.with_text("***")))

    outcome = await runner.call("note", {"n": 7})

    assert [one.response.text for one in outcomes] == ["noted 7"]
    assert outcome.response.text == "***"


async def test_a_message_without_response_hides_it():
    def secret() -> ToolResponse:
        """Tell."""
        return ToolResponse(structured={"a": 1}, metadata={"token": "s3cret"})

    bus = EventBus()
    bus.on(
        MESSAGE_APPEND_BEFORE,
        lambda ctx: replace(ctx.value, content="hidden", tool_response=None),
    )

    response = (await runner_of(bus, secret).call("secret")).response

    assert (response.text, response.structured, response.metadata) == ("hidden", None, {})
    assert (response.tool_name, response.tool_call_id) == ("secret", "c-1")


async def test_a_runner_dispatches_the_events_of_a_call():
    bus = EventBus()
    runner = runner_of(bus, fails(ValueError("broken")))

    with Recorder(bus) as recorder:
        outcome = await runner.call("flaky")

    assert recorder.names == [
        "tool:call:before",
        "tool:call:error",
        "tool:call:after",
        "message:append:before",
    ]
    assert {record.scope for record in recorder.records} == {SCOPE}
    assert (outcome.status, outcome.attempts) == ("error", 1)
    assert (outcome.requested, outcome.executed) == (call_of("flaky"), call_of("flaky"))


async def test_a_handler_answers_for_the_tool():
    bus, ran = EventBus(), []
    runner, later = runner_of(bus, notes(ran)), []
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse.from_text("cached"))
    bus.on(TOOL_CALL_BEFORE, later.append)

    outcome = await runner.call("note", {"n": 1})

    assert (outcome.status, outcome.executed, outcome.attempts) == ("answered", None, 0)
    assert outcome.response.text == "cached"
    assert outcome.response.parameters == {"n": 1}
    assert (ran, later) == ([], [])


async def test_guards_judge_an_answered_call():
    bus, judged = EventBus(), []
    runner = runner_of(bus, notes([]))

    @bus.guard(TOOL_CALL_BEFORE)
    def refuse(ctx):
        judged.append(ctx.answer.text)
        return Deny("not even cached")

    bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse.from_text("cached"))

    outcome = await runner.call("note")

    assert judged == ["cached"]
    assert (outcome.status, outcome.response.text) == ("denied", "not even cached")


async def test_answers_after_a_redirect_have_the_new_name():
    seen = []

    class Watch(ToolAdapter):
        tools = ("erase",)

        def adapt_response(self, response, call):
            seen.append((call.name, call.arguments))

    async def erase(path: str) -> None:
        """Erase a file."""

    component = AgentComponent()
    component.register_tool_adapter(Watch())
    agent = agent_of(asks(call_of("note")), tools=[notes([]), erase], components=[component])
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    @agent.on(TOOL_CALL_BEFORE, priority=2)
    def redirect(ctx):
        return replace(ctx.value, name="erase", arguments={"path": "a"})

    @agent.on(TOOL_CALL_BEFORE, priority=1)
    def answer(ctx):
        return ToolResponse.from_text("cached")

    await agent.run("go")

    (message,) = tool_messages(agent.messages)
    assert (message.tool_call_id, message.tool_name, message.text) == ("c-1", "erase", "cached")
    assert message.tool_response.parameters == {"path": "a"}
    assert [(one.status, one.response.tool_name) for one in outcomes] == [("answered", "erase")]
    assert seen == [("erase", {"path": "a"})]


async def test_a_runner_refuses_arguments_other_than_json():
    runner = runner_of(EventBus(), notes([]))

    with pytest.raises(FreezeError) as caught:
        await runner.call("note", {"n": float("nan")})

    assert caught.value.path == "$.arguments.n"


async def test_a_runner_waits_for_observers():
    bus, seen, waiting = EventBus(max_pending=2), [], []

    @tool
    async def note() -> str:
        """Note at once."""
        return "noted"

    @bus.on(TOOL_CALL_AFTER)
    async def observe(ctx):
        for _ in range(9):
            await asyncio.sleep(0)
        seen.append(ctx.value.requested.id)

    runner = runner_of(bus, note)
    for _ in range(20):
        await runner.call("note")
        waiting.append(bus.pending)
    await bus.drain()

    assert max(waiting) == 3
    assert len(seen) == 20


async def test_the_callback_sees_calls_of_all_kinds():
    bus, seen = EventBus(), []
    below = agent_of(
        asks(call_of("note", 8, n=8), id="m-8"), bus=bus, tools=[notes([])], agent_id="below"
    )
    agent = agent_of(
        asks(call_of("note", 1, n=1), id="m-1"),
        asks(call_of("note", 2, n=2), call_of("note", 3, n=3), id="m-2"),
        asks(call_of("ask", 4, prompt="count"), id="m-3"),
        bus=bus,
        tools=[notes([]), below.as_tool("ask")],
        before_tool_callback=lambda name, arguments: seen.append((name, arguments)),
    )

    await agent.run("go")
    await agent.call_tool("note", n=5)
    await below.call_tool("note", n=6)

    assert seen == [
        ("note", {"n": 1}),
        ("note", {"n": 2}),
        ("note", {"n": 3}),
        ("ask", {"prompt": "count"}),
        ("note", {"n": 8}),
        ("note", {"n": 5}),
    ]
    await agent.aclose()
    await below.aclose()


async def test_none_leaves_the_arguments_alone():
    ran = []
    agent = agent_of(tools=[notes(ran)])

    async def silent(name, arguments):
        return None

    for callback in (lambda name, arguments: None, silent):
        agent.set_before_tool_callback(callback)
        await agent.call_tool("note", n=1, text="a")

    assert ran == [{"n": 1, "text": "a", "user": ""}] * 2
    await agent.aclose()


async def test_a_dict_is_merged_over_the_arguments():
    ran = []
    agent = agent_of(tools=[notes(ran)])

    async def later(name, arguments):
        return {"n": arguments["n"] + 1}

    for callback in (lambda name, arguments: {"n": arguments["n"] + 1}, later):
        agent.set_before_tool_callback(callback)
        await agent.call_tool("note", n=1, text="a")

    assert ran == [{"n": 2, "text": "a", "user": ""}] * 2
    await agent.aclose()


async def test_a_callback_can_be_removed():
    ran = []
    agent = agent_of(
        tools=[notes(ran)], before_tool_callback=lambda name, arguments: {"text": "first"}
    )

    agent.set_before_tool_callback(lambda name, arguments: {"user": "second"})
    await agent.call_tool("note", n=1)
    agent.set_before_tool_callback(None)
    await agent.call_tool("note", n=2)

    assert ran == [{"n": 1, "text": "", "user": "second"}, {"n": 2, "text": "", "user": ""}]
    await agent.aclose()


async def test_the_callback_gets_a_copy():
    agent = agent_of(tools=[tool(lambda **rest: rest, name="echo", input_schema={})])

    def spoil(name, arguments):
        arguments["list"].append(2)
        arguments["map"]["x"] = 1
        arguments.clear()

    agent.set_before_tool_callback(spoil)

    outcome = await agent.call_tool("echo", list=[1], map={})

    assert outcome.response.structured == {"list": (1,), "map": {}}
    assert outcome.requested.arguments == {"list": (1,), "map": {}}
    await agent.aclose()


async def test_an_invalid_callback_is_refused():
    agent = agent_of(tools=[notes([])], before_tool_callback=lambda name, args: {"n": 7})
    wrong = ("nope", 42, lambda ctx: None, False)

    for one in wrong:
        with pytest.raises(RegistrationError, match=r"callback\(name, args\)"):
            agent.set_before_tool_callback(one)
        with pytest.raises(RegistrationError, match="before_tool_callback"):
            agent_of(before_tool_callback=one)

    assert (await agent.call_tool("note")).response.text == "noted 7"


async def test_a_callback_comes_after_adapters():
    seen, ran = [], []

    class Count(ToolAdapter):
        def adapt_parameters(self, call):
            return call.merge_arguments({"n": 1})

    component = AgentComponent()
    component.register_tool_adapter(Count())
    agent = agent_of(tools=[notes(ran)], components=[component])
    agent.set_before_tool_callback(lambda name, args: seen.append((name, args)))
    agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"text": "a"}), priority=101)
    agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"user": "b"}), priority=99)

    await agent.call_tool("note")

    assert seen == [("note", {"n": 1, "text": "a"})]
    assert ran == [{"n": 1, "text": "a", "user": "b"}]


async def test_a_failing_callback_is_logged(caplog):
    ran = []
    agent = agent_of(tools=[notes(ran)])

    def broken(name, arguments):
        raise ValueError("no idea")

    for callback in (broken, lambda name, arguments: ["n"]):
        agent.set_before_tool_callback(callback)
        await agent.call_tool("note", n=1)

    assert ran == [{"n": 1, "text": "", "user": ""}] * 2
    assert [(one.name, one.levelno) for one in caplog.records] == [
        ("toolbus", logging.WARNING),
        ("toolbus", logging.WARNING),
    ]
    assert caplog.records[0].event == "tool:call:before"
    assert caplog.records[0].exc_info[1].args == ("no idea",)
    await agent.aclose()


async def test_a_shell_command_gets_its_prefix(tmp_path, monkeypatch):
    program, log, repository = tmp_path / "bin/rtk", tmp_path / "rtk.log", tmp_path / "repository"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{log}"\nexec "$@"\n')
    program.chmod(0o755)
    repository.mkdir()
    (repository / "new.txt").write_text("new")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "C")
    subprocess.run(["git", "init", "--quiet"], cwd=repository, check=True)

    @tool
    def shell(command: str) -> str:
        """Run a command."""
        done = subprocess.run(
            command, shell=True, cwd=repository, capture_output=True, text=True, check=False
        )
        return done.stdout

    def prefix(name, arguments):
        if name == "shell" and arguments["command"].startswith("git "):
            return {"command": f"rtk {arguments['command']}"}
        return None

    agent = agent_of(
        asks(call_of("shell", 1, command="git status")),
        tools=[shell],
        before_tool_callback=prefix,
    )

    await agent.run("what is new?")

    assert log.read_text() == "git status\n"
    assert "new.txt" in agent.messages[2].text
    assert agent.messages[2].tool_response.parameters == {"command": "rtk git status"}
    assert agent.messages[1].tool_calls[0].arguments == {"command": "git status"}
    await agent.aclose()


async def test_a_denied_call_never_runs():
    ran = []
    agent = agent_of(asks(call_of("note", n=1)), tools=[notes(ran)])
    outcomes, requests = collects(agent.bus, TOOL_CALL_AFTER), requests_of(agent)
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("not allowed", "policy 17"))

    result = await agent.run("go")

    answer = agent.messages[2]
    assert (ran, result.text) == ([], "done")
    assert [(one.status, one.executed, one.attempts) for one in outcomes] == [("denied", None, 0)]
    assert (answer.text, answer.tool_response.error_type) == ("not allowed", "denied")
    assert answer.tool_response.is_error
    assert [one for one in requests if "not allowed" in repr(one)] == requests[1:]
    assert not [one for one in requests if "policy" in repr(one)]
    await agent.aclose()


async def test_a_transformer_may_deny_as_well():
    bus, ran, later = EventBus(), [], []
    runner = runner_of(bus, notes(ran))
    bus.on(TOOL_CALL_BEFORE, lambda ctx: Deny("not \udc80"))
    bus.on(TOOL_CALL_BEFORE, later.append)
    bus.guard(TOOL_CALL_BEFORE, later.append)

    outcome = await runner.call("note")

    assert (outcome.status, outcome.response.text) == ("denied", "not \\udc80")
    assert (ran, later) == ([], [])


async def test_a_guard_judges_the_final_call():
    bus, ran = EventBus(), []
    runner = runner_of(bus, notes(ran))

    @bus.guard(TOOL_CALL_BEFORE, priority=1_000)
    def small(ctx):
        return Deny("too large") if ctx.value.arguments["n"] > 5 else None

    bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"n": 50}), priority=-1_000)

    outcome = await runner.call("note", {"n": 1})

    assert (outcome.status, outcome.response.text, ran) == ("denied", "too large", [])


async def test_an_approved_call_runs():
    seen = []

    def blocking(ask, call, scope):
        seen.append((ask.prompt, call, scope, threading.current_thread()))
        return True

    async def waiting(ask, call, scope):
        seen.append((ask.prompt, call, scope, threading.current_thread()))
        return True

    outcomes = []
    for approver in (blocking, waiting):
        bus = EventBus()
        bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("write it?"))
        outcomes.append(await runner_of(bus, notes([]), approver=approver).call("note", {"n": 1}))

    assert [(one.status, one.response.text) for one in outcomes] == [("ok", "noted 1")] * 2
    assert [one[:3] for one in seen] == [("write it?", call_of("note", n=1), SCOPE)] * 2
    assert [one[3] is threading.current_thread() for one in seen] == [False, True]


async def test_nothing_but_true_approves():
    async def later(value):
        return value

    answers = [False, None, 1, "yes"]
    approvers = [lambda *_, answer=answer: answer for answer in answers]
    approvers += [lambda *_, answer=answer: later(answer) for answer in answers]
    ran, outcomes = [], []

    for approver in approvers:
        bus = EventBus()
        bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("write it?"))
        outcomes.append(await runner_of(bus, notes(ran), approver=approver).call("note"))

    assert ran == []
    assert [(one.status, one.response.text) for one in outcomes] == [
        ("denied", "approval was refused")
    ] * 8


async def test_a_missing_approver_denies():
    bus, ran = EventBus(), []
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("spend 100 Euro?"))

    outcome = await runner_of(bus, notes(ran)).call("note")

    assert (outcome.status, ran) == ("denied", [])
    assert outcome.response.text == "approval is needed, and no approver is available"
    assert "Euro" not in repr(outcome)


async def test_an_approver_gives_its_reason():
    bus = EventBus()
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("write it?"))
    runner = runner_of(bus, notes([]), approver=lambda *_: Deny("after lunch", "he is away"))

    outcome = await runner.call("note")

    assert (outcome.status, outcome.response.text) == ("denied", "after lunch")
    assert "away" not in repr(outcome)


async def test_a_failing_approver_refuses(caplog):
    def raises(error):
        def blocking(*_):
            raise error

        async def waiting(*_):
            raise error

        return [blocking, waiting]

    errors = (ValueError("s3cret"), SystemExit(2), asyncio.CancelledError("s3cret"))
    approvers = [one for error in errors for one in raises(error)]
    outcomes, ran = [], []

    for approver in approvers:
        bus = EventBus()
        bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("write it?"))
        outcomes.append(await runner_of(bus, notes(ran), approver=approver).call("note"))

    assert ran == []
    assert [(one.status, one.response.text) for one in outcomes] == [
        ("denied", "approval failed")
    ] * 6
    assert caplog.record_tuples == [("toolbus", logging.ERROR, "the approver failed")] * 6
    assert [one.exc_info[0] for one in caplog.records[::2]] == [type(one) for one in errors]


async def test_a_slow_approver_refuses():
    released = threading.Event()

    def blocking(*_):
        return released.wait(SECONDS)

    async def waiting(*_):
        await asyncio.Event().wait()

    outcomes = []
    with logged("the approver ended too late; its result is dropped") as late:
        for approver in (waiting, blocking):
            agent = agent_of(tools=[notes([])], approver=approver, approval_timeout=0.01)
            agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("write it?"))
            outcomes.append(await agent.call_tool("note"))
            await agent.aclose()
        released.set()
        assert late.wait(SECONDS)

    assert [(one.status, one.response.text) for one in outcomes] == [
        ("denied", "approval was not given in time")
    ] * 2


async def test_nothing_changes_after_the_question():
    bus, asked, ran = EventBus(), [], []

    def approver(ask, call, scope):
        asked.append(call.arguments)
        return True

    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("write it?"), priority=1_000)
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"n": 2}), priority=-1_000)

    outcome = await runner_of(bus, notes(ran), approver=approver).call("note", {"n": 1})

    assert asked == [{"n": 2}]
    assert outcome.executed.arguments == {"n": 2}
    assert [one["n"] for one in ran] == [2]


async def test_an_answer_may_need_approval():
    outcomes = []

    for verdict in (True, False):
        bus = EventBus()
        bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse.from_text("cached"))
        bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("from the cache?"))
        runner = runner_of(bus, notes([]), approver=lambda *_, verdict=verdict: verdict)
        outcomes.append(await runner.call("note"))

    assert [(one.status, one.response.text) for one in outcomes] == [
        ("answered", "cached"),
        ("denied", "approval was refused"),
    ]


async def test_questions_come_one_by_one():
    bus, asked, at_once = EventBus(), [], []
    judged = {f"c-{number}": asyncio.Event() for number in range(1, 6)}

    async def approver(ask, call, scope):
        at_once.append(call.id)
        asked.append((call.id, len(at_once)))
        await asyncio.sleep(0)
        at_once.remove(call.id)
        return call.id != "c-2"

    @bus.on(TOOL_CALL_BEFORE)
    async def in_reverse(ctx):
        number = int(ctx.value.id[2:])
        if number < 5:
            await judged[f"c-{number + 1}"].wait()
        judged[ctx.value.id].set()

    @bus.guard(TOOL_CALL_BEFORE)
    def judge(ctx):
        verdicts = {"c-3": Deny("never"), "c-4": None}
        return verdicts.get(ctx.value.id, Ask("write it?"))

    runner = runner_of(bus, notes([]), approver=approver)
    outcomes = await runner.call_all([call_of("note", number) for number in range(1, 6)])

    assert asked == [("c-1", 1), ("c-2", 1), ("c-5", 1)]
    assert [one.status for one in outcomes] == ["ok", "denied", "denied", "ok", "ok"]


async def test_unfitting_arguments_name_the_path():
    ran = []
    agent = agent_of(asks(call_of("note", n="one")), tools=[notes(ran)])
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    await agent.run("go")

    assert ran == []
    assert [(one.status, one.executed) for one in outcomes] == [("invalid_arguments", None)]
    assert outcomes[0].response.error_type == "invalid_arguments"
    assert agent.messages[2].text == "invalid arguments: expected `int`, got `str` - at `$.n`"
    await agent.aclose()


async def test_arguments_other_than_an_object_are_refused():
    ran = []
    raw = [ToolCall(id=f"c-{number}", name="note", raw=f"n={number}") for number in (1, 2)]
    agent = agent_of(asks(*raw), tools=[notes(ran)])

    @agent.on(TOOL_CALL_BEFORE)
    def repair(ctx):
        name, _, value = ctx.value.raw.partition("=")
        return ctx.value.with_arguments({name: int(value)}) if ctx.value.id == "c-2" else None

    await agent.run("go")

    assert [one.text for one in tool_messages(agent.messages)] == [
        "invalid arguments: expected a JSON object - at `$`",
        "noted 2",
    ]
    assert [one["n"] for one in ran] == [2]
    await agent.aclose()


async def test_a_handler_that_breaks_arguments_is_named():
    bus, ran, later = EventBus(), [], []
    runner = runner_of(bus, notes(ran))

    @bus.on(TOOL_CALL_BEFORE)
    def spoil(ctx):
        return ctx.value.merge_arguments({"n": "one"})

    bus.on(TOOL_CALL_BEFORE, later.append)
    bus.guard(TOOL_CALL_BEFORE, later.append)

    outcome = await runner.call("note", {"n": 1})

    assert (outcome.status, outcome.executed) == ("invalid_arguments", None)
    assert outcome.response.error_type == "invalid_arguments"
    assert outcome.response.text == (
        "handler 'spoil' made the arguments invalid: expected `int`, got `str` - at `$.n`"
    )
    assert (ran, later) == ([], [])


async def test_passing_on_bad_arguments_is_not_blamed():
    bus = EventBus()
    runner = runner_of(bus, notes([]))
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"text": "a"}))

    outcome = await runner.call("note", {"n": "one"})

    assert outcome.response.text == "invalid arguments: expected `int`, got `str` - at `$.n`"


async def test_an_adapter_is_responsible_for_its_spec():
    adapter = Renames("n", "amount", spoil=True)

    messages, ran = await run_adapted([adapter], amount=3)

    assert ran == []
    assert messages[2].text == (
        "handler 'n/amount' made the arguments invalid: expected `int`, got `str` - at `$.n`"
    )


async def test_the_inner_adapter_is_blamed_alone():
    inner, outer = Renames("n", "amount", spoil=True), Renames("amount", "count")

    messages, ran = await run_adapted([inner, outer], count=3)

    assert ran == []
    assert messages[2].text == (
        "handler 'n/amount' made the arguments invalid: expected `int`, got `str` - at `$.n`"
    )


async def test_the_outer_adapter_is_blamed_alone():
    inner, outer = Renames("n", "amount"), Renames("amount", "count", spoil=True)

    messages, ran = await run_adapted([inner, outer], count=3)

    assert ran == []
    assert messages[2].text.startswith("handler 'amount/count' made the arguments invalid: ")


async def test_a_forgetful_adapter_is_blamed():
    adapter = Renames("n", "amount", forget=True)

    messages, ran = await run_adapted([adapter], amount=3)

    assert ran == []
    assert messages[2].text == (
        "handler 'n/amount' made the arguments invalid: "
        "object contains unknown field `amount` - at `$`"
    )


async def test_later_rewrites_fit_the_tool_itself():
    def spoil(ctx):
        return ctx.value.merge_arguments({"n": "three"})

    fine, ran = await run_adapted([Renames("n", "amount")], amount=3)
    messages, spoilt = await run_adapted([Renames("n", "amount")], spoil, amount=3)

    assert (fine[2].text, [one["n"] for one in ran], spoilt) == ("noted 3", [3], [])
    assert messages[2].text == (
        "handler 'spoil' made the arguments invalid: expected `int`, got `str` - at `$.n`"
    )


async def test_arguments_are_converted_once():
    made, got = [], []

    class Place(Struct):
        name: str

        def __post_init__(self):
            made.append(self)

    @tool
    def go(to: Place) -> str:
        """Go."""
        got.append(to)
        return "there"

    outcome = await runner_of(EventBus(), go).call("go", {"to": {"name": "home"}})

    assert outcome.status == "ok"
    assert len(made) == 1
    assert got[0] is made[0]


def takes(ran, hint, **options):
    """Return a tool that puts its one argument, of the type *hint*, into *ran*."""

    def take(x):
        ran.append(x)

    take.__annotations__["x"] = hint
    return tool(take, **options)


class Limits(msgspec.Struct):
    low: int
    ratio: float = 0.5
    more: "Limits | None" = None


async def test_a_text_becomes_its_value():
    ran = []
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/limits"}},
        "$defs": {
            "limits": {
                "type": "object",
                "properties": {"low": {"type": ["integer", "null"]}, "on": {"enum": [True]}},
                "additionalProperties": {"allOf": [{"type": "array", "items": {"const": 1}}]},
            }
        },
    }
    cases = [
        (int, "3", 3),
        (int, "-120", -120),
        (int | None, "0", 0),
        (Annotated[int, msgspec.Meta(ge=0)], "999999999999999999", 999_999_999_999_999_999),
        (Literal[1, 2], "2", 2),
        (float, "-0.25", -0.25),
        (float, "10", 10.0),
        (bool, "true", True),
        (bool | None, "false", False),
        (dict[str, Any], ' {"a": "1"}'.strip(), {"a": "1"}),
        (list[int], '["1", 2]', [1, 2]),
        (list[int], ["1", 2], [1, 2]),
        (set[int] | None, '["1"]', {1}),
        (tuple[int, str], ["1", "2"], (1, "2")),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (Limits, '{"low": "1", "ratio": "2.50"}', Limits(1, 2.5)),
        (Limits, {"low": "1", "more": {"low": "2"}}, Limits(1, more=Limits(2))),
        (Limits, {"low": "1", "more": '{"low": 2}'}, Limits(1, more=Limits(2))),
    ]
    free = tool(lambda **x: ran.append(x["x"]), name="take", input_schema=schema)
    given = {"low": "5", "on": "true", "other": '["1"]'}
    read = {"low": 5, "on": True, "other": [1]}
    cases.append((free, given, read))

    for hint, argument, value in cases:
        ran.clear()
        made = hint if hint is free else takes(ran, hint)
        agent = agent_of(asks(call_of("take", x=argument)), tools=[made])
        outcomes = collects(agent.bus, TOOL_CALL_AFTER)
        await agent.run("go")
        await agent.aclose()

        assert ran == [value], argument
        assert type(ran[0]) is type(value)
        (outcome,) = outcomes
        assert outcome.requested.arguments == {"x": freeze(argument)}
        assert outcome.executed.arguments == outcome.response.parameters
        assert outcome.executed.arguments != outcome.requested.arguments
        assert agent.messages[1].tool_calls[0] == outcome.requested


NO_INTEGERS = [
    "+3",
    " 3",
    "3 ",
    "03",
    "3.0",
    "3.",
    "1e3",
    "0x3",
    "1_000",
    "³",
    "٣",
    "-0",
    "--3",
    "NaN",
    "1000000000000000000",
    "3\n",
]
NO_NUMBERS = [
    "+.5",
    ".5",
    "1.",
    "1e3",
    "1.5e3",
    "01.5",
    "inf",
    "NaN",
    "Infinity",
    "0.1234567890123456",
    "1,5",
    "1.5 ",
]
NO_TRUTHS = ["True", "FALSE", "yes", "1", "0", "on", " true", "t", "null"]
NO_OBJECTS = [
    '{"a": 1, "a": 2}',
    '{"a": NaN}',
    "{'a': 1}",
    ' {"a": 1}',
    '{"a": 1} ',
    '{"a": 1e999}',
    '{"a": 99999999999999999999}',
    '{"a": "\\ud800"}',
    "{}{}",
    '"{}"',
    "[]",
    "{" * 5_000 + "}",
    '{"a":' * 5_000 + "1" + "}" * 5_000,
]


@pytest.mark.parametrize(
    ("hint", "spellings"),
    [
        (int, [*NO_INTEGERS, "", "three", "null"]),
        (Annotated[int, msgspec.Meta(le=5)], ["6"]),
        (Literal[1, 2], ["3"]),
        (float, NO_NUMBERS),
        (bool, NO_TRUTHS),
        (dict[str, int], [*NO_OBJECTS, '{"a": "b"}', '{"a": 1.5}']),
        (list[int], ["{}", "1", "1,2", "[1,]", "[1]]", '["x"]', "[" * 5_000 + "]" * 5_000]),
        (Limits, ["{}", '{"low": "x"}', '{"low": 1, "more": []}']),
    ],
)
async def test_only_one_spelling_is_read(hint, spellings):
    ran = []
    runner = runner_of(EventBus(), takes(ran, hint))

    outcomes = [await runner.call("take", {"x": text}) for text in spellings]

    assert ran == []
    assert {one.status for one in outcomes} == {"invalid_arguments"}
    assert {one.response.parameters["x"] for one in outcomes} == set(spellings)
    told = [one.response.text for one in outcomes]
    assert [text for text in told if "got `str`" not in text and "enum value '3'" not in text] == []


async def test_text_stays_where_text_is_allowed():
    spelled = ["3", "1.5", "true", "{}", "[]"]
    hints = [
        str,
        Any,
        str | int,
        int | str | None,
        Literal["3", "1.5", "true", "{}", "[]", 3],
        Annotated[int, msgspec.Meta(extra_json_schema={"type": ["integer", "string"]})] | str,
        Annotated[str, msgspec.Meta(extra_json_schema={"type": "integer"})],
    ]
    schemas = [
        {"properties": {"x": {"minimum": 3}}},
        {"properties": {"x": {"anyOf": [{"type": "integer"}, {"minLength": 1}]}}},
        {"properties": {"x": True}},
        {"patternProperties": {"^x": {"minimum": 1}}},
        {"additionalProperties": {"not": {"type": "integer"}}},
    ]
    ran = []

    def take(x):
        ran.append(x)

    made = [takes(ran, hint) for hint in hints]
    made += [tool(take, input_schema=schema) for schema in schemas]

    for one in made:
        ran.clear()
        runner = runner_of(EventBus(), one)
        outcomes = [await runner.call("take", {"x": text}) for text in spelled]
        assert [outcome.status for outcome in outcomes] == ["ok"] * 5, one.spec
        assert ran == spelled
    for hint in (date, bytes, Annotated[str, msgspec.Meta(min_length=9)]):
        runner = runner_of(EventBus(), takes(ran, hint))
        outcome = await runner.call("take", {"x": "3"})
        assert outcome.status == "invalid_arguments"
        assert outcome.response.parameters == {"x": "3"}


async def test_guards_judge_what_the_tool_gets():
    ran, seen = [], []

    @tool
    async def outer(context: ToolContext) -> None:
        await context.call("take", {"x": "5"})

    def see(name):
        def handler(ctx, *_):
            call = getattr(ctx, "value", ctx)
            if call.name == "take":
                seen.append((name, call.arguments["x"]))

        return handler

    def judge(ctx):
        see("guard")(ctx)
        x = ctx.value.arguments.get("x", 0)
        return Ask("so many?") if x == 5 else Deny("too many") if x > 5 else None

    def approve(ask, call, scope):
        see("approver")(call)
        return True

    agent = agent_of(
        asks(call_of("take", x="4"), call_of("take", number=2, x="6")),
        tools=[takes(ran, int), outer],
        approver=approve,
        before_tool_callback=lambda name, given: see("callback")(call_of(name, **given)),
    )
    agent.guard(TOOL_CALL_BEFORE, judge)
    agent.on(TOOL_CALL_BEFORE, see("handler"))
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    await agent.run("go")
    await agent.call_tool("take", x="3")
    agent.set_before_tool_callback(None)
    await agent.call_tool("outer")
    await agent.aclose()

    assert ran == [4, 3, 5]
    assert all(type(x) is int for _, x in seen)
    assert {name for name, x in seen if x == 6} == {"callback", "handler", "guard"}
    assert {name for name, x in seen if x == 5} == {"handler", "guard", "approver"}
    ends = {(one.requested.arguments.get("x"), one.status) for one in outcomes}
    assert ends == {("4", "ok"), ("6", "denied"), ("3", "ok"), ("5", "ok"), (None, "ok")}


async def test_the_advertised_schema_decides():
    ran, adapted = [], []

    class Numbered(ToolAdapter):
        def adapt_signature(self, spec):
            schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
            return replace(spec, input_schema=schema)

        def adapt_parameters(self, call):
            adapted.append(call.arguments["x"])
            return call.with_arguments({"x": f"n{call.arguments['x']}"})

    component = AgentComponent()
    component.register_tool_adapter(Numbered())
    agent = agent_of(
        asks(call_of("take", x="3")),
        tools=[takes(ran, Annotated[str, msgspec.Meta(pattern="^n")])],
        components=[component],
    )

    await agent.run("go")
    await agent.aclose()

    assert adapted == [3]
    assert ran == ["n3"]


async def test_handlers_give_values_not_texts():
    ran, bus = [], EventBus()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.with_arguments({"x": "4"}), name="texter")

    outcome = await runner_of(bus, takes(ran, int)).call("take", {"x": "3"})

    assert ran == []
    assert outcome.status == "invalid_arguments"
    assert (
        "handler 'texter' made the arguments invalid: expected `int`, got `str`"
        in outcome.response.text
    )


async def test_a_strict_tool_reads_no_texts():
    ran = []
    strict = takes(ran, int, lenient=False, name="strict")
    agent = agent_of(
        asks(call_of("strict", x="3"), call_of("take", number=2, x="3")),
        tools=[strict, takes(ran, int)],
    )
    agent.on(TOOLS_PROVIDE, lambda ctx: ctx.value[:1])
    seen = []
    agent.on(TOOL_CALL_BEFORE, lambda ctx: seen.append(ctx.value.arguments["x"]))
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    await agent.run("go")
    await agent.aclose()

    assert ran == []
    assert seen == ["3", "3"]
    assert [one.status for one in outcomes] == ["invalid_arguments", "unknown_tool"]
    with pytest.raises(RegistrationError, match="lenient must be True or False, not 'no'"):
        takes(ran, int, lenient="no")


async def test_every_status_is_observed_once():
    bus = EventBus()
    outcomes, names = collects(bus, TOOL_CALL_AFTER), {}
    tools = [notes([]), fails(*[ValueError("broken")] * 9), hangs(timeout=0.01)]
    runner = runner_of(bus, *tools, append=keeps([]))
    bus.on(TOOL_CALL_BEFORE, lambda ctx: VERDICTS.get(ctx.value.arguments.get("text")))

    for status, (name, arguments) in CASES.items():
        names[status] = name
        await runner.call(name, arguments)
    task = asyncio.ensure_future(runner_of(bus, hangs(begun := asyncio.Event())).call("hang"))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    await runner.close_interrupted([call_of("note", 9, n=1)])

    arguments = [*[one for _, one in CASES.values()], {}, {"n": 1}]
    assert [one.status for one in outcomes] == [*CASES, "cancelled", "interrupted"]
    assert {one.status for one in outcomes} == set(get_args(ToolStatus)) - {"pending"}
    assert [one.response.tool_name for one in outcomes] == [*names.values(), "hang", "note"]
    assert [one.requested.arguments for one in outcomes] == arguments
    for one in outcomes:
        assert one.response.tool_call_id == one.requested.id
        assert one.response.parameters == one.requested.arguments
        assert one.response.duration_ns == one.duration_ns > 0
        assert one.response.is_error == (one.status not in {"ok", "answered"})


async def test_the_clock_gives_the_duration():
    clock = FakeClock()

    def work() -> str:
        """Work."""
        clock.advance(2)
        return "done"

    outcome = await runner_of(EventBus(), work, clock=clock).call("work")
    instant = await runner_of(EventBus(), notes([]), clock=clock).call("note")

    assert (outcome.duration_ns, outcome.response.duration_ns) == (2 * 10**9, 2 * 10**9)
    assert (instant.duration_ns, instant.response.duration_ns) == (1, 1)


async def test_calls_have_one_order_of_events():
    agent = agent_of(
        asks(call_of("note", 1), id="m-1"),
        asks(call_of("flaky", 2), id="m-2"),
        asks(call_of("note", 3, text="deny"), id="m-3"),
        tools=[notes([]), fails(ValueError("broken"))],
    )
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: VERDICTS.get(ctx.value.arguments.get("text")))

    with Recorder(agent.bus) as recorder:
        await agent.run("go")

    assert sequence(recorder, "c-1") == SEQUENCE
    assert sequence(recorder, "c-2") == [SEQUENCE[0], "tool:call:error", *SEQUENCE[1:]]
    assert sequence(recorder, "c-3") == SEQUENCE
    await agent.aclose()


async def test_an_unknown_tool_is_answered():
    agent = agent_of(asks(call_of("erase", n=1)), tools=[notes([]), fails()])
    outcomes, seen = collects(agent.bus, TOOL_CALL_AFTER), []
    agent.on(TOOL_CALL_BEFORE, lambda ctx: seen.append((ctx.value.name, ctx.tool)))

    result = await agent.run("go")

    assert (result.status, result.text) == ("ok", "done")
    assert seen == [("erase", None)]
    assert [(one.status, one.executed) for one in outcomes] == [("unknown_tool", None)]
    assert outcomes[0].response.error_type == "unknown_tool"
    assert agent.messages[2].text == "no tool named 'erase'; known tools: note, flaky"
    await agent.aclose()


@given(
    texts=st.lists(
        st.sampled_from(["", "deny", "answer", "guard", "break", "raise", "exit", "boom"]),
        min_size=1,
        max_size=5,
    ),
    names=st.lists(st.sampled_from(["note", "flaky", "slow", "hang", "erase"]), min_size=5),
    parallel=st.booleans(),
    cancels=st.integers(0, 2),
    broken=st.booleans(),
)
async def test_any_mixture_ends_in_order(texts, names, parallel, cancels, broken):
    bus, messages, hanging = EventBus(), [], asyncio.Semaphore(0)
    outcomes = collects(bus, TOOL_CALL_AFTER)
    refuses_and_fails(bus, broken=broken)
    tools = [notes([]), *unruly_tools(hanging, hang=cancels > 0)]
    runner = runner_of(bus, *tools, append=keeps(messages))
    calls = [
        call_of(name, number, n=number, text=text)
        for number, (name, text) in enumerate(zip(names, texts, strict=False))
    ]
    hung = [one for one in calls if one.name == "hang" and one.arguments["text"] in {"", "exit"}]
    hung = hung if cancels else []

    async def work():
        for some in [calls] if parallel else [[one] for one in calls]:
            with suppress(HandlerError, Boom):
                await runner.call_all(some)

    task = asyncio.ensure_future(work())
    for _ in hung if parallel else hung[:1]:
        await hanging.acquire()
    for _ in range(cancels if hung else 0):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({task})

    started = calls if parallel or not hung else calls[: calls.index(hung[0]) + 1]
    by_id = {one.requested.id: one for one in outcomes}
    assert task.cancelled() == bool(hung)
    assert sorted(one.requested.id for one in outcomes) == sorted(one.id for one in started)
    assert [one.tool_call_id for one in messages] == [one.id for one in started]
    assert all(one.tool_response == by_id[one.tool_call_id].response for one in messages)


async def test_a_failing_handler_reaches_the_caller():
    bus, messages = EventBus(), []
    outcomes, go_on = collects(bus, TOOL_CALL_AFTER), asyncio.Event()

    @tool
    async def wait(n: int) -> str:
        """Wait for the failure."""
        await go_on.wait()
        return f"waited {n}"

    @bus.on(TOOL_CALL_BEFORE, on_error="raise")
    def broken(ctx):
        if ctx.value.arguments["n"] == 2:
            go_on.set()
            raise ValueError("no idea")

    runner = runner_of(bus, wait, append=keeps(messages))

    with pytest.raises(HandlerError) as caught:
        await runner.call_all([call_of("wait", number, n=number) for number in (1, 2, 3)])

    assert (caught.value.handler, caught.value.event) == ("broken", "tool:call:before")
    assert [one.text for one in messages] == [
        "waited 1",
        "handler 'broken' failed, and the call with it",
        "waited 3",
    ]
    assert messages[1].tool_response.error_type == "HandlerError"
    assert {one.requested.id: one.status for one in outcomes} == {
        "c-1": "ok",
        "c-2": "denied",
        "c-3": "ok",
    }


@pytest.mark.parametrize(("policy", "read"), [("open", "noted 1"), ("closed", None)])
async def test_a_handler_ended_by_a_cancellation_fails(policy, read):
    agent = agent_of(asks(call_of("note", 1, n=1), call_of("note", 2, n=2)), tools=[notes([])])
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    @agent.on(MESSAGE_APPEND_BEFORE, on_error=policy)
    async def hook(ctx):
        if isinstance(ctx.value, ToolMessage) and ctx.value.tool_call_id == "c-1":
            cancelled = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled

    result = await agent.run("go")

    answers = tool_messages(agent.messages)
    # The tool runs in threads, so either call may end first.
    assert sorted([one.requested.id, one.status] for one in outcomes) == [
        ["c-1", "ok"],
        ["c-2", "ok"],
    ]
    assert [one.tool_call_id for one in answers] == ["c-1", "c-2"]
    assert answers[1].text == "noted 2"
    if read is None:
        assert answers[0].tool_response.error_type == "denied"
    else:
        assert answers[0].text == read
    assert result.text == "done"


@pytest.mark.parametrize("cause", ["store", "hook"])
async def test_a_failed_write_repeats_no_report(cause):
    failing = ["noted 0"]

    class Failing(MemoryStore):
        async def append(self, session_id, stored):
            if cause == "store" and stored.message and stored.message.text in failing:
                raise OSError(failing.pop())
            await super().append(session_id, stored)

    store = Failing()
    agent = agent_of(asks(call_of("note")), "well", tools=[notes([])], store=store)
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    @agent.on(MESSAGE_APPEND_BEFORE, on_error="raise")
    def hook(ctx):
        if cause == "hook" and ctx.value.text in failing:
            raise ValueError(failing.pop())

    with pytest.raises((StoreError, HandlerError)):
        await agent.run("go")
    result = await agent.run("go on")

    assert [(one.requested.id, one.status, one.again) for one in outcomes] == [("c-1", "ok", False)]
    (answer,) = tool_messages(agent.messages)
    assert (answer.text, answer.tool_response.is_error) == ("noted 0", False)
    assert answer.tool_response.duration_ns >= outcomes[0].duration_ns
    assert result.status == "ok"
    assert await store.read("s-1") == tuple(agent.messages)


async def test_a_second_report_is_marked():
    store = MemoryStore()
    for message in (UserMessage(id="u-1", content="go"), asks(call_of("note"))):
        await store.append("s-1", AppendRequest(message=message))
    second = asks(call_of("note", 2), id="m-2")
    agent = agent_of(second, tools=[notes([])], store=store, ids=counting_ids("new"))
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    await agent.run("go on")

    assert [(one.requested.id, one.status, one.again) for one in outcomes] == [
        ("c-1", "interrupted", True),
        ("c-2", "ok", False),
    ]
    assert b'"again":true' in encode(outcomes[0])
    assert b"again" not in encode(outcomes[1])


@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupt_leaves_the_session_usable(calls):
    asked = asks(*[call_of("note", number) for number in range(1, calls + 1)])
    agent = agent_of(asked, tools=[notes([])])
    outcomes, loop = [], asyncio.new_event_loop()

    @agent.on(TOOL_CALL_AFTER)
    def observe(ctx):
        outcomes.append(ctx.value.requested.id)
        if ctx.value.requested.id == "c-1":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(agent.run("go"))
    result = loop.run_until_complete(agent.run("go on"))
    loop.run_until_complete(agent.aclose())
    loop.close()

    ids = [call.id for call in asked.tool_calls]
    assert result.text == "done"
    assert sorted(outcomes) == ids
    assert [one.tool_call_id for one in tool_messages(agent.messages)] == ids


def test_calls_end_once_under_any_cancellation():
    long = os.environ.get("TOOLBUS_TESTS") == "long"
    for steps in range(300) if long else range(0, 60, 3):
        store, outcomes, agents = MemoryStore(), [], []

        async def run(steps=steps, store=store, outcomes=outcomes, agents=agents):
            asked = asks(*[call_of("wait", number, n=number) for number in (1, 2, 3)])
            agents.append(agent_of(asked, tools=[waits], store=store))
            agents[0].on(TOOL_CALL_AFTER, lambda ctx: outcomes.append(ctx.value.requested.id))
            for event in (MESSAGE_APPEND_BEFORE, MESSAGE_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER):
                agents[0].on(event, suspend)
            # Nobody waits for it: the program ends, and all of its tasks are cancelled.
            agents.append(asyncio.create_task(agents[0].run("go")))
            for _ in range(steps):
                await asyncio.sleep(0)

        asyncio.run(run())

        messages = tuple(agents[0].messages)
        asked = [call.id for one in messages for call in getattr(one, "tool_calls", ())]
        assert [one.tool_call_id for one in tool_messages(messages)] == asked, steps
        assert sorted(outcomes) == asked, steps
        assert asyncio.run(store.read("s-1")) == messages, steps


async def test_an_exception_becomes_a_response():
    outcome = await runner_of(EventBus(), fails(ValueError("no such file"))).call("flaky")

    response = outcome.response
    assert (outcome.status, outcome.attempts) == ("error", 1)
    assert response.content == (TextPart(text="no such file"),)
    assert (response.is_error, response.error_type) == (True, "ValueError")
    assert response.structured is None


async def test_an_error_result_is_a_failure():
    given = ToolResponse(
        content=[TextPart(text="none")], is_error=True, structured={"n": 0}, metadata={"a": 1}
    )

    def find() -> ToolResponse:
        """Find."""
        return given

    bus, seen = EventBus(), []
    bus.on(TOOL_CALL_ERROR, lambda ctx: seen.append((ctx.value.error_type, ctx.value.error_text)))

    outcome = await runner_of(bus, find).call("find")

    response = outcome.response
    assert seen == [("error", "none")]
    assert (outcome.status, response.is_error, response.error_type) == ("error", True, None)
    assert (response.text, response.structured, response.metadata) == ("none", {"n": 0}, {"a": 1})


async def test_handlers_see_the_whole_failure():
    bus, seen = EventBus(), []
    bus.on(TOOL_CALL_ERROR, lambda ctx: seen.append((ctx.value, ctx.tool, ctx.scope)))
    runner = runner_of(bus, fails(ValueError("broken")), hangs(timeout=0.01))

    await runner.call("flaky")
    await runner.call("hang")

    (raised, flaky, scope), (overdue, hang, _) = seen
    assert (raised.call, raised.attempts, scope) == (call_of("flaky", 1), 1, SCOPE)
    assert (raised.error_type, raised.error_text) == ("ValueError", "broken")
    assert (raised.response.text, raised.response.is_error) == ("broken", True)
    assert (raised.response.tool_call_id, raised.response.parameters) == ("c-1", {})
    assert (overdue.error_type, overdue.error_text) == (
        "timeout",
        "the tool timed out after 0.01 s",
    )
    assert (flaky.name, hang.name) == ("flaky", "hang")


async def test_a_fallback_is_used():
    bus = EventBus()
    runner = runner_of(bus, fails(ValueError("broken")), hangs(timeout=0.01))
    bus.on(TOOL_CALL_ERROR, lambda ctx: ToolResponse.from_text("as of yesterday"))

    outcomes = [await runner.call("flaky"), await runner.call("hang")]

    assert [one.status for one in outcomes] == ["error", "timeout"]
    for one in outcomes:
        assert (one.response.text, one.response.is_error) == ("as of yesterday", False)
        assert one.response.tool_name == one.requested.name
        assert one.attempts == 1


async def test_a_failure_can_be_reworded():
    bus = EventBus()
    runner = runner_of(bus, fails(ValueError("/home/ann/x: broken")))

    @bus.on(TOOL_CALL_ERROR)
    def reword(ctx):
        failure = ctx.value
        return replace(failure, response=failure.response.with_text("x: broken"))

    outcome = await runner.call("flaky")

    assert (outcome.status, outcome.response.text) == ("error", "x: broken")
    assert (outcome.response.is_error, outcome.response.error_type) == (True, "ValueError")


async def test_a_denied_recovery_changes_nothing():
    def reword(ctx):
        return replace(ctx.value, response=ToolResponse.from_text("all is well"))

    answers = [
        reword,
        lambda ctx: ToolResponse.from_text("all is well"),
        lambda ctx: Retry(),
    ]
    outcomes = []

    for answer in answers:
        bus = EventBus()
        bus.on(TOOL_CALL_ERROR, answer)
        bus.guard(TOOL_CALL_ERROR, lambda ctx: Deny("let it fail"))
        runner = runner_of(bus, fails(ValueError("broken"), idempotent=True))
        outcomes.append(await runner.call("flaky"))

    assert [(one.status, one.attempts) for one in outcomes] == [("error", 1)] * 3
    assert [one.response.text for one in outcomes] == ["broken"] * 3


async def test_an_idempotent_tool_runs_again():
    bus, begun = EventBus(), []
    loop = asyncio.get_running_loop()
    bus.on(TOOL_CALL_ERROR, lambda ctx: begun.append(loop.time()))
    bus.on(TOOL_CALL_ERROR, lambda ctx: Retry(delay=0.02))
    outcomes = collects(bus, TOOL_CALL_AFTER)
    runner = runner_of(bus, fails(ValueError("once"), idempotent=True))

    outcome = await runner.call("flaky")

    assert loop.time() - begun[0] >= 0.02
    assert (outcome.status, outcome.attempts, outcome.response.text) == ("ok", 2, "fine")
    assert len(outcomes) == 1


async def test_a_retry_gets_fresh_arguments():
    bus, got = EventBus(), []
    bus.on(TOOL_CALL_ERROR, lambda ctx: Retry())

    @tool(idempotent=True)
    async def take(items: list[int]) -> str:
        """Take all."""
        got.append(list(items))
        items.clear()
        if len(got) == 1:
            raise ValueError("once")
        return "taken"

    outcome = await runner_of(bus, take).call("take", {"items": [1, 2]})

    assert (outcome.status, outcome.attempts, got) == ("ok", 2, [[1, 2], [1, 2]])


async def test_retries_are_limited(caplog):
    bus = EventBus()
    bus.on(TOOL_CALL_ERROR, lambda ctx: Retry())
    usual = runner_of(bus, fails(*[ValueError("again")] * 9, idempotent=True))
    patient = runner_of(bus, hangs(timeout=0.001, idempotent=True), max_attempts=5)

    failed = await usual.call("flaky")
    overdue = await patient.call("hang")

    assert (failed.status, failed.attempts, failed.response.text) == ("error", 3, "again")
    assert (overdue.status, overdue.attempts) == ("timeout", 5)
    assert caplog.record_tuples == [
        ("toolbus", logging.WARNING, "no retry of tool 'flaky': 3 attempts were made"),
        ("toolbus", logging.WARNING, "no retry of tool 'hang': 5 attempts were made"),
    ]


async def test_only_idempotent_tools_run_again(caplog):
    bus = EventBus()
    bus.on(TOOL_CALL_ERROR, lambda ctx: Retry())

    outcome = await runner_of(bus, fails(ValueError("once"))).call("flaky")

    assert (outcome.status, outcome.attempts, outcome.response.text) == ("error", 1, "once")
    assert caplog.record_tuples == [
        ("toolbus", logging.WARNING, "no retry of tool 'flaky': it is not marked idempotent")
    ]


async def test_a_failing_recovery_reaches_the_caller():
    bus, messages = EventBus(), []

    @bus.on(TOOL_CALL_ERROR, on_error="raise")
    def broken(ctx):
        raise KeyError("no idea")

    outcomes = collects(bus, TOOL_CALL_AFTER)
    runner = runner_of(bus, fails(ValueError("x")), hangs(timeout=0.01), append=keeps(messages))

    for name in ("flaky", "hang"):
        with pytest.raises(HandlerError, match="handler 'broken' of 'tool:call:error'"):
            await runner.call(name)

    assert [one.status for one in outcomes] == ["error", "timeout"]
    assert [one.text for one in messages] == ["x", "the tool timed out after 0.01 s"]


async def test_a_tool_s_exit_is_its_failure():
    def raises(error):
        async def waiting():
            raise error

        def blocking():
            raise error

        return [tool(one, name="leave") for one in (waiting, blocking)]

    errors = (
        SystemExit(2),
        asyncio.CancelledError(),
        FutureCancelledError(),
        Boom("bang"),
        StopIteration("end"),
    )

    outcomes = [
        await runner_of(EventBus(), one).call("leave") for error in errors for one in raises(error)
    ]

    assert {one.status for one in outcomes} == {"error"}
    assert [(one.response.error_type, one.response.text) for one in outcomes[:-2]] == [
        *[("SystemExit", "2")] * 2,
        *[("CancelledError", "CancelledError")] * 4,
        *[("Boom", "bang")] * 2,
    ]
    assert outcomes[-1].response.error_type == "StopIteration"


async def test_a_blocking_tool_leaves_the_loop_free():
    met = threading.Event()

    def block() -> bool:
        """Wait for the loop."""
        return met.wait(SECONDS)

    call = asyncio.ensure_future(runner_of(EventBus(), block).call("block"))
    await asyncio.sleep(0)
    met.set()

    assert (await call).response.structured is True


async def test_a_timeout_ends_the_call():
    released = threading.Event()

    @tool(timeout=0.01)
    def block() -> bool:
        """Block."""
        return released.wait(SECONDS)

    runner = runner_of(EventBus(), block, hangs(timeout=0.02))

    outcomes = [await runner.call("block"), await runner.call("hang")]

    with logged("tool 'block' ended too late; its result is dropped") as late:
        released.set()
        assert late.wait(SECONDS)
    assert [one.status for one in outcomes] == ["timeout", "timeout"]
    assert [one.response.error_type for one in outcomes] == ["timeout", "timeout"]
    assert [one.response.text for one in outcomes] == [
        "the tool timed out after 0.01 s",
        "the tool timed out after 0.02 s",
    ]
    assert all(one.executed for one in outcomes)


async def test_a_late_result_is_dropped(caplog):
    released, messages = threading.Event(), []

    @tool(timeout=0.01)
    def hold() -> str:
        """Hold on."""
        released.wait(SECONDS)
        return "late"

    await runner_of(EventBus(), hold, append=keeps(messages)).call("hold")
    # A thread of another test may end just now, and say so.
    before = [text for _, _, text in caplog.record_tuples if "'hold'" in text]
    with logged("tool 'hold' ended too late; its result is dropped") as late:
        released.set()
        assert late.wait(SECONDS)

    assert before == []
    assert [one.text for one in messages] == ["the tool timed out after 0.01 s"]


async def test_a_sync_wrapper_may_be_async():
    async def later():
        return "worked"

    def work():
        return later()

    @tool(timeout=0.01)
    def wait():
        return asyncio.Event().wait()

    runner = runner_of(EventBus(), work, wait)

    outcomes = [await runner.call("work"), await runner.call("wait")]

    assert [(one.status, one.response.text) for one in outcomes] == [
        ("ok", "worked"),
        ("timeout", "the tool timed out after 0.01 s"),
    ]


async def test_a_tool_may_time_itself():
    @tool
    async def look() -> str:
        """Look for a moment."""
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "nothing there"

    outcome = await runner_of(EventBus(), look).call("look")

    assert (outcome.status, outcome.response.text) == ("ok", "nothing there")
    assert asyncio.current_task().cancelling() == 0


async def test_many_calls_let_other_tasks_run():
    runner, turns = runner_of(EventBus(), never_waits), []

    async def count():
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    for _ in range(1_000):
        await runner.call("never_waits")
    counting.cancel()

    assert len(turns) >= 10


async def test_parallel_calls_meet_each_other():
    here, there, third = asyncio.Event(), threading.Event(), asyncio.Event()

    async def one() -> str:
        """Meet."""
        here.set()
        await third.wait()
        return "one"

    async def two() -> str:
        """Meet."""
        await here.wait()
        there.set()
        return "two"

    def three(context: ToolContext) -> str:
        """Meet, from a thread."""
        there.wait(SECONDS)
        loop.call_soon_threadsafe(third.set)
        return "three"

    loop = asyncio.get_running_loop()
    calls = [call_of(name, number) for number, name in enumerate(["one", "two", "three"], 1)]
    agent = agent_of(asks(*calls), tools=[one, two, three])

    await agent.run("go")

    assert [one.text for one in tool_messages(agent.messages)] == ["one", "two", "three"]
    await agent.aclose()


async def test_messages_keep_the_order_of_calls():
    ended = [asyncio.Event(), asyncio.Event()]

    async def first() -> str:
        """Fail, last of all."""
        await ended[0].wait()
        raise ValueError("broken")

    async def second() -> str:
        """End when the third has ended."""
        await ended[1].wait()
        return "two"

    async def third() -> str:
        """End at once."""
        return "three"

    calls = [call_of(name, number) for number, name in enumerate(["first", "second", "third"])]
    agent = agent_of(asks(*calls), tools=[first, second, third])
    outcomes, appended = [], collects(agent.bus, MESSAGE_APPEND_AFTER)

    @agent.on(TOOL_CALL_AFTER)
    def end(ctx):
        outcomes.append((ctx.value.requested.name, ctx.value.response.tool_name, ctx.value.status))
        if len(outcomes) < 3:
            ended[-len(outcomes)].set()

    await agent.run("go")

    assert outcomes == [
        ("third", "third", "ok"),
        ("second", "second", "ok"),
        ("first", "first", "error"),
    ]
    assert [one.text for one in tool_messages(agent.messages)] == ["broken", "two", "three"]
    assert [one.tool_name for one in tool_messages(appended)] == ["first", "second", "third"]
    await agent.aclose()


@pytest.mark.parametrize("waits", list(permutations([0, 1, 7])))
@pytest.mark.parametrize("handlers", [(0, 0, 0), (0, 3, 6), (6, 3, 0)])
async def test_the_events_of_parallel_calls_are_ordered(waits, handlers):
    told = []

    async def wait(turns: int) -> str:
        """Wait for so many turns of the loop."""
        await turns_of(turns)
        return str(turns)

    def note(ctx):
        if call_id := id_of_call(ctx.value):
            told.append((ctx.event.name, call_id))

    async def note_and_wait(ctx):
        note(ctx)
        if call_id := id_of_call(ctx.value):
            await turns_of(handlers[int(call_id[-1])])

    calls = [
        ToolCall(id=f"c-{number}", name="wait", arguments={"turns": turns})
        for number, turns in enumerate(waits)
    ]
    agent = agent_of(asks(*calls), tools=[wait])
    for name in SEQUENCE:
        # An async handler of what nobody waits for has a queue of its own.
        agent.on(by_name(name), note if name in UNAWAITED else note_and_wait)

    await agent.run("go")
    await agent.aclose()

    for call in calls:
        assert [name for name, call_id in told if call_id == call.id] == SEQUENCE
    for names in (SEQUENCE[2:5], SEQUENCE[5:]):
        of_messages = [(name, call_id) for name, call_id in told if name in names]
        assert of_messages == [(name, call.id) for call in calls for name in names]


async def test_results_that_are_ready_share_a_commit(tmp_path):
    asked = asks(*[call_of("echo", number, n=number) for number in range(100)])
    async with SqliteStore(tmp_path / "agent.db") as store:
        async with agent_of(asked, tools=[echo], store=store) as agent:
            agent.guard(MESSAGE_APPEND_BEFORE)(
                lambda ctx: Deny("withheld") if ctx.value.text == "7" else None
            )
            async with agent_of(session_id="s-2", store=store) as other:
                await other.run("go")
            commits_without_results = store.commits
            await agent.run("go")
            commits = store.commits - commits_without_results

        texts = [str(number) if number != 7 else "withheld" for number in range(100)]
        assert [one.text for one in tool_messages(agent.messages)] == texts
        assert await store.read("s-1") == tuple(agent.messages)
    # The lease twice, the prompt, the model's two messages, and all results.
    assert commits == 6


async def test_a_running_call_delays_no_commit(tmp_path):
    hangs, ends = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Wait for the end of the test."""
        hangs.set()
        await ends.wait()
        return "late"

    asked = asks(*[call_of("echo", number, n=number) for number in range(99)], call_of("hang", 99))
    path = tmp_path / "agent.db"
    async with SqliteStore(path) as store, SqliteStore(path, read_only=True) as reader:
        async with agent_of(asked, tools=[echo, hang], store=store) as agent:
            run = asyncio.ensure_future(agent.run("go"))
            await hangs.wait()

            async with asyncio.timeout(10):
                while len(tool_messages(found := await reader.read("s-1"))) < 99:
                    await asyncio.sleep(0.01)

            assert [one.text for one in tool_messages(found)] == [str(n) for n in range(99)]
            assert not run.done()
            ends.set()
            await run
        assert [one.text for one in tool_messages(await reader.read("s-1"))][-1] == "late"


async def test_an_unwritable_result_affects_no_other():
    refused = {"1"}

    class Refusing(MemoryStore):
        async def append(self, session_id, stored):
            if refused & {one.text for one in stored.messages}:
                raise StoreError("disk", "not this one")
            await super().append(session_id, stored)

    store = Refusing()
    asked = asks(*[call_of("echo", number, n=number) for number in range(3)])
    agent = agent_of(asked, tools=[echo], store=store)
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    with pytest.raises(StoreError, match="not this one"):
        await agent.run("go")
    assert [one.text for one in tool_messages(agent.messages)] == ["0", "2"]
    assert await store.read("s-1") == tuple(agent.messages)
    refused.clear()
    await agent.run("go on")

    assert [one.text for one in tool_messages(agent.messages)] == ["0", "2", "1"]
    assert await store.read("s-1") == tuple(agent.messages)
    assert [one.requested.id for one in outcomes] == ["c-0", "c-1", "c-2"]
    await agent.aclose()


async def test_each_call_has_a_context_of_its_own():
    user, read, caller = ContextVar("user", default="nobody"), [], asyncio.Event()

    async def look(name: str) -> str:
        """Look who calls."""
        read.append(("tool", name, user.get()))
        user.set(name)
        await caller.wait()
        return user.get()

    runner = runner_of(EventBus(), look)

    @runner.bus.on(TOOL_CALL_BEFORE)
    async def handle(ctx):
        name = ctx.value.arguments["name"]
        read.append(("handler", name, user.get()))
        await asyncio.sleep(0)
        user.set(f"handler of {name}")

    user.set("caller")
    names = ["a", "b", "c"]
    calls = [ToolCall(id=name, name="look", arguments={"name": name}) for name in names]
    asyncio.get_running_loop().call_later(0.01, caller.set)
    outcomes = await runner.call_all(calls)

    assert [one.response.text for one in outcomes] == names
    assert sorted(read) == [
        *[("handler", name, "caller") for name in names],
        *[("tool", name, f"handler of {name}") for name in names],
    ]
    assert user.get() == "caller"


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_run_answers_its_calls(times):
    begun, released, blocked = asyncio.Event(), threading.Event(), threading.Event()
    store = MemoryStore()

    @tool
    def block() -> bool:
        """Block."""
        blocked.set()
        return released.wait(SECONDS)

    calls = [call_of(name, number) for number, name in enumerate(["note", "hang", "block"])]
    agent = agent_of(asks(*calls), tools=[notes([]), hangs(begun), block], store=store)
    outcomes, noted = collects(agent.bus, TOOL_CALL_AFTER), asyncio.Event()
    agent.on(TOOL_CALL_AFTER, lambda ctx: noted.set())
    run = asyncio.ensure_future(agent.run("go"))
    await begun.wait()
    await asyncio.to_thread(blocked.wait, SECONDS)
    await noted.wait()

    for _ in range(times):
        run.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await run

    with logged("tool 'block' ended too late; its result is dropped") as late:
        released.set()
        assert late.wait(SECONDS)
    answers = tool_messages(agent.messages)
    assert [one.tool_call_id for one in answers] == ["c-0", "c-1", "c-2"]
    assert [one.text for one in answers] == [
        "noted 0",
        "the call was cancelled",
        "the call was cancelled",
    ]
    assert [one.tool_response.error_type for one in answers] == [None, "cancelled", "cancelled"]
    statuses = {one.requested.id: (one.status, one.executed.id) for one in outcomes}
    assert len(outcomes) == 3
    assert statuses == {
        "c-0": ("ok", "c-0"),
        "c-1": ("cancelled", "c-1"),
        "c-2": ("cancelled", "c-2"),
    }
    assert await store.read("s-1") == tuple(agent.messages)
    await agent.aclose()


@pytest.mark.parametrize("turns", range(24))
def test_calls_that_have_not_begun_are_answered(turns):
    calls = [call_of("hang", number) for number in range(3)]
    store, outcomes = MemoryStore(), []

    async def main():
        agent = agent_of(asks(*calls), tools=[hangs(asyncio.Event())], store=store)
        agent.on(TOOL_CALL_AFTER, lambda ctx: outcomes.append(ctx.value.requested.id))
        running.append(asyncio.ensure_future(agent.run("go")))
        await turns_of(turns)

    # The end of `asyncio.run` cancels every task.
    running = []
    asyncio.run(main())

    stored = asyncio.run(store.read("s-1"))
    asked = [call.id for one in stored for call in getattr(one, "tool_calls", ())]
    assert running[0].cancelled()
    assert [one.tool_call_id for one in tool_messages(stored)] == asked
    assert sorted(outcomes) == asked


async def test_a_write_is_not_cancelled():
    class SlowStore(MemoryStore):
        writing, go_on = asyncio.Event(), asyncio.Event()

        async def append(self, session_id, stored):
            if isinstance(stored.message, ToolMessage):
                self.writing.set()
                await self.go_on.wait()
            await super().append(session_id, stored)

    store = SlowStore()
    agent = agent_of(
        asks(call_of("note", 1, n=1), call_of("note", 2, n=2)), tools=[notes([])], store=store
    )
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)
    run = asyncio.ensure_future(agent.run("go"))
    await store.writing.wait()

    for _ in range(2):
        run.cancel()
        await asyncio.sleep(0)
    assert not run.done()
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert [one.text for one in tool_messages(agent.messages)] == ["noted 1", "noted 2"]
    assert [one.status for one in outcomes] == ["ok", "ok"]
    assert await store.read("s-1") == tuple(agent.messages)
    await agent.aclose()


async def test_a_question_can_be_cancelled():
    asked, ran = asyncio.Event(), []

    async def approver(ask, call, scope):
        asked.set()
        await asyncio.Event().wait()

    agent = agent_of(
        asks(call_of("note", 1), call_of("note", 2)), tools=[notes(ran)], approver=approver
    )
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("write it?"))
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)
    run = asyncio.ensure_future(agent.run("go"))
    await asked.wait()

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert [(one.status, one.executed, one.attempts) for one in outcomes] == [
        ("cancelled", None, 0)
    ] * 2
    assert [one.tool_call_id for one in tool_messages(agent.messages)] == ["c-1", "c-2"]
    assert ran == []
    await agent.aclose()


async def test_a_cancelled_tool_may_clean_up():
    begun, noted = asyncio.Event(), []

    async def work() -> None:
        """Work, and clean up."""
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            noted.append("cleaned up")

    bus = EventBus()
    bus.on(TOOL_CALL_AFTER, lambda ctx: noted.append(ctx.value.status))
    run = asyncio.ensure_future(runner_of(bus, work).call("work"))
    await begun.wait()

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert noted == ["cleaned up", "cancelled"]


async def test_calls_of_a_sub_agent_are_answered():
    bus, store, begun = EventBus(), MemoryStore(), asyncio.Event()
    below = agent_of(
        asks(call_of("hang", 8), id="m-8"),
        bus=bus,
        tools=[hangs(begun)],
        store=store,
        agent_id="below",
    )
    agent = agent_of(
        asks(call_of("ask", 1, prompt="wait")),
        bus=bus,
        tools=[below.as_tool("ask")],
        store=store,
    )
    outcomes = collects(bus, TOOL_CALL_AFTER)
    run = asyncio.ensure_future(agent.run("go"))
    await begun.wait()

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    sessions = [await store.read(one.id) for one in await store.sessions()]
    assert [[one.tool_call_id for one in tool_messages(some)] for some in sessions] == [
        ["c-1"],
        ["c-8"],
    ]
    assert [(one.requested.name, one.status) for one in outcomes] == [
        ("hang", "cancelled"),
        ("ask", "cancelled"),
    ]
    await agent.aclose()
    await below.aclose()


async def test_an_interrupted_call_never_runs_again():
    store, ran = MemoryStore(), []
    for message in (
        UserMessage(id="u-1", content="go"),
        asks(call_of("note", 1, n=1), call_of("note", 2, n=2)),
    ):
        await store.append("s-1", AppendRequest(message=message))
    agent = agent_of(tools=[notes(ran)], store=store)
    outcomes = collects(agent.bus, TOOL_CALL_AFTER)

    with Recorder(agent.bus) as recorder:
        await agent.run("go on")

    text = "the call was interrupted, and may have had effects; it was not run again"
    answers = tool_messages(agent.messages)
    assert ran == []
    assert [(one.tool_call_id, one.text) for one in answers] == [("c-1", text), ("c-2", text)]
    assert {one.tool_response.error_type for one in answers} == {"interrupted"}
    assert [(one.requested.id, one.status, one.executed) for one in outcomes] == [
        ("c-1", "interrupted", None),
        ("c-2", "interrupted", None),
    ]
    assert [one.response for one in outcomes] == [one.tool_response for one in answers]
    assert sequence(recorder, "c-1") == SEQUENCE[1:]
    assert await store.read("s-1") == tuple(agent.messages)
    await agent.aclose()


async def test_every_kind_of_call_has_one_sequence():
    bus = EventBus()
    answer, tools = asks(call_of("note", 8), id="m-8"), [notes([])]
    below = agent_of(answer, bus=bus, tools=tools, agent_id="below")
    agent = agent_of(
        asks(call_of("note", 1), id="m-1"),
        asks(call_of("note", 2), call_of("note", 3), id="m-2"),
        asks(call_of("ask", 4, prompt="note it"), id="m-3"),
        bus=bus,
        tools=[notes([]), below.as_tool("ask")],
    )

    with Recorder(bus) as recorder:
        await agent.run("go")
        direct = await agent.call_tool("note")

    for call_id in ("c-1", "c-2", "c-3", "c-4", "c-8", direct.requested.id):
        assert sequence(recorder, call_id) == SEQUENCE
    await agent.aclose()
    await below.aclose()


async def test_a_tool_calls_another():
    bus, messages, judged, read = EventBus(), [], [], []

    async def outer(context: ToolContext) -> str:
        """Call others."""
        read.append(await context.call("note", {"n": 1}))
        read.append(await context.call("note", {"n": 2}))
        read.append(await context.call("erase"))
        return "done"

    @bus.guard(TOOL_CALL_BEFORE)
    def judge(ctx):
        judged.append((ctx.value.id, ctx.value.name, ctx.scope))
        return Deny("not twice") if ctx.value.arguments.get("n") == 2 else None

    outcomes = collects(bus, TOOL_CALL_AFTER)
    runner = runner_of(bus, notes([]), outer, append=keeps(messages))

    outcome = await runner.call("outer")

    assert [one.text for one in read] == [
        "noted 1",
        "not twice",
        "no tool named 'erase'; known tools: note, outer",
    ]
    assert [one.is_error for one in read] == [False, True, True]
    assert [one.tool_call_id for one in read] == [one[0] for one in judged[1:]]
    assert {scope for _, _, scope in judged} == {SCOPE}
    assert [one[1] for one in judged] == ["outer", "note", "note", "erase"]
    assert [(one.requested.name, one.status) for one in outcomes] == [
        ("note", "ok"),
        ("note", "denied"),
        ("erase", "unknown_tool"),
        ("outer", "ok"),
    ]
    assert [one.tool_call_id for one in messages] == [outcome.requested.id]


async def test_an_inner_call_ends_with_its_caller():
    begun, bus = asyncio.Event(), EventBus()

    async def outer(context: ToolContext) -> None:
        """Wait for another."""
        await context.call("hang")

    outcomes = collects(bus, TOOL_CALL_AFTER)
    run = asyncio.ensure_future(runner_of(bus, hangs(begun), outer).call("outer"))
    await begun.wait()

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert [(one.requested.name, one.status) for one in outcomes] == [
        ("hang", "cancelled"),
        ("outer", "cancelled"),
    ]


async def test_a_failing_inner_handler_reaches_the_tool():
    bus = EventBus()

    async def outer(context: ToolContext) -> None:
        """Call another."""
        await context.call("note")

    @bus.on(TOOL_CALL_BEFORE, on_error="raise", when=lambda ctx: ctx.value.name == "note")
    def broken(ctx):
        raise ValueError("no idea")

    outcomes = collects(bus, TOOL_CALL_AFTER)
    outcome = await runner_of(bus, notes([]), outer).call("outer")

    assert [(one.requested.name, one.status) for one in outcomes] == [
        ("note", "denied"),
        ("outer", "error"),
    ]
    assert outcome.response.error_type == "HandlerError"
    assert outcome.response.text == "handler 'broken' of 'tool:call:before' raised an error"


async def test_an_inner_result_is_adapted():
    read = []

    class Redact(ToolAdapter):
        tools = ("inner",)

        def adapt_response(self, response, call):
            return response.map_text(lambda text: text.replace("SECRET", f"[{call.name}]"))

    async def inner() -> str:
        """Tell a secret."""
        return "SECRET"

    async def outer(context: ToolContext) -> str:
        """Call another."""
        read.append(await context.call("inner"))
        return read[-1].text

    component = AgentComponent()
    component.register_tool_adapter(Redact())
    answers = [asks(call_of("inner")), asks(call_of("outer", 2), id="m-2")]
    agent = agent_of(*answers, tools=[inner, outer], components=[component])

    await agent.run("go")

    assert [one.text for one in tool_messages(agent.messages)] == ["[inner]", "[inner]"]
    assert [one.text for one in read] == ["[inner]"]
    assert (read[0].tool_name, read[0].parameters, read[0].is_error) == ("inner", {}, False)


async def test_a_guard_withholds_an_inner_result():
    read = []

    async def inner() -> str:
        """Tell a secret."""
        return "SECRET"

    async def outer(context: ToolContext) -> str:
        """Call another."""
        read.append(await context.call("inner"))
        return "done"

    agent = agent_of(asks(call_of("outer")), tools=[inner, outer])

    @agent.guard(MESSAGE_APPEND_BEFORE)
    def judge(ctx):
        secret = isinstance(ctx.value, ToolMessage) and ctx.value.tool_name == "inner"
        return Deny("not for models") if secret else None

    await agent.run("go")

    assert [(one.text, one.error_type) for one in read] == [("not for models", "denied")]
    assert [one.tool_call_id for one in tool_messages(agent.messages)] == ["c-1"]


def unruly_tools(hanging, *, hang):
    """Return tools that fail, take too long, and hang if they are to *hang*."""

    @tool(name="hang")
    async def hang_on(n: int, text: str) -> None:
        """Hang until it is cancelled."""
        hanging.release()
        if hang:
            await asyncio.Event().wait()

    @tool(timeout=0.001)
    async def slow(n: int, text: str) -> None:
        """Take too long."""
        await asyncio.Event().wait()

    @tool
    def flaky(n: int, text: str) -> None:
        """Fail."""
        raise RuntimeError(text)

    return hang_on, slow, flaky


def refuses_and_fails(bus, *, broken):
    """Subscribe handlers that do what the argument "text" says; *broken* observers fail."""

    @bus.on(TOOL_CALL_BEFORE, on_error="raise")
    def judge(ctx):
        match ctx.value.arguments["text"]:
            case "break":
                return ctx.value.with_arguments({"n": "one"})
            case "raise":
                raise ValueError
            case "boom":
                raise Boom
            case text:
                return VERDICTS.get(text)

    @bus.guard(TOOL_CALL_BEFORE)
    def guard(ctx):
        if ctx.value.arguments["text"] == "guard":
            raise ValueError

    @bus.on(TOOL_CALL_ERROR, on_error="raise")
    def recover(ctx):
        if ctx.value.call.arguments["text"] == "exit":
            raise ValueError

    if broken:
        bus.on(TOOL_CALL_AFTER, lambda ctx: 1 / 0)


VERDICTS = {"deny": Deny("not allowed"), "answer": ToolResponse.from_text("cached")}
CASES = {
    "ok": ("note", {"n": 1}),
    "error": ("flaky", {}),
    "denied": ("note", {"text": "deny"}),
    "answered": ("note", {"text": "answer"}),
    "unknown_tool": ("erase", {"n": 1}),
    "invalid_arguments": ("note", {"n": "one"}),
    "timeout": ("hang", {}),
}


@tool(name="wait")
async def waits(n: int) -> str:
    """Wait for *n* turns of the loop."""
    for _ in range(n):
        await asyncio.sleep(0)
    return f"waited {n}"


async def suspend(ctx):
    await asyncio.sleep(0)


class Renames(ToolAdapter):
    """Renames a parameter; *spoil* and *forget* are two ways of getting the arguments wrong."""

    def __init__(self, inner, outer, *, spoil=False, forget=False):
        self.inner, self.outer, self.spoil, self.forget = inner, outer, spoil, forget
        self.name = f"{inner}/{outer}"

    def adapt_signature(self, spec):
        schema = thaw(spec.input_schema)
        schema["properties"][self.outer] = schema["properties"].pop(self.inner)
        return replace(spec, input_schema=schema)

    def adapt_parameters(self, call):
        if self.forget:
            return None
        value = call.arguments[self.outer]
        value = f"{value}!" if self.spoil else value
        return call.without_arguments(self.outer).merge_arguments({self.inner: value})


async def run_adapted(adapters, *handlers, **arguments):
    """Return the messages of a run in which a model calls `note` past *adapters*."""
    ran, component = [], AgentComponent()
    for one in adapters:
        component.register_tool_adapter(one)
    agent = agent_of(asks(call_of("note", **arguments)), tools=[notes(ran)], components=[component])
    for one in handlers:
        agent.on(TOOL_CALL_BEFORE, one, priority=10)
    await agent.run("go")
    await agent.aclose()
    return agent.messages, ran


def changes(change):
    """Return a handler that applies *change* to the response of a tool message."""

    def handler(ctx):
        if not isinstance(ctx.value, ToolMessage):
            return None
        return ctx.value.with_tool_response(change(ctx.value.tool_response))

    return handler


def redact(text):
    return text.replace("s3cret", "***")


async def turns_of(number):
    """Wait for *number* turns of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


def id_of_call(value):
    """Return the id of the call that the value of an event is about, or None."""
    match value:
        case ToolCall(id=call_id):
            return call_id
        case ToolCallOutcome(requested=requested):
            return requested.id
        case ToolMessage(tool_call_id=call_id) | ToolCallPersist(tool_call_id=call_id):
            return call_id
    return None


async def never_waits() -> str:
    """Answer at once."""
    return "done"


def keeps(messages):
    """Return a transcript's `append` that puts messages into a list."""

    async def append(message, scope, spec):
        messages.append(message)
        return message

    return append
