"""The scenarios of `specs/selection.md`."""

import asyncio
from typing import Any, Literal

import pytest

from toolbus import Agent, AgentComponent, AssistantMessage, Deny, EventBus, guard, on
from toolbus.errors import RegistrationError
from toolbus.events import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    ObserveEvent,
    ToolCallFailure,
    ToolCallOutcome,
    ToolCallPersist,
    ToolSpec,
    TransformEvent,
)
from toolbus.messages import SystemMessage, ToolCall, ToolMessage, ToolResponse, UserMessage
from toolbus.models.scripted import ScriptedModel

ANY = TransformEvent("any", object)
NOTE = ObserveEvent("note", object)


def values(name):
    """Return a value of each kind that is about the tool *name*."""
    call, other = ToolCall(name=name), ToolCall(name="elsewhere")
    response = ToolResponse("x")
    return [
        call,
        ToolCallFailure(call=call, response=response, error_type="E", error_text=""),
        ToolCallOutcome(requested=other, executed=call, response=response, status="ok"),
        ToolCallOutcome(requested=call, executed=None, response=response, status="denied"),
        ToolCallPersist(
            session_key="s",
            agent_id="a",
            tool_name=name,
            tool_call_id="c",
            tool_input={},
            tool_result=None,
            message_id="m",
            tool_message_id="t",
        ),
        ToolMessage(tool_call_id="c", tool_name=name),
    ]


OTHERS = [
    SystemMessage(content="read_file"),
    UserMessage(content="read_file"),
    AssistantMessage(tool_calls=(ToolCall(name="read_file"),)),
    (ToolSpec(name="read_file"),),
    "read_file",
    None,
]


def test_tools_choose_the_handlers():
    bus, heard = EventBus(), {}
    for tools in ("read_*", ["read_file", "w[rx]ite"], {"*"}, ("READ_*",), "read"):
        key, heard[key] = str(tools), []
        bus.on(ANY, lambda ctx, seen=heard[key]: seen.append(ctx.value), tools=tools)
    read, write, other = values("read_file"), values("write"), values("Read_File")

    for value in (*read, *write, *other, *OTHERS):
        bus.apply_sync(ANY, value)

    assert list(heard.values()) == [
        read,
        [*read, *write],
        [*read, *write, *other],
        [],
        [],
    ]


def test_roles_choose_the_handlers():
    bus, heard = EventBus(), {}
    choices = {
        "user": {"roles": "user"},
        "talk": {"roles": ["user", "assistant"]},
        "results": {"roles": ("tool",), "tools": "read_*"},
        "never": {"roles": "user", "tools": "*"},
    }
    for name, options in choices.items():
        heard[name] = []
        bus.on(ANY, lambda ctx, seen=heard[name]: seen.append(ctx.value), **options)
    reads, write = values("read_file"), values("write")[-1]

    for value in (*OTHERS, *reads, write):
        bus.apply_sync(ANY, value)

    assert heard == {"user": [OTHERS[1]], "talk": OTHERS[1:3], "results": reads[-1:], "never": []}


def test_a_guard_judges_the_final_name():
    bus, seen = EventBus(), []

    def hears(name, verdict=None):
        def handler(ctx):
            seen.append((name, ctx.value.name))
            return verdict

        return handler

    bus.on(TOOL_CALL_BEFORE, hears("early echo"), tools="echo", priority=200)
    bus.on(TOOL_CALL_BEFORE, hears("early delete"), tools="delete", priority=200)
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolCall(id=ctx.value.id, name="delete"), tools="echo")
    bus.on(TOOL_CALL_BEFORE, hears("late echo"), tools="echo", priority=10)
    bus.on(TOOL_CALL_BEFORE, hears("late delete"), tools="delete", priority=10)
    bus.guard(TOOL_CALL_BEFORE, hears("guard of echo", Deny("echo")), tools="echo")
    bus.guard(TOOL_CALL_BEFORE, hears("guard of delete", Deny("delete")), tools="del*")

    ended = bus.apply_sync(TOOL_CALL_BEFORE, ToolCall(name="echo"))

    assert ended.denied.reason == "delete"
    assert seen == [
        ("early echo", "echo"),
        ("late delete", "delete"),
        ("guard of delete", "delete"),
    ]


def test_answered_calls_are_judged_by_tool():
    bus = EventBus()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse("cached"), tools="echo")
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("no"), tools=["echo"])

    echo = bus.apply_sync(TOOL_CALL_BEFORE, ToolCall(name="echo"))
    other = bus.apply_sync(TOOL_CALL_BEFORE, ToolCall(name="other"))

    assert echo.denied.reason == "no"
    assert (other.denied, other.answer) == (None, None)


def test_components_and_agents_select_alike():
    seen = []

    class Watch(AgentComponent):
        @guard(TOOL_CALL_BEFORE, tools=["read_*", "write"])
        def judge(self, ctx):
            seen.append(("judge", ctx.value.name))

        @on(MESSAGE_APPEND_BEFORE, roles="user")
        def listen(self, ctx):
            seen.append(("listen", ctx.value.text))

        @on(TOOL_CALL_AFTER, tools="*", when=lambda ctx: ctx.value.status == "ok")
        def look(self, ctx):
            seen.append(("look", ctx.value.requested.name))

    def read_a() -> str:
        """Read."""
        return "a"

    def write() -> str:
        """Write."""
        return "w"

    calls = (ToolCall(name="read_a"), ToolCall(name="write"))
    model = ScriptedModel([AssistantMessage(tool_calls=calls), "done"])
    watch = Watch().restrict(tools="read_*")
    agent = Agent(model, tools=[read_a, write], components=[watch])

    @agent.guard(TOOL_CALL_BEFORE, tools="write")
    def refuse(ctx):
        return Deny("not now")

    agent.on(MESSAGE_APPEND_BEFORE, lambda ctx: ctx.value.with_text("A"), tools="read_a")
    agent.run_sync("go")

    assert sorted(seen) == [("judge", "read_a"), ("listen", "go"), ("look", "read_a")]
    assert [m.text for m in agent.messages if m.role == "tool"] == ["A", "not now"]


