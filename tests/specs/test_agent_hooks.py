"""The scenarios of `specs/agent_hooks.md`."""

import asyncio
from itertools import count

import pytest

from toolbus import AgentComponent, Ask, Deny, ToolResponse, guard, on
from toolbus.bridges.agent_hooks import AgentHooksInterceptor
from toolbus.errors import RegistrationError
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_AFTER,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
    Retry,
)
from toolbus.store import MemoryStore

SECRET, HIDDEN = "tok-" + "5e7a1c90", "[secret]"


class Host:
    """A host of the contract, whose emissions a test writes by hand."""

    def __init__(self, *interceptors, framework="host", session="s"):
        self._interceptors, self._sequence = interceptors, count()
        self._framework, self._session = framework, session

    def context(self, point, target, **members):
        return {
            "spec": "agent-hooks/0.1",
            "interception_point": point,
            "timestamp": "2026-11-29T00:00:00Z",
            "sequence": next(self._sequence),
            "agent": {"id": "agent", "framework": self._framework},
            "session": {"id": self._session},
            "target": target,
            **members,
        }

    async def emit(self, point, target, **members):
        """Return the verdict of the first interceptor that does not allow."""
        for interceptor in self._interceptors:
            verdict = await interceptor.intercept(self.context(point, target, **members))
            if verdict["decision"] != "allow":
                return verdict
        return {"decision": "allow"}

    async def input(self, content):
        payload = {"content": content, "role": "user"}
        return await self.emit("input", payload, input=payload)

    async def request(self, *messages, tools=None):
        members = {"model": {"id": "m"}, "messages": list(messages)}
        members |= {} if tools is None else {"tools": [{"name": name} for name in tools]}
        return await self.emit("pre_model_call", list(messages), **members)

    async def reply(self, content, *calls):
        wire = [{"id": id_, "name": name, "args": args} for id_, name, args in calls]
        payload = {"content": content, "tool_calls": wire, "finish_reason": "stop"}
        return await self.emit("post_model_call", payload, model={"id": "m"}, response=payload)

    async def call(self, call_id, name, **args):
        call = {"id": call_id, "name": name, "args": args}
        return await self.emit("pre_tool_call", args, tool_call=call)

    async def result(self, call_id, name, value, *, is_error=False, **args):
        call = {"id": call_id, "name": name, "args": args}
        result = {"value": value, "is_error": is_error}
        return await self.emit("post_tool_call", value, tool_call=call, tool_result=result)

    async def output(self, content):
        return await self.emit("output", {"content": content}, output={"content": content})

    async def shutdown(self, reason="completed"):
        summary = {"reason": reason}
        return await self.emit("agent_shutdown", summary, summary=summary)


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


def value_of(verdict):
    return verdict["transform"]["value"]


def failure(call_id, text):
    """Return the message for a failed call in a request of agent-framework."""
    result = {"type": "function_result", "call_id": call_id, "result": text, "exception": text}
    return {"role": "tool", "content": [result]}


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
