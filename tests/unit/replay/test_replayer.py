"""What becomes of recorded messages in corners that a recording seldom has."""

import asyncio

import pytest

from toolbus import (
    Agent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.components.participants import ComponentHost
from toolbus.config.targets import LoadedTarget
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Scope
from toolbus.models.scripted import ScriptedModel
from toolbus.replay import replayer as replayer_module
from toolbus.replay.replayer import Replayer


def play(bus, *messages, host=None, kind="bus"):
    """Return the findings of a session of *messages*, and the totals."""
    findings = []
    replayer = Replayer(
        LoadedTarget(bus, "test", kind, host or ComponentHost(bus)), findings.append
    )

    async def run():
        end = replayer.listen()
        session = replayer.begin("s")
        for message in messages:
            await replayer.replay(session, message)
        replayer.end(session)
        end()

    asyncio.run(run())
    return findings, replayer.totals


def asking(*names, **arguments):
    calls = [ToolCall(id=f"c-{name}", name=name, arguments=arguments) for name in names]
    return AssistantMessage(id="a", tool_calls=tuple(calls))


def result(name, text="done"):
    response = ToolResponse.from_text(text)
    return ToolMessage(
        id=f"t-{name}", tool_call_id=f"c-{name}", tool_name=name, tool_response=response
    )


def test_the_calls_of_a_denied_answer_are_not_made():
    bus = EventBus()
    bus.guard(
        MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no") if ctx.value.role == "assistant" else None
    )

    findings, totals = play(bus, asking("look"), result("look"))

    assert [(one.role, one.outcome, one.reason) for one in findings] == [
        ("assistant", "denied", "no")
    ]
    assert (totals.calls, totals.results_dropped, totals.unanswered) == (0, 1, 0)


def test_a_call_that_a_handler_takes_out_is_not_made():
    bus = EventBus()

    @bus.on(MESSAGE_APPEND_BEFORE)
    def take_out(ctx):
        if ctx.value.role == "assistant":
            return AssistantMessage(id="a", tool_calls=ctx.value.tool_calls[:1])
        return None

    findings, totals = play(bus, asking("look", "dump"), result("look"), result("dump"))

    assert [one.outcome for one in findings] == ["changed"]
    assert (totals.calls, totals.results_dropped) == (1, 1)


def test_a_call_without_a_result_is_counted(monkeypatch):
    monkeypatch.setattr(replayer_module, "_MAX_WAITING", 2)

    _, totals = play(EventBus(), asking("a", "b", "c", "d"), result("d"))

    assert totals.unanswered == 3


def test_a_result_without_a_call_is_taken_as_it_is():
    bus, seen = EventBus(), []
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: seen.append(ctx.value))
    bare = ToolMessage(id="t", tool_call_id="nobody", tool_name="look", content="x")

    findings, totals = play(bus, bare)

    assert (findings, seen, totals.messages) == ([], [bare], 1)


def test_a_result_that_is_bare_text_stays_so():
    bus, seen = EventBus(), []
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: seen.append(ctx.value))
    bare = ToolMessage(id="t", tool_call_id="c-look", tool_name="look", content="x")

    play(bus, asking("look"), bare)

    assert seen[1] is bare


@pytest.mark.parametrize("event", [TOOL_CALL_BEFORE, MESSAGE_APPEND_BEFORE])
def test_what_a_live_run_would_raise_is_a_finding(event):
    bus = EventBus()

    async def again(ctx):
        await bus.apply(event, ctx.value)

    bus.on(event, again)

    findings, totals = play(bus, asking("look"), result("look"))

    assert {one.outcome for one in findings} == {"raised"}
    assert "break the circle" in findings[0].reason
    assert totals.messages == 2


def test_a_policy_may_raise_at_a_message():
    bus = EventBus()
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: 1 // 0, on_error="raise", name="divide")

    findings, _ = play(bus, SystemMessage(id="m", content="x"))

    assert [(one.role, one.outcome) for one in findings] == [("system", "raised")]
    assert findings[0].by == ("divide (raised an error)",)


def test_a_dry_run_says_what_would_be():
    bus = EventBus(dry_run=True)
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("no") if ctx.value.name == "rm" else Ask("sure?"))

    findings, _ = play(bus, asking("rm", "mv"), result("rm"), result("mv"))

    assert [(one.tool, one.outcome) for one in findings] == [("rm", "denied"), ("mv", "asked")]
    assert [one.reason for one in findings] == ["no", "sure?"]
    assert [one.reads for one in findings] == [None, None]


