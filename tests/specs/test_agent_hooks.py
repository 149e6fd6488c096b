"""The scenarios of `specs/agent_hooks.md`."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework_environments import run
from hook_hosts import Host, failure
from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    ToolCall,
    ToolResponse,
    guard,
    on,
    tool,
)
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.bridges.agent_hooks import AgentHooksComponent, AgentHooksInterceptor
from toolbus.bridges.agent_hooks.contract import POINTS, ContractError, canonical_json
from toolbus.bridges.bridged_call import BridgeError
from toolbus.errors import MessageDenied, ModelError, RegistrationError
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_AFTER,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
    ModelDelta,
    Retry,
)
from toolbus.models import ScriptedModel
from toolbus.store import MemoryStore

ROOT = Path(__file__).parents[2]
SECRET, HIDDEN = "tok-" + "5e7a1c90", "[secret]"


class Watch(AgentComponent):
    """It keeps the ends of calls and runs."""

    def __init__(self):
        super().__init__()
        self.ends, self.runs = [], []

    @on(TOOL_CALL_AFTER)
    def end(self, ctx):
        self.ends.append((ctx.value.requested.id, ctx.value.status))

    @on(RUN_AFTER)
    def run(self, ctx):
        self.runs.append(ctx.value.status)


class Redact(AgentComponent):
    """It takes the secret out of all messages."""

    @on(MESSAGE_APPEND_BEFORE, on_error="closed")
    def redact(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, HIDDEN))


class Rules(AgentComponent):
    """It judges calls by the names of their tools."""

    @guard(TOOL_CALL_BEFORE)
    async def judge(self, ctx):
        match ctx.value.name:
            case "forbidden":
                return Deny("not here")
            case "crash":
                raise ValueError("a bug")
            case "hang":
                await asyncio.sleep(30)
            case "pay":
                return Ask("Pay?")
        return None


class Answer(AgentComponent):
    @on(TOOL_CALL_BEFORE)
    def answer(self, ctx):
        return ToolResponse("from the cache")


def set_text(text):
    def rewrite(ctx):
        return ctx.value.merge_arguments({"text": ctx.value.arguments["text"] + text})

    return rewrite


class Rewrite(AgentComponent):
    first = on(TOOL_CALL_BEFORE, priority=300)(lambda _, ctx: set_text("b")(ctx))
    second = on(TOOL_CALL_BEFORE)(lambda _, ctx: set_text("c")(ctx))


class Seen(AgentComponent):
    """A guard that keeps the calls it judges."""

    def __init__(self):
        super().__init__()
        self.calls = []

    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        self.calls.append(dict(ctx.value.arguments))


def calls(name, **arguments):
    """Return the answers of a model that calls the tool *name* once."""
    call = ToolCall(id="c1", name=name, arguments=arguments)
    return [AssistantMessage(tool_calls=(call,))]


def value_of(verdict):
    return verdict["transform"]["value"]


async def test_rewrites_become_one_transform():
    seen = Seen()

    async with AgentHooksInterceptor([Rewrite(), seen]) as interceptor:
        verdict = await Host(interceptor).call("c1", "echo", text="a")

    assert verdict == {
        "decision": "transform",
        "transform": {"path": "$target", "value": {"text": "abc"}},
    }
    assert seen.calls == [{"text": "abc"}]


async def test_a_denial_has_its_reason():
    watch = Watch()

    async with AgentHooksInterceptor([watch, Rules()]) as interceptor:
        host = Host(interceptor)
        denied = await host.call("c1", "forbidden")
        crashed = await host.call("c2", "crash")

    assert denied == {"decision": "deny", "reason": "toolbus:denied", "message": "not here"}
    assert crashed["decision"] == "deny"
    assert "Rules.judge" in crashed["message"]
    assert watch.ends == [("c1", "denied"), ("c2", "denied")]


async def test_results_are_replaced_with_the_call():
    watch, store = Watch(), MemoryStore()

    async with AgentHooksInterceptor([watch, Redact()], store=store) as interceptor:
        host, verdicts = Host(interceptor), []
        values = [f"it is {SECRET}", {"token": SECRET, "uses": 2}, f"no {SECRET}"]
        for call_id, value in zip(("c1", "c2", "c3"), values, strict=True):
            await host.call(call_id, "read")
            is_error = call_id == "c3"
            verdicts.append(await host.result(call_id, "read", value, is_error=is_error))

    shown = [f"it is {HIDDEN}", {"token": HIDDEN, "uses": 2}, f"no {HIDDEN}"]
    assert [value_of(verdict) for verdict in verdicts] == shown
    assert watch.ends == [("c1", "ok"), ("c2", "ok"), ("c3", "error")]
    (session,) = await store.sessions()
    stored = [message.text for message in await store.read(session.id) if message.role == "tool"]
    assert len(stored) == 3
    assert SECRET not in str(stored)


async def test_a_denied_result_is_withheld():
    class Withhold(AgentComponent):
        @guard(MESSAGE_APPEND_BEFORE, roles="tool")
        def judge(self, ctx):
            return Deny("tainted")

    async with AgentHooksInterceptor([Withhold()]) as interceptor:
        host = Host(interceptor)
        await host.call("c1", "read")
        verdict = await host.result("c1", "read", "a text")

    assert (verdict["decision"], verdict["message"]) == ("deny", "tainted")


async def test_an_answer_is_read_instead():
    watch = Watch()

    async with AgentHooksInterceptor([watch, Answer()]) as interceptor:
        host = Host(interceptor)
        denied = await host.call("c1", "read")
        theirs = {"role": "tool", "tool_call_id": "c1", "content": "blocked by a hook"}
        request = await host.request({"role": "user", "content": "go"}, theirs)

    assert (denied["decision"], denied["message"]) == ("deny", "from the cache")
    assert value_of(request)[1]["content"] == "from the cache"
    assert watch.ends == [("c1", "answered")]


async def test_questions_become_liftable_denials():
    watch = Watch()

    async with AgentHooksInterceptor([watch, Rules()], host_asks=True) as interceptor:
        host = Host(interceptor)
        asked = [await host.call(call_id, "pay") for call_id in ("c1", "c2")]
        await host.result("c1", "pay", "paid")
        await host.request({"role": "tool", "tool_call_id": "c2", "content": "refused"})

    assert [(each["approval"], each["message"]) for each in asked] == [({}, "Pay?")] * 2
    assert watch.ends == [("c1", "ok"), ("c2", "denied")]


async def test_an_approver_is_asked_without_it():
    questions = []

    def approve(ask, call, scope):
        questions.append((ask.prompt, call.name))
        return True

    async with AgentHooksInterceptor([Rules()], approver=approve) as interceptor:
        verdict = await Host(interceptor).call("c1", "pay")

    assert verdict == {"decision": "allow"}
    assert questions == [("Pay?", "pay")]


async def test_late_failures_are_replaced():
    watch, store, text = Watch(), MemoryStore(), f"Error: no {SECRET}"

    async with AgentHooksInterceptor([watch, Redact()], store=store) as interceptor:
        host = Host(interceptor, framework="agent-framework")
        await host.call("c1", "read")
        at_failure = await host.result("c1", "read", "ValueError", is_error=True)
        request = await host.request(failure("c1", text))
        output = await host.output(
            [failure("c1", text), {"role": "assistant", "content": "it failed"}]
        )

    assert at_failure == {"decision": "allow"}
    (result,) = value_of(request)[0]["content"]
    assert result == {"type": "function_result", "call_id": "c1", "result": f"Error: no {HIDDEN}"}
    assert value_of(output)[0]["content"] == [result]
    assert watch.ends == [("c1", "error")]
    (session,) = await store.sessions()
    assert f"Error: no {HIDDEN}" in [each.text for each in await store.read(session.id)]


async def test_unseen_calls_are_judged_late():
    watch = Watch()

    async with AgentHooksInterceptor([watch]) as interceptor:
        host = Host(interceptor)
        await host.request({"role": "user", "content": "go"}, tools=["read"])
        await host.reply(None, ("c1", "remove_all", {"path": "/"}))
        theirs = {"role": "tool", "tool_call_id": "c1", "content": "no such function"}
        request = await host.request(theirs, tools=["read"])

    assert watch.ends == [("c1", "unknown_tool")]
    assert "no tool named 'remove_all'" in value_of(request)[0]["content"]


async def test_a_cut_off_call_ends_once():
    watch = Watch()

    async with AgentHooksInterceptor([watch, Rules()]) as interceptor:
        host = Host(interceptor)
        await host.call("cancelled", "read")
        await host.call("denied", "read")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.call("late", "hang"), 0.05)
        await host.call("open", "read")
        await host.request({"role": "tool", "tool_call_id": "denied", "content": "theirs"})
        await host.result("cancelled", "read", "cut", is_error=True)
        await host.shutdown("cancelled")

    assert sorted(watch.ends) == [
        ("cancelled", "error"),
        ("denied", "cancelled"),
        ("late", "cancelled"),
        ("open", "cancelled"),
    ]


async def test_an_unjudged_result_is_judged():
    watch = Watch()

    async with AgentHooksInterceptor([watch, Rules()]) as interceptor:
        verdict = await Host(interceptor).result("c1", "forbidden", "a text")

    assert (verdict["decision"], verdict["message"]) == ("deny", "not here")
    assert watch.ends == [("c1", "denied")]


async def test_a_denied_call_that_ran_stays_denied(caplog):
    watch = Watch()

    async with AgentHooksInterceptor([watch, Rules()]) as interceptor:
        host = Host(interceptor)
        await host.call("c1", "forbidden")
        verdict = await host.result("c1", "forbidden", "a text")

    assert (verdict["decision"], verdict["message"]) == ("deny", "not here")
    assert watch.ends == [("c1", "denied")]
    assert "although it was denied" in caplog.text


@pytest.mark.parametrize("call_id", ["c1", ""])
async def test_repeated_ids_keep_their_results(call_id):
    watch = Watch()

    async with AgentHooksInterceptor([watch, Redact(), Rules()]) as interceptor:
        host = Host(interceptor, framework="agent-framework")
        await host.call(call_id, "read", path="a")
        await host.call(call_id, "read", path="b")
        await host.call(call_id, "forbidden")
        await host.result(call_id, "read", "text b", path="b")
        await host.result(call_id, "read", "ValueError", is_error=True, path="a")
        shown = [f"no {SECRET}", "text b", "blocked"]
        request = await host.request(*[failure(call_id, text) for text in ["old", *shown]])

    read = [message["content"][0]["result"] for message in value_of(request)]
    assert read == ["old", f"no {HIDDEN}", "text b", "not here"]
    assert sorted(status for _, status in watch.ends) == ["denied", "error", "ok"]


async def test_a_prompt_is_rewritten_or_denied():
    class Runs(AgentComponent):
        @guard(RUN_BEFORE)
        def judge(self, ctx):
            return Deny("no bombs") if "bomb" in ctx.value.text else None

    async with AgentHooksInterceptor([Redact(), Runs()]) as interceptor:
        host, prompt = Host(interceptor), f"use {SECRET}"
        as_text = await host.input(prompt)
        as_messages = await host.input(
            [{"role": "system", "content": "be brief"}, {"role": "user", "content": prompt}]
        )
        as_parts = await host.input([{"type": "text", "text": prompt}])
        denied = await host.input("make a bomb")

    assert as_text["transform"] == {"path": "$target.content", "value": f"use {HIDDEN}"}
    assert as_messages["transform"]["path"] == "$target.content[1].content"
    assert as_parts["decision"] == "deny"
    assert denied["message"] == "no bombs"


async def test_an_answer_is_rewritten():
    watch = Watch()

    async with AgentHooksInterceptor([watch, Redact()]) as interceptor:
        host = Host(interceptor)
        await host.input("go")
        beside = await host.reply(f"I use {SECRET}", ("c1", "read", {}))
        as_text = await host.output(f"it is {SECRET}")
        await host.input("again")
        as_messages = await host.output(
            [{"role": "user", "content": "x"}, {"role": "assistant", "content": SECRET}]
        )

    assert beside["transform"] == {"path": "$target.content", "value": f"I use {HIDDEN}"}
    assert as_text["transform"] == {"path": "$target.content", "value": f"it is {HIDDEN}"}
    assert value_of(as_messages)[1] == {"role": "assistant", "content": HIDDEN}
    assert watch.runs == ["ok", "ok"]


async def test_a_request_is_observed_and_changed():
    class Requests(AgentComponent):
        @on(MODEL_CALL_BEFORE)
        def change(self, ctx):
            first, *rest = ctx.value.messages
            if first.text == "stop":
                return Deny("too expensive")
            return type(ctx.value)(model="m", messages=(first.with_text("be kind"), *rest))

    async with AgentHooksInterceptor([Requests()]) as interceptor:
        host, rest = Host(interceptor), {"role": "user", "content": "go", "more": 1}
        changed = await host.request({"role": "system", "content": "be brief"}, rest)
        denied = await host.request({"role": "user", "content": "stop"})

    assert value_of(changed) == [{"role": "system", "content": "be kind"}, rest]
    assert denied["message"] == "too expensive"


async def test_hidden_tools_cannot_be_called():
    class Hide(AgentComponent):
        @on(TOOLS_PROVIDE)
        def hide(self, ctx):
            return tuple(spec for spec in ctx.value if spec.name != "read")

    watch = Watch()

    async with AgentHooksInterceptor([watch, Hide()], partial=True) as interceptor:
        host = Host(interceptor)
        await host.request({"role": "user", "content": "go"}, tools=["read", "write"])
        verdict = await host.call("c1", "read")

    assert "no tool named 'read'; known tools: write" in verdict["message"]
    assert watch.ends == [("c1", "unknown_tool")]


def test_a_needed_ability_is_refused():
    class Again(AgentComponent):
        @on(TOOL_CALL_ERROR)
        def retry(self, ctx):
            return Retry()

    with pytest.raises(RegistrationError, match="agent-hooks cannot deliver retry"):
        AgentHooksInterceptor([Again()])


async def test_a_failed_run_has_an_end():
    watch = Watch()

    async with AgentHooksInterceptor([watch]) as interceptor:
        host = Host(interceptor)
        await host.input("first")
        await host.input("second")
        await host.shutdown("cancelled")
        await Host(interceptor, session="other").input("third")

    assert watch.runs == ["error", "cancelled", "cancelled"]


async def test_a_closed_interceptor_denies():
    interceptor = AgentHooksInterceptor([Rules()])
    host = Host(interceptor)
    await host.call("c1", "read")
    await interceptor.aclose()

    for emitted in (host.input("go"), host.request(), host.call("c2", "read"), host.output("so")):
        with pytest.raises(BridgeError, match="closed"):
            await emitted
    assert await host.shutdown() == {"decision": "allow"}


async def test_a_run_below_leaves_its_caller_running():
    watch = Watch()

    async with AgentHooksInterceptor([watch]) as interceptor:
        host = Host(interceptor)
        await host.input("above")
        await host.call("c1", "delegate")
        await host.input("below")
        await host.request({"role": "user", "content": "below"})
        await host.output("done below")
        await host.result("c1", "delegate", "done below")
        await host.output("done above")

    assert watch.runs == ["ok", "ok"]
    assert watch.ends == [("c1", "ok")]


# --- interceptors around our agent ----------------------------------------------------------------


class Script:
    """An interceptor that returns the verdict of a point, and keeps each context."""

    def __init__(self, verdicts=(), **points):
        self.verdicts, self.seen = {**dict(verdicts), **points}, []

    def intercept(self, context):
        self.seen.append(context)
        verdict = self.verdicts.get(context["interception_point"], {"decision": "allow"})
        return verdict(context) if callable(verdict) else verdict

    @property
    def points(self):
        return [context["interception_point"] for context in self.seen]

    def at(self, point):
        return [context for context in self.seen if context["interception_point"] == point]


class Resolver:
    """A resolver that gives a fixed answer."""

    def __init__(self, outcome, verdict=None, identity=None):
        self.outcome, self.verdict, self.identity = outcome, verdict, identity

    def resolve(self, request):
        if self.outcome == "raise":
            raise ValueError("broken")
        identity = self.identity or request.context_identity
        return SimpleNamespace(
            outcome=self.outcome, verdict=self.verdict, context_identity=identity
        )


def deny(reason="no", **more):
    return {"decision": "deny", "reason": reason, **more}


def transform(path, value):
    return {"decision": "transform", "transform": {"path": path, "value": value}}


ALLOWED = {"decision": "allow"}
LIFTABLE = deny("ask", approval={})
ORDER = [
    *("agent_startup", "input", "pre_model_call", "post_model_call", "pre_tool_call"),
    *("post_tool_call", "pre_model_call", "post_model_call", "output"),
]


class World:
    """An agent that calls `read` once, with *interceptors* around it."""

    def __init__(self, *interceptors, components=(), answers=None, **options):
        self.ran = []
        self.hooks = AgentHooksComponent(interceptors, **options)
        answers = answers or [*calls("read", path="a"), "done"]

        @tool
        async def read(path: str) -> str:
            """Read a file."""
            self.ran.append(path)
            return f"it is {SECRET} in {path}"

        self.model = ScriptedModel(answers)
        self.agent = Agent(self.model, tools=[read], components=[*components, self.hooks])

    async def run(self, prompt="go"):
        async with self.agent:
            result = await self.agent.run(prompt)
        self.texts = {each.role: each.text for each in self.agent.messages}
        return result

    def record(self, point):
        return next(each for each in self.hooks.records if each["interception_point"] == point)


async def test_eight_points_come_in_order():
    script = Script()
    world = World(script, answers=[*calls("read", path="a"), "done", "again"])

    async with world.agent as agent:
        await agent.run("go")
        await agent.run("more")
    ledger = [
        record.event
        for record in agent.ledger
        for entry in record.entries
        if entry.name == "Script"
    ]

    again = ["input", "pre_model_call", "post_model_call", "output", "agent_shutdown"]
    assert script.points == [*ORDER, *again]
    assert [context["sequence"] for context in script.seen] == [*range(len(script.seen))]
    assert script.seen[0]["agent_init"] == {"tools_registered": ["read"]}
    assert script.seen[-1]["summary"] == {"reason": "completed"}
    assert TOOL_CALL_BEFORE.name in ledger


async def test_interceptors_see_what_handlers_left():
    class Early(AgentComponent):
        @on(TOOL_CALL_BEFORE, priority=-2_500_000)
        def rewrite(self, ctx):
            return ctx.value.merge_arguments({"path": "b"})

    seen = Seen()
    script = Script(pre_tool_call=transform("$target.path", "c"))
    world = World(script, components=[Early(), Redact(), seen])

    await world.run(f"use {SECRET}")

    (call,), (result,) = script.at("pre_tool_call"), script.at("post_tool_call")
    assert SECRET not in json.dumps(script.seen)
    assert call["target"] == {"path": "b"}
    assert result["target"] == f"it is {HIDDEN} in c"
    assert seen.calls == [{"path": "c"}]
    assert world.ran == ["c"]


@pytest.mark.parametrize("verdict", [ALLOWED, LIFTABLE])
async def test_a_guard_outweighs_an_interceptor(verdict):
    class Never(AgentComponent):
        @guard(TOOL_CALL_BEFORE)
        def judge(self, ctx):
            return Deny("never")

    resolver = Resolver("approve", ALLOWED)
    world = World(Script(pre_tool_call=verdict), components=[Never()], resolver=resolver)

    await world.run()

    assert world.ran == []
    assert world.texts["tool"] == "never"
    assert world.record("pre_tool_call")["verdict"]["decision"] == "allow"


@pytest.mark.parametrize("point", [point for point in POINTS[:-1] if point != "input"])
async def test_a_denial_stops_its_action(point):
    script = Script({point: deny("not now")})
    world = World(script)

    result = await world.run()

    at_tool = point in {"pre_tool_call", "post_tool_call"}
    assert (result.status, result.reason) == (("ok", None) if at_tool else ("denied", "not now"))
    assert script.points[: ORDER.index(point) + 1] == ORDER[: ORDER.index(point) + 1]
    assert script.points[-1] == "agent_shutdown"
    if at_tool:
        assert world.texts["tool"] == "not now"
        assert world.ran == (["a"] if point == "post_tool_call" else [])
        assert script.points.count("post_tool_call") == len(world.ran)
    else:
        assert script.points.count(point) == 1
        assert len(script.points) == ORDER.index(point) + 2


async def test_a_denied_prompt_is_raised():
    script = Script(input=deny("not now"))
    world = World(script)

    with pytest.raises(MessageDenied, match="not now"):
        await world.run()

    assert script.points == ["agent_startup", "input", "agent_shutdown"]
    assert world.agent.messages == ()


@pytest.mark.parametrize(
    ("point", "path", "value"),
    [
        ("input", "$target.content", "new"),
        ("pre_model_call", "$target[0].content", "new"),
        ("post_model_call", "$target.tool_calls[0].args.path", "new"),
        ("pre_tool_call", "$target.path", "new"),
        ("post_tool_call", "$target", "new"),
        ("output", "$target.content", "new"),
    ],
)
async def test_a_transform_takes_effect(point, path, value):
    def once(context):
        has_place = point != "post_model_call" or context["response"]["tool_calls"]
        return transform(path, value) if has_place else ALLOWED

    world = World(Script({point: once}))

    result = await world.run()

    request = world.model.requests[0]
    effects = {
        "input": world.texts["user"],
        "pre_model_call": request.messages[0].text,
        "post_model_call": world.ran[0],
        "pre_tool_call": world.ran[0],
        "post_tool_call": world.texts["tool"],
        "output": result.text,
    }
    assert [name for name, text in effects.items() if text == "new"] == {
        "input": ["input", "pre_model_call"],
        "post_model_call": ["post_model_call", "pre_tool_call"],
        "pre_tool_call": ["post_model_call", "pre_tool_call"],
    }.get(point, [point])


async def cancel_itself(_):
    raise asyncio.CancelledError


async def ignore_cancellation(_):
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(30)
    await asyncio.sleep(0.5)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (lambda _: 1 / 0, "interceptor_failed"),
        (cancel_itself, "interceptor_failed"),
        (lambda _: asyncio.sleep(30), "interceptor_timeout"),
        (ignore_cancellation, "interceptor_timeout"),
        (lambda _: True, "verdict_invalid"),
        ({"decision": "transform"}, "verdict_invalid"),
        ({"decision": "allow", "reason": "host_error:mine"}, "verdict_invalid"),
        (transform("$target.nowhere", 1), "transform_invalid"),
        (transform("$other", 1), "transform_target_forbidden"),
        (transform("$target", "no object"), "context_invalid"),
    ],
)
async def test_a_failing_interceptor_denies(returned, reason):
    world = World(Script(pre_tool_call=returned), timeout=0.05)

    result = await world.run()

    assert result.text == "done"
    assert world.ran == []
    assert world.record("pre_tool_call")["verdict"]["reason"] == f"host_error:{reason}"


@pytest.mark.parametrize("profile", ["sequential/run_all", "parallel/strictest"])
async def test_an_interceptor_reaches_no_other_one(profile):
    """Neither by the context that it gets, nor by a value that it has returned."""
    kept = {"path": "shown"}

    def replace(context):
        context["target"]["path"] = context["tool_call"]["args"]["path"] = "tampered"
        return transform("$target", kept)

    async def look(context):
        kept["path"] = "changed later"
        return ALLOWED

    second = Script(pre_tool_call=look)
    world = World(Script(pre_tool_call=replace), second, composition=profile)

    await world.run()

    (call,) = second.at("pre_tool_call")
    seen = "a" if "parallel" in profile else "shown"
    assert call["target"] == call["tool_call"]["args"] == {"path": seen}
    assert world.ran == ["shown"]


async def test_two_components_judge_apart():
    first, second = Script(), Script(pre_tool_call=deny("the second"))
    world = World(first, components=[AgentHooksComponent([second])])

    await world.run()

    assert world.ran == []
    assert world.texts["tool"] == "the second"
    assert [script.points.count("input") for script in (first, second)] == [1, 1]


async def test_sub_agents_have_sessions_of_their_own():
    script = Script()

    @tool
    async def read(path: str) -> str:
        """Read a file."""
        return path

    below = Agent(ScriptedModel([*calls("read", path="a"), "below"]), tools=[read])
    model = ScriptedModel([*calls("helper", prompt="look"), "done"])
    hooks = AgentHooksComponent([script])

    async with Agent(model, tools=[below.as_tool("helper")], components=[hooks]) as agent:
        await agent.run("go")

    sessions = {context["session"]["id"] for context in script.seen}
    (lower,) = sessions - {script.seen[0]["session"]["id"]}
    points = [each["interception_point"] for each in script.seen if each["session"]["id"] == lower]
    assert points == [*ORDER, "agent_shutdown"]


def test_the_component_refuses_wrong_options():
    with pytest.raises(RegistrationError, match="parallel/unanimous"):
        AgentHooksComponent([Script()], composition="loudest")
    with pytest.raises(RegistrationError, match="evaluate_only"):
        AgentHooksComponent([Script()], mode="maybe")
    with pytest.raises(RegistrationError, match=r"intercept\(context\)"):
        AgentHooksComponent([lambda context: ALLOWED])
    with pytest.raises(RegistrationError, match="jcs-sha256"):
        AgentHooksComponent([Script()], identity="md5")


A, B, C = (transform("$target.path", text) for text in "xyz")
STOP, RESUME = {"on_approval": "stop"}, {"on_approval": "resume"}


@pytest.mark.parametrize(
    ("profile", "verdicts", "expected"),
    [
        ("sequential/first_deny", [A, B], ("transform", ["y"], 1)),
        ("sequential/first_deny", [A, deny(), B], ("deny", [], 1)),
        ("sequential/first_deny", [LIFTABLE, deny()], ("deny", [], 1)),
        ({"profile": "sequential/first_deny", **STOP}, [LIFTABLE, B], ("allow", ["a"], 0)),
        ({"profile": "sequential/first_deny", **RESUME}, [LIFTABLE, B], ("transform", ["y"], 1)),
        ("sequential/run_all", [A, B, ALLOWED], ("transform", ["y"], 1)),
        ("sequential/run_all", [LIFTABLE, A, deny()], ("deny", [], 2)),
        ("sequential/run_all", [LIFTABLE, LIFTABLE], ("allow", ["a"], 0)),
        ("parallel/strictest", [ALLOWED, A], ("transform", ["x"], 1)),
        ("parallel/strictest", [A, B], ("deny", [], None)),
        ("parallel/unanimous", [ALLOWED, ALLOWED], ("allow", ["a"], None)),
        ("parallel/unanimous", [ALLOWED, A], ("deny", [], None)),
        (
            {"profile": "parallel/unanimous", "on_disagreement": "approval"},
            [ALLOWED, deny()],
            ("allow", ["a"], None),
        ),
    ],
)
async def test_each_profile_combines_as_written(profile, verdicts, expected):
    scripts = [Script(pre_tool_call=verdict) for verdict in verdicts]
    world = World(*scripts, composition=profile, resolver=Resolver("approve", ALLOWED))

    await world.run()

    record = world.record("pre_tool_call")
    assert (record["verdict"]["decision"], world.ran, record["decided_by"]) == expected
    is_parallel = record["composition"]["profile"].startswith("parallel")
    paths = [
        script.at("pre_tool_call")[0]["target"]["path"]
        for script in scripts
        if script.at("pre_tool_call")
    ]
    assert not is_parallel or set(paths) == {"a"}


@pytest.mark.parametrize(
    ("resolver", "ran", "reason", "resolved_by"),
    [
        (Resolver("approve", ALLOWED), ["a"], None, "approval"),
        (Resolver("approve", A), ["x"], None, "approval"),
        (Resolver("reject", deny("by Ann")), [], "by Ann", "rejection"),
        (Resolver("unresolved"), [], "host_error:approval_unresolved", "rejection"),
        (Resolver("raise"), [], "host_error:approval_resolver_failed", "rejection"),
        (Resolver("approve", deny()), [], "host_error:verdict_invalid", "rejection"),
        (
            Resolver("approve", ALLOWED, "sha256:0"),
            [],
            "host_error:approval_identity_mismatch",
            "rejection",
        ),
        (None, [], "ask", None),
    ],
)
async def test_a_resolver_lifts_a_denial(resolver, ran, reason, resolved_by):
    world = World(Script(pre_tool_call=LIFTABLE), resolver=resolver)

    await world.run()

    record = world.record("pre_tool_call")
    assert world.ran == ran
    assert record["verdict"].get("reason") == reason
    assert record.get("resolved_by") == resolved_by


@pytest.mark.parametrize(("answer", "ran"), [(True, ["a"]), (Deny("too dear"), [])])
async def test_an_approver_may_be_the_resolver(answer, ran):
    questions = []

    async def approve(ask, call, scope):
        questions.append((ask.prompt, call.name, scope.agent_id))
        return answer

    script = Script(pre_tool_call=LIFTABLE, post_tool_call=LIFTABLE)
    world = World(script, resolver=approve)

    await world.run()

    assert world.ran == ran
    assert [question[:2] for question in questions] == [("ask", "read")]
    assert world.texts["tool"] == (
        "ask: no person can be asked at this point" if ran else "ask: too dear"
    )
    assert world.record("pre_tool_call")["resolved_by"] == ("approval" if ran else "rejection")


async def test_stored_approvals_may_be_the_resolver():
    store = MemoryStore()
    again = AssistantMessage(tool_calls=(ToolCall(id="c2", name="read", arguments={"path": "a"}),))
    answers = [*calls("read", path="a"), "it waits", again, "done"]
    approvals = StoredApprovals(store=store)
    world = World(Script(pre_tool_call=LIFTABLE), resolver=approvals, answers=answers)

    async with world.agent as agent:
        await agent.run("go")
        waiting = agent.messages[2].text
        (session,) = [info.id for info in await store.sessions()]
        (question,) = await questions_of(store, session)
        await answer(store, question.id, question.digest, approve=True, by="ann")
        await agent.run("again")

    assert question.id in waiting
    assert world.ran == ["a"]


async def test_evaluation_only_changes_nothing():
    script = Script(input=deny(), pre_tool_call=A, output=deny())
    world = World(script, mode="evaluate_only")

    result = await world.run()

    assert (result.text, world.ran) == ("done", ["a"])
    decisions = {each["interception_point"]: each["verdict"] for each in world.hooks.records}
    assert decisions["input"]["decision"] == decisions["output"]["decision"] == "deny"
    record = world.record("pre_tool_call")
    assert record["verdict"]["decision"] == "transform"
    assert record["input_identity"] == record["enforced_identity"]


async def switched(script):
    """Return the argument with which a tool runs that the model calls with 1."""
    ran = []

    @tool
    def switch(on: Any) -> str:
        """Switch it."""
        ran.append(on)
        return "done"

    model = ScriptedModel([*calls("switch", on=1), "done"])
    async with Agent(model, tools=[switch], components=[AgentHooksComponent([script])]) as agent:
        await agent.run("go")
    return ran[0]


async def test_true_is_not_taken_for_1():
    def switch_on(context):
        made = context["response"]["tool_calls"]
        return transform("$target.tool_calls[0].args.on", value=True) if made else ALLOWED

    at_call = await switched(Script(pre_tool_call=transform("$target.on", value=True)))
    at_answer = await switched(Script(post_model_call=switch_on))

    assert at_call is True
    assert at_answer is True


async def test_a_record_holds_no_payload():
    told = []
    script = Script(pre_tool_call=transform("$target.path", "changed-path"))
    world = World(script, sink=told.append)

    await world.run()

    record = world.record("pre_tool_call")
    assert told == list(world.hooks.records)
    assert "changed-path" not in json.dumps(record)
    assert record["verdict"]["transform"] == {"path": "$target.path"}
    assert record["verdicts"] == [{"index": 0, "decision": "transform"}]
    assert record["composition"] == {"profile": "sequential/first_deny", "on_approval": "resume"}
    assert record["input_identity"].startswith("sha256:")
    assert record["input_identity"] != record["enforced_identity"]


def test_identities_are_canonical():
    numbers = [1e21, 1e20, 1e-7, 1e-6, 0.1, -0.0, 1.0, 4.5, 333333333.33333329, 5e-324, 2**53 - 1]
    texts = {"\u20ac": 1, "\r": 2, "1": '\u20ac$\x0f\n\'B"\\\\"/', "😀": 3, "\ufb33": 4}

    assert canonical_json(numbers) == (
        "[1e+21,100000000000000000000,1e-7,0.000001,0.1,0,1,4.5,333333333.3333333,5e-324,"
        "9007199254740991]"
    )
    assert [*json.loads(canonical_json(texts))] == ["\r", "1", "\u20ac", "😀", "\ufb33"]
    assert "\\u000f\\n'B\\\"" in canonical_json(texts)
    with pytest.raises(ContractError, match="context_invalid"):
        canonical_json({"a": [2**53]})


async def test_integers_beyond_64_bits_deny():
    script = Script()
    call = ToolCall(id="c1", name="read", raw='{"path": ' + "9" * 30 + "}")

    world = World(script, answers=[AssistantMessage(tool_calls=(call,)), "done"])

    result = await world.run()

    assert result.status == "denied"
    assert "post_model_call" not in script.points
    record = world.record("post_model_call")
    assert record["verdict"]["reason"] == "host_error:context_invalid"
    assert record["input_identity"] is record["enforced_identity"] is None


class Pieces(ScriptedModel):
    """A model whose answer comes in pieces; it breaks off if the last one is an error."""

    def __init__(self, *pieces):
        super().__init__([])
        self._pieces = pieces

    async def stream(self, request):
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield ModelDelta(kind="text", text=piece)
        yield AssistantMessage(content="".join(self._pieces))


async def stream(model, script, *, incremental):
    """Return the shown text, the result or the error, and the component."""
    hooks, shown = AgentHooksComponent([script], incremental=incremental), ""
    async with Agent(model, components=[hooks]) as agent:
        try:
            async for piece in agent.stream("go"):
                if isinstance(piece, ModelDelta) and piece.kind == "text":
                    shown += piece.text
        except ModelError as error:
            piece = error
    return shown, piece, hooks, [message.text for message in agent.messages]


async def test_answers_are_held_by_default():
    script = Script(post_model_call=deny())

    shown, result, _, texts = await stream(Pieces("one ", "two"), script, incremental=False)

    assert (shown, result.status, texts) == ("", "denied", ["go"])
    assert script.points.count("post_model_call") == 1


async def test_pieces_are_shown_once_judged():
    def judge(context):
        return deny() if "two" in context["response"]["content"] else ALLOWED

    script = Script(post_model_call=judge)

    shown, result, _, texts = await stream(
        Pieces("one ", "two ", "three"), script, incremental=True
    )

    assert (shown, result.status, texts) == ("one ", "denied", ["go"])
    answers = [each["response"] for each in script.at("post_model_call")]
    assert [each["content"] for each in answers] == ["one ", "one two "]
    assert {each["finish_reason"] for each in answers} == {"incremental"}
    assert "output" not in script.points


async def test_broken_streams_show_nothing_unjudged():
    model = Pieces("one ", "two", ModelError("m", "cut off"))

    shown, error, hooks, texts = await stream(model, Script(), incremental=True)

    assert (shown, str(error)[-7:], texts) == ("one ", "cut off", ["go"])
    verdicts = [each["verdict"] for each in hooks.records if "post" in each["interception_point"]]
    assert [each["decision"] for each in verdicts] == ["allow", "deny"]
    assert verdicts[1]["reason"] == "host_error:streaming_unsupported"


# --- the conformance kit --------------------------------------------------------------------------

KIT, PINNED = Path(__file__).parents[1] / "bridges", "0.1.0b3"
DECLARED: dict[str, str] = {}
"""The vectors that contradict the design, with the reason; each of them must fail."""


@pytest.fixture(scope="session")
def kit_python(tmp_path_factory):
    """Return the interpreter of an environment with the kit."""
    folder = tmp_path_factory.mktemp("kit")
    python = str(folder / "bin/python")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    run([*pip, "blinker>=1.9", "msgspec>=0.21", f"agent-hooks-sdk[ctk]=={PINNED}"])
    return python


def run_kit(python, name, *arguments):
    """Return the JSON lines that the program *name* prints."""
    command = [python, str(KIT / f"{name}.py"), *arguments]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.full
def test_all_undeclared_vectors_pass(kit_python):
    results = {each["id"]: each for each in run_kit(kit_python, "agent_hooks_kit")}

    assert len(results) == 75
    unlike = [each for each in results.values() if each["status"] != "pass"]
    assert [each for each in unlike if each["id"] not in DECLARED] == []
    assert {each["id"] for each in unlike} == set(DECLARED)


@pytest.mark.full
def test_compositions_match_the_sdk_s(kit_python):
    (summary,) = run_kit(kit_python, "agent_hooks_twin", "2000")

    assert summary == {"emissions": 2000, "different": []}
