"""Calls of a framework on the bus: rewriting, pauses, cancellation, threads."""

import asyncio
import os
import subprocess
import sys
import threading
import traceback

import pytest

from toolbus import (
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    Retry,
    ToolAdapter,
    ToolCall,
    ToolResponse,
    ToolSpec,
    events,
    guard,
    on,
)
from toolbus.bridges.bridged_call import BridgeError, text_for_number
from toolbus.bridges.host import BridgeHost
from toolbus.bridges.session import PromptDenied
from toolbus.errors import ClosedError, RegistrationError, StoreError
from toolbus.store import open_store
from toolbus.store.memory import MemoryStore

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SPEC = ToolSpec(name="add", input_schema=SCHEMA)
CALL = ToolCall(id="c1", name="add", arguments={"a": 1})


class Ends(AgentComponent):
    def __init__(self):
        self.ends = []

    @on(events.TOOL_CALL_AFTER)
    def note(self, ctx):
        self.ends.append((ctx.value.requested.id, ctx.value.status))


class Handler(AgentComponent):
    """One function, as a guard or a handler."""

    def __init__(self, event, function, kind="on"):
        self._event, self._function, self._kind = event, function, kind

    def subscribe(self, host):
        getattr(host, self._kind)(self._event, self._function)


class Redact(ToolAdapter):
    def adapt_response(self, response, call):
        return response.map_text(lambda text: text.replace("secret", "***"))


class PauseError(Exception):
    """The framework stops its run here, and goes on later."""


async def shown(arguments):
    return ToolResponse.from_text(f"secret {arguments}")


def host(*components, **options):
    return BridgeHost("langchain", components, **options)


def run(work):
    return asyncio.run(work)


def judge(verdict):
    return Handler(events.TOOL_CALL_BEFORE, lambda ctx: verdict, "guard")


def rewrite(**arguments):
    return Handler(events.TOOL_CALL_BEFORE, lambda ctx: ctx.value.with_arguments(arguments))


def test_an_unchanged_result_is_the_tools_own():
    end = run(host().session().call(CALL, SPEC, shown))

    assert (end.status, end.is_changed, end.error) == ("ok", False, None)


def test_a_replaced_result_is_changed():
    end = run(host(Redact()).session().call(CALL, SPEC, shown))

    assert (end.response.text, end.is_changed) == ("*** {'a': 1}", True)


def test_an_unchanged_failure_keeps_its_error():
    failure = RuntimeError("broken")

    async def fail(arguments):
        raise failure

    end = run(host(Redact()).session().call(CALL, SPEC, fail))

    assert end.error is failure
    assert (end.status, end.response.text, end.is_changed) == ("error", "broken", False)


def test_a_replaced_failure_loses_its_error():
    async def fail(arguments):
        raise RuntimeError("broken by secret")

    end = run(host(Redact()).session().call(CALL, SPEC, fail))

    assert (end.error, end.response.text) == (None, "broken by ***")


@pytest.mark.parametrize("is_judged", [True, False])
def test_a_failure_brings_no_text_that_no_handler_has_seen(is_judged):
    async def fail(arguments):
        failure.add_note("secret")
        raise failure from cause

    async def fail_together(arguments):
        raise ExceptionGroup("broken", [failure])

    async def call():
        components = [Handler(events.MESSAGE_APPEND_BEFORE, lambda ctx: None)] if is_judged else []
        session = host(*components).session()
        failed = await session.call(CALL, SPEC, fail)
        return failed, await session.call(CALL, SPEC, fail_together)

    failure, cause = RuntimeError("broken"), ValueError("secret")
    failed, together = run(call())
    text = "".join(traceback.format_exception(failed.error))
    assert failed.error is failure
    assert ("secret" in text) is not is_judged
    assert (together.error is None, together.is_changed) == (is_judged, is_judged)