def test_a_handler_that_breaks_the_arguments_is_named():
    def look(path: str) -> str:
        return path

    agent = Agent(ScriptedModel([]), tools=[look])
    agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.with_arguments({"path": 5}), name="wrong")

    findings, _ = play(agent.bus, asking("look", path="x"), host=agent, kind="agent")

    assert [(one.outcome, one.by) for one in findings] == [("rejected", ("wrong",))]
    assert "'wrong' made the arguments invalid" in findings[0].reads


def test_a_handler_that_breaks_a_result_is_named():
    def look() -> dict[str, int]:
        return {}

    agent = Agent(ScriptedModel([]), tools=[look])
    broken = ToolResponse(structured={"x": "text"})
    agent.on(
        MESSAGE_APPEND_BEFORE,
        lambda ctx: ctx.value.with_tool_response(broken) if ctx.value.role == "tool" else None,
        name="wrong",
    )
    message = result("look").with_tool_response(ToolResponse(structured={"x": 1}))

    findings, _ = play(agent.bus, asking("look"), message, host=agent, kind="agent")

    assert [(one.outcome, one.by) for one in findings] == [("rejected", ("wrong",))]


def test_on_a_bus_the_only_agent_speaks():
    bus, heard = EventBus(), []
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: heard.append(ctx.scope), sender="anna")

    play(bus, UserMessage(id="u", content="x"), asking("look"))

    assert [(one.agent_id, one.session_id, one.run_id, one.turn) for one in heard] == [
        ("anna", "s", "u", 0),
        ("anna", "s", "u", 1),
    ]


def test_among_several_agents_nobody_is_chosen():
    bus, heard = EventBus(), []
    for name in ("anna", "bert"):
        bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: heard.append(ctx.scope), sender=name)
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: heard.append(ctx.scope))

    play(bus, UserMessage(id="u", content="x"))

    assert [one.agent_id for one in heard] == ["agent"]


def test_a_recorded_execution_stands():
    bus, seen = EventBus(), []
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: seen.append(ctx.value))
    message = result("look")
    executed = ToolResponse(content=message.tool_response.content, parameters={"as": "executed"})

    play(bus, asking("look", as_="requested"), message.with_tool_response(executed))

    assert seen[1].tool_response.parameters == {"as": "executed"}


def test_a_nested_dispatch_is_not_mistaken_for_its_own():
    bus = EventBus()

    async def nested(ctx):
        if ctx.scope != Scope():
            await bus.apply(MESSAGE_APPEND_BEFORE, UserMessage(id="other", content="x"))

    bus.on(MESSAGE_APPEND_BEFORE, nested)
    bus.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no") if ctx.value.id == "other" else None)

    findings, _ = play(bus, UserMessage(id="mine", content="x"))

    assert findings == []


def test_adapters_of_a_refused_call_see_it_as_it_was_made():
    bus, seen = EventBus(), []
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.with_arguments({"path": "rewritten"}))
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("no"))
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: seen.append(ctx.value))

    (finding,), _ = play(bus, asking("look", path="made"), result("look"))

    assert finding.changes[0].after == "rewritten"
    assert seen[1].tool_response.parameters == {"path": "made"}
    assert seen[1].text == "no"


def test_a_hidden_value_in_arguments_that_are_no_object_is_noticed():
    call = ToolCall(id="c", name="look", raw="{path: [api_key-abcdefghijklmnop]")

    (finding,), _ = play(EventBus(), AssistantMessage(id="a", tool_calls=(call,)))

    assert (finding.outcome, finding.reason) == ("unjudged", "`raw` was hidden in the recording")


@pytest.mark.parametrize("words", ["the person refused this call", "no", ""])
def test_a_call_with_hidden_arguments_stays_as_recorded(words):
    bus, seen = EventBus(), []
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse.from_text("answered"))
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: seen.append(ctx.value))
    hidden = asking("look", path="/tmp", body={"[email-3]": 1}, **{"[api_key-abcdefghijklmnop]": 1})
    response = ToolResponse.from_text(words, is_error=True, error_type="denied")
    denied = result("look").with_tool_response(response) if words else result("look")

    (finding,), totals = play(bus, hidden, denied)

    names = "`body`, `[api_key-abcdefghijklmnop]`"
    assert (finding.outcome, finding.reason) == ("unjudged", f"{names} was hidden in the recording")
    assert (finding.by, finding.reads, totals.unanswered) == ((), None, 0)
    assert seen[1].text == denied.text
    assert seen[1].tool_response.parameters == hidden.tool_calls[0].arguments