async def test_unselected_values_are_skipped():
    bus, records, seen = EventBus(), [], []

    async def later(ctx):
        seen.append(("later", ctx.value.name))

    async def watch(ctx):
        seen.append(("watch", ctx.value.name))

    bus.on(ANY, lambda ctx: seen.append(("plain", ctx.value.name)), tools="read", name="plain")
    bus.on(ANY, later, tools="read")
    bus.on(ANY, lambda ctx: seen.append(("once", ctx.value.name)), tools="read", once=True)
    bus.on(ANY, lambda ctx: None, roles="user", name="role")
    bus.on(NOTE, watch, tools=["read"])
    bus.tap(records.append)

    for name in ("write", "read", "read"):
        await bus.apply(ANY, ToolCall(name=name))
        bus.do(NOTE, ToolCall(name=name))
    await bus.drain()

    assert [each.status for each in records[0].entries] == ["skipped"] * 4
    assert {each.reason for each in records[0].entries} == {None}
    assert [each.status for each in records[1].entries] == ["skipped"]
    assert [each.status for each in records[2].entries] == ["ran", "ran", "ran", "skipped"]
    assert sorted(seen) == [
        *[("later", "read")] * 2,
        ("once", "read"),
        *[("plain", "read")] * 2,
        *[("watch", "read")] * 2,
    ]


def test_the_predicate_gets_only_selected_values():
    bus, asked = EventBus(), []

    def short(ctx):
        asked.append(ctx.value.name)
        return len(ctx.value.arguments["path"]) < 3

    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("short"), tools="read", when=short)

    ends = [
        bus.apply_sync(TOOL_CALL_BEFORE, ToolCall(name="list")),
        bus.apply_sync(TOOL_CALL_BEFORE, ToolCall(name="read", arguments={"path": "long"})),
        bus.apply_sync(TOOL_CALL_BEFORE, ToolCall(name="read", arguments={"path": "x"})),
    ]

    assert asked == ["read", "read"]
    assert [end.denied and end.denied.reason for end in ends] == [None, None, "short"]


def test_wrong_tools_and_roles_are_refused():
    wrong = [
        ({"tools": 7}, "tools must be names or glob patterns, in a list, not 7"),
        ({"tools": b"x"}, "tools must be names or glob patterns, in a list, not b'x'"),
        ({"tools": iter("x")}, "tools must be names or glob patterns, in a list, not <str_"),
        ({"tools": ()}, "tools must be names or glob patterns, not ()"),
        ({"tools": ""}, "tools must be names or glob patterns, not ('',)"),
        ({"tools": ["read", 7]}, "tools must be names or glob patterns, not ('read', 7)"),
        ({"roles": 7}, "roles must be roles of messages, in a list, not 7"),
        ({"roles": []}, "roles must be some of system, user, assistant, tool, not ()"),
        ({"roles": [None]}, "roles must be some of system, user, assistant, tool, not (None,)"),
        ({"roles": "asistant"}, "unknown role 'asistant'; did you mean 'assistant'?"),
        ({"roles": ["user", "bot"]}, "unknown role 'bot'; known: assistant, system, tool,"),
    ]
    bus = EventBus()
    agent = Agent(ScriptedModel([]), bus=bus)

    for options, problem in wrong:
        for subscribe in (bus.on, bus.guard, agent.on, agent.guard, on, guard):
            with pytest.raises(RegistrationError) as caught:
                subscribe(MESSAGE_APPEND_BEFORE, **options)
            assert caught.value.what == "handler of 'message:append:before'"
            assert caught.value.reason.startswith(problem)

    assert bus.handlers(MESSAGE_APPEND_BEFORE) == ()
    asyncio.run(agent.aclose())


def test_events_without_tools_refuse_them():
    own = [
        (TransformEvent("call", ToolCall), True, False),
        (TransformEvent("user", UserMessage), False, True),
        (TransformEvent("word", str), False, False),
        (TransformEvent("either", str | ToolMessage), True, True),
        (ObserveEvent("anything", Any), True, True),
        (ObserveEvent("untold", Literal["a"]), True, True),
        (ANY, True, True),
    ]
    messages = {"message:append:before", "message:persist:before", "message:append:after"}
    tools = {event.name for event in CATALOGUE if event.name.startswith("tool:")} | messages
    catalogue = [(event, event.name in tools, event.name in messages) for event in CATALOGUE]

    for event, has_tools, has_roles in (*own, *catalogue):
        for options, taken in (({"tools": "x"}, has_tools), ({"roles": "user"}, has_roles)):
            bus = EventBus()
            if taken:
                bus.on(event, lambda ctx: None, **options)
                assert len(bus.handlers(event)) == 1
            else:
                with pytest.raises(RegistrationError, match="; use when="):
                    bus.on(event, lambda ctx: None, **options)
                assert bus.handlers(event) == ()