def test_guards_judge_the_value_that_a_framework_makes_of_a_text():
    five = Handler(
        events.TOOL_CALL_BEFORE,
        lambda ctx: Deny("not five") if ctx.value.arguments["a"] == 5 else None,
        "guard",
    )
    call = ToolCall(id="c1", name="add", arguments={"a": "5"})
    end = run(host(five).session().call(call, SPEC, shown, check=lambda arguments: None))

    assert (end.status, end.response.text) == ("denied", "not five")


def test_half_a_character_ends_no_run():
    async def play():
        session = host().session()
        return await session.begin("ask \ud83d"), await session.finish("answer \ud83d")

    assert run(play()) == ("ask \ufffd", "answer \ufffd")


def test_a_tool_gets_a_private_copy_of_its_arguments():
    seen = []

    async def change(arguments):
        seen.append(dict(arguments))
        arguments["a"] = 9
        return ToolResponse()

    end = run(host(rewrite(a=2)).session().call(CALL, SPEC, change))

    assert seen == [{"a": 2}]
    assert end.outcome.executed.arguments == {"a": 2}


def test_a_handler_is_blamed_for_arguments_that_fit_no_more():
    end = run(host(rewrite(a="x")).session().call(CALL, SPEC, shown))

    assert end.status == "invalid_arguments"


def test_the_models_own_wrong_arguments_are_left_to_the_framework():
    wrong = ToolCall(id="c1", name="add", arguments={})

    end = run(host().session().call(wrong, SPEC, shown))

    assert end.status == "ok"


def test_a_check_of_the_framework_decides_about_arguments():
    end = run(host().session().call(CALL, SPEC, shown, check=lambda arguments: "too small"))

    assert (end.status, end.response.text) == ("invalid_arguments", "invalid arguments: too small")


@pytest.mark.parametrize("text", [" 5 ", "5.0", "05", "+5", "five"])
def test_a_text_in_place_of_a_number_is_no_way_round_a_rule(text):
    seen, ran = [], []
    forms = ToolCall(id="c1", name="add", arguments={"a": text})

    async def add(arguments):
        ran.append(arguments)
        return ToolResponse()

    watch = Handler(events.TOOL_CALL_BEFORE, lambda ctx: seen.append(ctx.value.arguments["a"]))
    end = run(host(watch).session().call(forms, SPEC, add, check=lambda arguments: None))

    # Of the frameworks, those on pydantic take each of these for 5.
    assert (end.status, ran) in [("invalid_arguments", []), ("ok", [{"a": 5}])]
    assert seen == [5] if ran else end.response.text.endswith("got text - at `$.a`")


@pytest.mark.parametrize(
    ("value", "schema", "place"),
    [
        ("5", {"type": "string"}, None),
        ("5", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, None),
        ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "$"),
        (["1", 2], {"items": {"type": "number"}}, "$[0]"),
        (
            {"a": {"b": "x"}},
            {"properties": {"a": {"properties": {"b": {"type": "boolean"}}}}},
            "$.a.b",
        ),
        ({"a": "x"}, {}, None),
        ("5", {"type": ["integer", "null"]}, "$"),
    ],
)
def test_a_text_for_a_number_has_its_place(value, schema, place):
    assert text_for_number(value, schema) == place


def test_a_handler_cannot_have_another_tool_run():
    other = ToolSpec(name="other")
    session = host(
        Handler(events.TOOL_CALL_BEFORE, lambda ctx: ToolCall(id="c1", name="other", arguments={}))
    ).session()

    async def call():
        await session.adapt_tools([SPEC, other])
        return await session.call(CALL, SPEC, shown)

    end = run(call())

    assert end.status == "error"
    assert "a handler changed the tool to 'other', and LangChain cannot" in end.response.text


def test_a_hidden_tool_is_unknown_without_a_list():
    hide = Handler(events.TOOLS_PROVIDE, lambda ctx: ())

    end = run(host(hide).session().call(CALL, SPEC, shown))

    assert end.status == "unknown_tool"


def test_a_call_without_a_tool_is_judged_and_names_the_known():
    ends = Ends()
    session = host(ends).session()

    async def call():
        await session.adapt_tools([SPEC])
        return await session.call(ToolCall(id="c1", name="nope", arguments={}), None, shown)

    end = run(call())

    assert end.response.text == "no tool named 'nope'; known tools: add"
    assert ends.ends == [("c1", "unknown_tool")]


def test_a_failed_tool_runs_again_only_by_an_idempotent_pattern():
    attempts = []

    async def flaky(arguments):
        attempts.append(arguments)
        if len(attempts) == 1:
            raise RuntimeError("not yet")
        return ToolResponse.from_text("ready")

    retry = Handler(events.TOOL_CALL_ERROR, lambda ctx: Retry())
    end = run(host(retry, idempotent=["a*"]).session().call(CALL, SPEC, flaky))

    assert (end.status, end.error, len(attempts)) == ("ok", None, 2)


def test_a_slow_tool_times_out():
    async def hang(arguments):
        await asyncio.Event().wait()

    end = run(host(timeout=0.01).session().call(CALL, SPEC, hang))

    assert end.status == "timeout"


@pytest.mark.parametrize(("answer", "status"), [(True, "ok"), (False, "denied"), (None, "denied")])
def test_the_framework_decides_a_question(answer, status):
    asked = []

    async def ask(question, call):
        asked.append((question.prompt, call.arguments))
        return answer

    end = run(host(judge(Ask("sure?"))).session().call(CALL, SPEC, shown, ask=ask))

    assert (end.status, asked) == (status, [("sure?", {"a": 1})])


def test_an_approval_cannot_be_stretched_to_changed_arguments():
    async def ask(question, call):
        dict.__setitem__(call.arguments, "a", 7)
        return True

    end = run(host(judge(Ask("sure?"))).session().call(CALL, SPEC, shown, ask=ask))

    assert (end.status, end.outcome.executed.arguments) == ("ok", {"a": 1})


def test_a_paused_call_has_no_end_until_it_is_repeated():
    ends, answers = Ends(), []

    async def ask(question, call):
        if not answers:
            raise PauseError(question.prompt)
        return answers[0]

    async def play():
        store = MemoryStore()
        first = host(judge(Ask("sure?")), ends, store=store).session("t")
        with pytest.raises(PauseError):
            await first.call(CALL, SPEC, shown, ask=ask)
        before = list(ends.ends)
        answers.append(True)
        end = await first.call(CALL, SPEC, shown, ask=ask)
        return before, end, await store.read("langchain-t")

    before, end, messages = run(play())

    assert before == []
    assert end.status == "ok"
    assert ends.ends == [("c1", "ok")]
    assert [message.role for message in messages] == ["assistant", "tool"]


def test_another_process_goes_on_with_a_paused_call():
    async def pause(question, call):
        raise PauseError

    async def approve(question, call):
        return True

    async def play():
        store = MemoryStore()
        with pytest.raises(PauseError):
            await host(judge(Ask("?")), store=store).session("t").call(CALL, SPEC, shown, ask=pause)
        later = host(judge(Ask("?")), store=store).session("t")
        end = await later.call(CALL, SPEC, shown, ask=approve)
        return end, await store.read("langchain-t")

    end, messages = run(play())

    assert end.status == "ok"
    assert [message.role for message in messages] == ["assistant", "tool"]


def test_an_answer_counts_only_for_the_call_that_was_shown():
    number = iter(range(10))

    def change(ctx):
        return ctx.value.with_arguments({"a": next(number)})

    async def pause(question, call):
        raise PauseError

    async def approve(question, call):
        return True

    async def play():
        session = host(
            Handler(events.TOOL_CALL_BEFORE, change), judge(Ask("?")), store=MemoryStore()
        ).session("t")
        with pytest.raises(PauseError):
            await session.call(CALL, SPEC, shown, ask=pause)
        return await session.call(CALL, SPEC, shown, ask=approve)

    end = run(play())

    assert (end.status, end.response.is_error) == ("denied", True)
    assert "a person must approve this call" in end.response.text


class Interrupts:
    """A framework that keeps each answer by the id of its call, which a model may repeat."""

    def __init__(self):
        self.shown, self.answers = [], {}

    async def ask(self, question, call):
        if call.id not in self.answers:
            self.shown.append(dict(call.arguments))
            raise PauseError
        return self.answers[call.id]


def runs(ran):
    async def tool(arguments):
        ran.append(dict(arguments))
        return ToolResponse()

    return tool


@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize("store", [None, MemoryStore])
def test_an_answer_is_used_once_for_calls_of_one_id(a, store):
    interrupts, ran = Interrupts(), []

    async def play():
        session = host(judge(Ask("?")), store=store and store()).session("t")
        with pytest.raises(PauseError):
            await session.call(CALL, SPEC, runs(ran), ask=interrupts.ask)
        interrupts.answers["c1"] = True
        await session.call(CALL, SPEC, runs(ran), ask=interrupts.ask)
        other = ToolCall(id="c1", name="add", arguments={"a": a})
        again = await session.call(other, SPEC, runs(ran), ask=interrupts.ask)
        await session.begin("a new run")
        interrupts.answers.clear()
        with pytest.raises(PauseError):
            await session.call(other, SPEC, runs(ran), ask=interrupts.ask)
        return again

    again = run(play())

    assert (again.status, ran, interrupts.shown) == ("denied", [{"a": 1}], [{"a": 1}, {"a": a}])


def test_a_question_that_the_framework_leaves_does_not_bind_the_next():
    async def leave(question, call):
        return None

    async def play():
        session = host(judge(Ask("?"))).session("t")
        return [(await session.call(CALL, SPEC, shown, ask=leave)).response.text for _ in "ab"]

    assert run(play()) == ["approval is needed, and no approver is available"] * 2


def test_parallel_calls_of_one_id_share_no_answer():
    interrupts, ran, ends = Interrupts(), [], Ends()
    other = ToolCall(id="c1", name="add", arguments={"a": 2})

    async def play():
        session = host(judge(Ask("?")), ends).session("t")
        for _ in range(2):
            calls = [session.call(c, SPEC, runs(ran), ask=interrupts.ask) for c in (CALL, other)]
            await asyncio.gather(*calls, return_exceptions=True)
            interrupts.answers["c1"] = True

    run(play())

    assert (ran, interrupts.shown) == ([{"a": 1}], [{"a": 1}])
    assert ends.ends == [("c1", "denied"), ("c1", "ok"), ("c1", "denied")]


def test_a_cancelled_call_leaves_no_answer_behind():
    interrupts, ran, entered = Interrupts(), [], asyncio.Event()

    async def hang(arguments):
        entered.set()
        await asyncio.Event().wait()

    async def play():
        session = host(judge(Ask("?"))).session("t")
        with pytest.raises(PauseError):
            await session.call(CALL, SPEC, hang, ask=interrupts.ask)
        interrupts.answers["c1"] = True
        task = asyncio.create_task(session.call(CALL, SPEC, hang, ask=interrupts.ask))
        await entered.wait()
        task.cancel()
        await asyncio.wait([task])
        return await session.call(CALL, SPEC, runs(ran), ask=interrupts.ask)

    assert (run(asyncio.wait_for(play(), 20)).status, ran) == ("denied", [])


def test_another_process_does_not_go_on_with_an_answered_call():
    class Forgetful(MemoryStore):
        async def swap_state(self, session_id, name, expected, new):
            return new is None or await super().swap_state(session_id, name, expected, new)

    async def play():
        store, interrupts = Forgetful(), Interrupts()
        with pytest.raises(PauseError):
            await (
                host(judge(Ask("?")), store=store)
                .session("t")
                .call(CALL, SPEC, shown, ask=interrupts.ask)
            )
        interrupts.answers["c1"] = True
        for _ in range(2):
            await (
                host(judge(Ask("?")), store=store)
                .session("t")
                .call(CALL, SPEC, shown, ask=interrupts.ask)
            )
        return await store.read("langchain-t")

    roles = [message.role for message in run(play())]

    assert roles == ["assistant", "tool", "assistant", "tool"]


def test_a_store_that_forgets_no_pause_keeps_the_result():
    class Failing(MemoryStore):
        async def swap_state(self, session_id, name, expected, new):
            if new is None:
                raise OSError("disk full")
            return await super().swap_state(session_id, name, expected, new)

    interrupts, ran = Interrupts(), []

    async def play():
        session = host(judge(Ask("?")), store=Failing()).session("t")
        with pytest.raises(PauseError):
            await session.call(CALL, SPEC, runs(ran), ask=interrupts.ask)
        interrupts.answers["c1"] = True
        return await session.call(CALL, SPEC, runs(ran), ask=interrupts.ask)

    assert (run(play()).status, ran) == ("ok", [{"a": 1}])


def test_a_call_that_paused_inside_its_tool_can_be_asked_about_later():
    async def pause(arguments):
        raise PauseError

    async def approve(question, call):
        return True

    async def play():
        store = MemoryStore()
        with pytest.raises(PauseError):
            await host(store=store).session("t").call(CALL, SPEC, pause, passes=(PauseError,))
        session = host(judge(Ask("?")), store=store).session("t")
        return await session.call(CALL, SPEC, shown, ask=approve)

    assert run(play()).status == "ok"


def test_a_pause_inside_the_tool_leaves_the_call_open():
    ends = Ends()

    async def pause(arguments):
        raise PauseError

    async def play():
        session = host(ends).session()
        with pytest.raises(PauseError):
            await session.call(CALL, SPEC, pause, passes=(PauseError,))
        before = list(ends.ends)
        await session.call(CALL, SPEC, shown, passes=(PauseError,))
        return before

    assert run(play()) == []
    assert ends.ends == [("c1", "ok")]


@pytest.mark.parametrize("stage", ["handler", "tool"])
def test_a_cancelled_call_ends_once_and_is_stored(stage):
    ends, entered = Ends(), asyncio.Event()

    async def hang(_):
        entered.set()
        await asyncio.Event().wait()

    async def play():
        store = MemoryStore()
        slow = [Handler(events.MESSAGE_APPEND_BEFORE, hang)] if stage == "handler" else []
        session = host(ends, *slow, store=store, session_id="s").session()
        task = asyncio.create_task(session.call(CALL, SPEC, hang))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [message.role for message in await store.read("s")]

    roles = run(asyncio.wait_for(play(), 20))

    assert [end for end in ends.ends if end[0] == "c1"] in ([], [("c1", "cancelled")])
    assert roles.count("assistant") == roles.count("tool")
    assert len(ends.ends) == roles.count("tool")


def test_a_handler_that_removes_the_call_denies_it():
    remove = Handler(
        events.MESSAGE_APPEND_BEFORE,
        lambda ctx: (
            AssistantMessage(id=ctx.value.id, content="no")
            if isinstance(ctx.value, AssistantMessage)
            else None
        ),
    )

    end = run(host(remove).session().call(CALL, SPEC, shown))

    assert (end.status, end.outcome) == ("denied", None)


def test_a_tool_runs_in_the_thread_that_calls():
    session = host(Redact()).session()
    names = []

    def show(arguments):
        names.append(threading.current_thread().name)
        return ToolResponse.from_text("secret")

    def ask(question, call):
        names.append(threading.current_thread().name)
        return True

    gated = host(judge(Ask("?"))).session()
    ends = [session.call_sync(CALL, SPEC, show), gated.call_sync(CALL, SPEC, show, ask=ask)]

    assert [end.status for end in ends] == ["ok", "ok"]
    assert set(names) == {threading.current_thread().name}


def test_errors_reach_the_thread_that_calls():
    def pause(arguments):
        raise PauseError

    with pytest.raises(PauseError):
        host().session().call_sync(CALL, SPEC, pause, passes=(PauseError,))


def test_prompts_and_answers_pass_handlers():
    async def play():
        store = MemoryStore()
        upper = Handler(
            events.MESSAGE_APPEND_BEFORE,
            lambda ctx: type(ctx.value)(id=ctx.value.id, content=ctx.value.text.upper()),
        )
        session = host(upper, store=store, session_id="s").session()
        texts = await session.begin("hello"), await session.finish("bye")
        return texts, [message.text for message in await store.read("s")]

    assert run(play()) == (("HELLO", "BYE"), ["HELLO", "BYE"])


@pytest.mark.parametrize("verdict", [Deny("not now"), Ask("may it?")])
def test_a_denied_prompt_is_an_error(verdict):
    ended = []

    class Runs(AgentComponent):
        @guard(events.RUN_BEFORE)
        def judge(self, ctx):
            return verdict

        @on(events.RUN_AFTER)
        def note(self, ctx):
            ended.append(ctx.value.status)

    with pytest.raises(PromptDenied, match=r"not now|no approver"):
        run(host(Runs()).session().begin("hello"))
    assert ended == ["denied"]


def test_a_sub_agents_calls_reach_the_handlers_above():
    scopes = []
    above = host(Handler(events.TOOL_CALL_BEFORE, lambda ctx: scopes.append(ctx.scope)))

    run(above.session_below(above.session("t"), "helper", "c9").call(CALL, SPEC, shown))

    (scope,) = scopes
    assert (scope.agent_id, scope.lineage) == ("helper", ("agent",))
    assert (scope.parent_session_id, scope.parent_call_id) == ("langchain-t", "c9")


@pytest.mark.parametrize("in_thread", [False, True])
def test_an_agent_in_a_tool_is_below_its_call(in_thread):
    bridge = host()
    inside = []

    async def delegate(arguments):
        return below(arguments)

    def below(arguments):
        inside.append(bridge.session_here("t2", "helper").scope)
        return ToolResponse()

    session = bridge.session("t1")
    if in_thread:
        session.call_sync(CALL, SPEC, below)
    else:
        run(session.call(CALL, SPEC, delegate))

    assert [(scope.agent_id, scope.parent_call_id) for scope in inside] == [("helper", "c1")]
    assert bridge.session_here("t2", "helper").scope.session_id == "langchain-t2"


def test_a_late_result_passes_the_handlers_of_results():
    session = host(Redact()).session()

    read = run(session.judge_result("c1", "add", ToolResponse.from_text("secret")))

    assert read.text == "***"


def test_a_late_result_that_is_denied_is_a_failure():
    deny = Handler(events.MESSAGE_APPEND_BEFORE, lambda ctx: Deny("not this"))

    read = run(host(deny).session().judge_result("c1", "add", ToolResponse.from_text("secret")))

    assert (read.text, read.is_error) == ("not this", True)


def test_a_component_that_tells_facts_holds_back_no_answer():
    class Labels(AgentComponent):
        @on(events.MESSAGE_APPEND_BEFORE)
        def label(self, ctx): ...

        async def facts_of(self, ctx): ...

    assert not host(Labels()).judges("assistant")


def test_judges_asks_for_handlers_of_a_role():
    answers = AgentComponent()
    answers.subscribe = lambda to: to.on(
        events.MESSAGE_APPEND_BEFORE, lambda ctx: None, roles=["assistant"]
    )

    bridge = host(answers)

    assert not host(Redact()).judges("assistant")
    assert bridge.judges("assistant")
    assert not bridge.judges("user")


def test_a_component_is_refused_that_cannot_work(caplog):
    class Watch(AgentComponent):
        @on(events.MODEL_CALL_BEFORE)
        def see(self, ctx): ...

    with pytest.raises(RegistrationError, match="Strands Agents cannot deliver model_calls"):
        BridgeHost("strands", [Watch()])
    BridgeHost("strands", [Watch()], partial=True)

    assert "handlers of requests to the model do not run" in caplog.text


def test_idle_sessions_are_closed_beyond_a_number():
    async def play():
        bridge = host(store=MemoryStore())
        for number in range(300):
            await bridge.session(str(number)).call(CALL, SPEC, shown)
        return len(bridge._sessions)

    assert run(play()) <= 257


def test_a_session_that_was_closed_as_idle_opens_again():
    async def play():
        store = MemoryStore()
        bridge = host(judge(Deny("no")), store=store)
        first = bridge.session("first")
        await first.call(CALL, SPEC, shown)
        for number in range(300):
            await bridge.session(str(number)).call(CALL, SPEC, shown)
        before = len(await store.records("langchain-first"))
        await first.call(CALL, SPEC, shown)
        await bridge.aclose()
        return before, len(await store.records("langchain-first"))

    before, after = run(play())

    assert after >= 2 * before - 1 > 1


def test_a_closed_bridge_lets_nothing_pass():
    ran = []

    async def play():
        bridge = host(judge(Deny("no")), Redact())
        session = bridge.session("t")
        await session.call(CALL, SPEC, shown)
        await bridge.aclose()
        await bridge.aclose()
        refused = [
            session.begin("hello"),
            session.answer("bye"),
            session.adapt_tools([SPEC]),
            session.call(CALL, SPEC, runs(ran)),
            bridge.session("t2").call(CALL, SPEC, runs(ran)),
            session.judge_result("c1", "add", ToolResponse.from_text("secret")),
        ]
        return await asyncio.gather(*refused, return_exceptions=True)

    errors = run(play())

    assert {str(error) for error in errors} == {
        "the bridge to LangChain is closed; make another one"
    }
    assert ran == []


def test_a_bridge_opens_and_closes_the_store_of_an_address(tmp_path):
    async def play():
        bridge = host(store=tmp_path / "calls.db")
        await bridge.session("t").call(CALL, SPEC, shown)
        await bridge.aclose()
        await bridge.aclose()
        with pytest.raises(ClosedError):
            await bridge.store.sessions()
        async with open_store(tmp_path / "calls.db") as store:
            return [session.id for session in await store.sessions()]

    assert run(play()) == ["langchain-t"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bus": 3}, "bus 3: expected an `EventBus`"),
        ({"timeout": -1}, "timeout -1: expected a positive number of seconds"),
        ({"idempotent": "add"}, "idempotent 'add': expected a list of patterns"),
    ],
)
def test_wrong_options_are_refused(options, reason):
    with pytest.raises(RegistrationError) as caught:
        host(**options)

    assert str(caught.value) == reason


def test_a_tool_that_closes_its_bridge_is_cancelled():
    closed = []

    class Resource(AgentComponent):
        async def close(self):
            closed.append("resource")

    async def play():
        bridge = host(ends := Ends(), Resource())

        async def close(arguments):
            await bridge.aclose()

        end = await bridge.session("t").call(CALL, SPEC, close)
        await bridge.aclose()
        await bridge.aclose()
        return end.status, ends.ends

    assert run(asyncio.wait_for(play(), 20)) == ("cancelled", [("c1", "cancelled")])
    assert closed == ["resource"]


def test_closing_a_bridge_ends_its_calls():
    ends = Ends()

    async def play():
        bridge, begun = host(ends, Redact()), asyncio.Event()

        async def hang(arguments):
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(bridge.session("t").call(CALL, SPEC, hang))
        await begun.wait()
        await bridge.aclose()
        return await task

    assert run(asyncio.wait_for(play(), 20)).status == "cancelled"
    assert ends.ends == [("c1", "cancelled")]


def test_a_call_in_another_thread_is_withheld_when_its_bridge_is_closed():
    begun, closed = threading.Event(), threading.Event()
    bridge, outcomes = host(Redact()), []

    def wait(arguments):
        begun.set()
        closed.wait(20)
        return ToolResponse.from_text("secret")

    def call():
        try:
            outcomes.append(bridge.session("t").call_sync(CALL, SPEC, wait).response.text)
        except BridgeError as error:
            outcomes.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait(20)
    run(bridge.aclose())
    closed.set()
    thread.join(20)

    assert len(outcomes) == 1
    assert "secret" not in outcomes[0]


def test_components_are_installed_once_for_all_loops():
    installed = []

    class Slow(AgentComponent):
        async def install(self, host):
            installed.append(host)
            await asyncio.sleep(0.05)

    bridge = host(Slow())
    threads = [threading.Thread(target=run, args=(bridge.ready(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(installed) == 1


def test_a_key_like_the_id_of_a_sub_agent_is_not_that_agent():
    bridge = host()
    below = bridge.session_below(bridge.session("t"), "helper", "c1")

    assert bridge.session("t/c1/helper").scope.agent_id == "agent"
    assert bridge.session_below(bridge.session("t"), "helper", "c1") is below


def test_a_long_key_is_cut_to_a_digest():
    bridge, key = host(), "x" * 1_000_000

    ids = {bridge.session(key + end).scope.session_id for end in ("", "a", "b\ud800")}

    assert len(ids) == 3
    assert max(map(len, ids)) < 300


@pytest.mark.parametrize(("failing", "status"), [(1, None), (2, "ok")])
def test_a_store_that_fails_lets_no_result_pass(failing, status):
    class Failing(MemoryStore):
        appends = 0

        async def append(self, session_id, request):
            self.appends += request.message is not None
            if self.appends == failing:
                raise OSError("disk full")
            return await super().append(session_id, request)

    ends, ran = Ends(), []

    async def play():
        with pytest.raises(StoreError):
            await host(ends, store=Failing()).session("t").call(CALL, SPEC, runs(ran))

    run(play())

    assert ends.ends == ([] if status is None else [("c1", status)])
    assert len(ran) == len(ends.ends)


def test_a_hanging_guard_ends_with_its_cancelled_call():
    ends, entered = Ends(), asyncio.Event()

    async def hang(ctx):
        entered.set()
        await asyncio.Event().wait()

    async def play():
        session = host(ends, Handler(events.TOOL_CALL_BEFORE, hang, "guard")).session()
        task = asyncio.create_task(session.call(CALL, SPEC, shown))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return session.is_busy

    assert run(asyncio.wait_for(play(), 20)) is False
    assert ends.ends == [("c1", "cancelled")]


def test_a_sync_call_inside_a_handler_of_one_is_refused():
    bridge = host()

    def ask_an_agent(ctx):
        bridge.session("judge").call_sync(CALL, SPEC, lambda arguments: ToolResponse())

    above = host(Handler(events.TOOL_CALL_BEFORE, ask_an_agent, "guard"))

    end = above.session().call_sync(CALL, SPEC, lambda arguments: ToolResponse())

    assert end.status == "denied"


def test_an_interrupted_thread_ends_its_call():
    ends, done = Ends(), threading.Event()
    seen = Handler(events.TOOL_CALL_AFTER, lambda ctx: done.set())

    def interrupt(arguments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        host(ends, seen).session().call_sync(CALL, SPEC, interrupt)

    assert done.wait(20)
    assert ends.ends == [("c1", "cancelled")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_a_loop_of_its_own():
    code = f"""
import os, sys
sys.path[:] = {sys.path!r}
from toolbus import ToolCall, ToolResponse, ToolSpec
from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.host import BridgeHost

session = BridgeHost("langchain").session()
call = lambda: session.call_sync(
    ToolCall(id="c", name="a", arguments={{}}), ToolSpec(name="a"), lambda _: ToolResponse()
)
call()
if (child := os.fork()) == 0:
    os._exit(0 if call().status == "ok" else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=30, check=False)

    assert done.returncode == 0


@pytest.mark.parametrize("store", [None, MemoryStore])
def test_many_waiting_sessions_cost_a_new_call_nothing(store):
    async def play():
        bridge, interrupts = host(judge(Ask("?")), store=store and store()), Interrupts()
        for number in range(1_000):
            with pytest.raises(PauseError):
                await bridge.session(str(number)).call(CALL, SPEC, shown, ask=interrupts.ask)
        interrupts.answers["c1"] = True
        first = await bridge.session("0").call(CALL, SPEC, shown, ask=interrupts.ask)
        return len(bridge._sessions), first.status

    number, status = run(play())

    assert status == "ok"
    assert number == (1_000 if store is None else 256)


def test_an_unknown_framework_is_refused():
    with pytest.raises(RegistrationError, match="langchain"):
        BridgeHost("langchian")
