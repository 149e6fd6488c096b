"""What becomes of a host's event on the bus, and what is kept of it."""

import asyncio
import json
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from plain_dialect import PlainDialect, told
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard, on
from toolbus.errors import AppendError, StoreError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    Ask,
    Deny,
)
from toolbus.hosts.run.chain import HookChain
from toolbus.hosts.run.event_log import HookStore
from toolbus.hosts.run.hook_sessions import HookSessions
from toolbus.messages.records import AssistantMessage, ToolMessage, ToolResponse, UserMessage
from toolbus.redaction.redact_secrets import RedactSecrets

SECRET = "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1Yc3Pd5Hf0Js8Gu2Q"[:36]


@asynccontextmanager
async def chain_of(tmp_path, *components, wait=0.0):
    async with (
        HookStore(tmp_path / "hooks.db") as store,
        HookChain(
            "plain", components, store, StoredApprovals(store=store, host="plain", wait=wait)
        ) as chain,
    ):
        await HookSessions(store).bind("plain:s1", "/work", None)
        yield chain


def event(kind, **payload):
    return {"kind": kind, "session_id": "s1", "folder": "/work", **payload}


async def handled(chain, payload, dialect=None, event_id=""):
    dialect = dialect or PlainDialect()
    kind = payload.pop("kind")
    session = await HookSessions(chain.store).read("plain:s1")
    made = await chain.handle(dialect.decode(kind, payload), dialect, session, event_id)
    return told(made)


def call(arguments=None, call_id="c1", name="shell"):
    return event("call", call={"id": call_id, "name": name, "arguments": arguments or {"a": "1"}})


def result(*texts, arguments=None, call_id="c1", failed=False):
    made = {"id": call_id, "name": "shell", "arguments": arguments or {"a": "1"}}
    return event("result", call=made, result=list(texts), **({"failed": True} if failed else {}))


class Recorder(AgentComponent):
    def __init__(self):
        super().__init__()
        self.seen = []

    @on(TOOL_CALL_AFTER)
    def ended(self, ctx):
        outcome = ctx.value
        self.seen.append((outcome.status, outcome.requested.id))


async def test_a_call_that_nobody_minds_goes_on(tmp_path):
    async with chain_of(tmp_path, Recorder()) as chain:
        assert await handled(chain, call()) == {}
        messages = await chain.store.read("plain:s1")
    assert [type(message) for message in messages] == [AssistantMessage]
    assert messages[0].tool_calls[0].id == "plain:s1/c1"


async def test_each_event_is_one_transaction(tmp_path):
    async with chain_of(tmp_path, Recorder()) as chain:
        counts = [chain.store.commits]
        for payload in (
            event("prompt", text="go"),
            call(),
            result("fine"),
            event("answer", text="x"),
        ):
            await handled(chain, payload)
            counts.append(chain.store.commits)
        messages = await chain.store.read("plain:s1")
    assert [later - earlier for earlier, later in pairwise(counts)] == [1] * 4
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]


async def test_rewriters_compose_in_their_order(tmp_path):
    class First(AgentComponent):
        @on(TOOL_CALL_BEFORE)
        def first(self, ctx):
            return ctx.value.merge_arguments({"a": ctx.value.arguments["a"] + "2"})

    class Second(AgentComponent):
        @on(TOOL_CALL_BEFORE)
        def second(self, ctx):
            return ctx.value.merge_arguments({"a": ctx.value.arguments["a"] + "3"})

    async with chain_of(tmp_path, First(), Second()) as chain:
        answer = await handled(chain, call())
    assert (answer["call"]["id"], answer["call"]["arguments"]) == ("c1", {"a": "123"})


class Minding(AgentComponent):
    def __init__(self, verdict):
        super().__init__()
        self.verdict = verdict

    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return self.verdict


async def test_a_denied_call_has_its_end_at_once(tmp_path):
    recorder = Recorder()
    async with chain_of(tmp_path, Minding(Deny("not that")), recorder) as chain:
        before = chain.store.commits
        assert await handled(chain, call()) == {"denied": "not that"}
        assert chain.store.commits == before + 1
        asked, answered = await chain.store.read("plain:s1")
    assert recorder.seen == [("denied", "plain:s1/c1")]
    assert (asked.id, answered.id) == ("plain:s1/c1-1", "plain:s1/c1-2")
    assert answered.text == "not that"


async def test_the_host_asks_where_it_can(tmp_path):
    async with chain_of(tmp_path, Minding(Ask("sure?"))) as chain:
        assert await handled(chain, call()) == {"asked": "sure?"}
        records = await chain.store.records("plain:s1")
    assert [record.outcome for record in records if record.event == "tool:call:before"] == ["asked"]


async def test_a_host_that_cannot_ask_denies_with_a_handle(tmp_path):
    async with chain_of(tmp_path, Minding(Ask("sure?"))) as chain:
        answer = await handled(chain, call(), PlainDialect(ask="no"))
        (question,) = await questions_of(chain.store, "plain:s1")
    assert f"question {question.id} waits" in answer["denied"]
    assert (question.prompt, question.call_id) == ("sure?", "plain:s1/c1")


async def test_an_event_that_is_handled_once_more_has_its_yes(tmp_path):
    cannot_ask = PlainDialect(ask="no")
    async with chain_of(tmp_path, Minding(Ask("sure?"))) as chain:
        await handled(chain, call(call_id="c0"), cannot_ask)
        (question,) = await questions_of(chain.store, "plain:s1")
        await answer(chain.store, question.id, question.digest, approve=True, by="ann")

        # As if the worker had been killed before it answered, and a child took the event.
        told_twice = [await handled(chain, call(), cannot_ask, "e1") for _ in range(2)]
        other_event = await handled(chain, call(), cannot_ask, "e2")
        other_call = await handled(chain, call({"a": "2"}), cannot_ask, "e1")
        await handled(chain, result("fine"))
        ended = await handled(chain, call(), cannot_ask, "e1")

        questions = {each.id: each.state for each in await questions_of(chain.store, "plain:s1")}
    assert told_twice == [{}, {}]
    assert all("waits" in each["denied"] for each in (other_event, other_call, ended))
    assert questions.pop(question.id) == "done"
    assert set(questions.values()) == {"pending"}


async def test_nobody_is_asked_about_what_a_handler_answered(tmp_path):
    class Answering(AgentComponent):
        @on(TOOL_CALL_BEFORE)
        def answer(self, ctx):
            return ToolResponse.from_text("from a cache")

    async with chain_of(tmp_path, Answering(), Minding(Ask("sure?"))) as chain:
        assert "waits" in (await handled(chain, call()))["denied"]
    async with chain_of(tmp_path, Answering()) as chain:
        assert await handled(chain, call(call_id="c2")) == {"denied": "from a cache"}


async def test_what_cannot_be_rewritten_does_not_run(tmp_path):
    class Rewriting(AgentComponent):
        @on(TOOL_CALL_BEFORE)
        def rewrite(self, ctx):
            return ctx.value.merge_arguments({"a": "2"})

    recorder = Recorder()
    async with chain_of(tmp_path, Rewriting(), recorder) as chain:
        answer = await handled(chain, call(), PlainDialect(rewrite_arguments="no"))
    assert "changed the arguments" in answer["denied"]
    assert recorder.seen == [("denied", "plain:s1/c1")]


async def test_another_tool_cannot_take_the_place_of_one(tmp_path):
    class Renaming(AgentComponent):
        @on(TOOL_CALL_BEFORE)
        def rename(self, ctx):
            import msgspec

            return msgspec.structs.replace(ctx.value, name="other")

    async with chain_of(tmp_path, Renaming()) as chain:
        assert "'other'" in (await handled(chain, call()))["denied"]


async def test_a_result_is_told_of_once_and_redacted(tmp_path):
    recorder = Recorder()
    async with chain_of(tmp_path, RedactSecrets(), recorder) as chain:
        await handled(chain, call())
        answer = await handled(chain, result(f"token={SECRET}"))
        again = await handled(chain, result(f"token={SECRET}"))
        messages = await chain.store.read("plain:s1")
    assert SECRET not in json.dumps(answer)
    assert "[github-pat-" in answer["response"]["content"][0]["text"]
    assert again["response"]["content"] == answer["response"]["content"]
    assert recorder.seen == [("ok", "plain:s1/c1")]
    assert [type(message) for message in messages] == [AssistantMessage, ToolMessage]
    assert SECRET.encode() not in b"".join(
        file.read_bytes() for file in tmp_path.iterdir() if file.is_file()
    )


async def test_a_failure_is_told_of_and_redacted(tmp_path):
    class Watching(AgentComponent):
        @on(TOOL_CALL_ERROR)
        def failed(self, ctx):
            failures.append(ctx.value.error_text)

    failures = []
    recorder = Recorder()
    async with chain_of(tmp_path, RedactSecrets(), recorder, Watching()) as chain:
        answer = await handled(chain, result(f"token={SECRET}", failed=True))
    assert SECRET not in json.dumps(answer)
    assert answer["response"]["is_error"]
    assert recorder.seen == [("error", "plain:s1/c1")]
    assert len(failures) == 1


async def test_a_result_without_a_call_brings_it_along(tmp_path):
    async with chain_of(tmp_path, Recorder()) as chain:
        assert await handled(chain, result("fine")) == {}
        messages = await chain.store.read("plain:s1")
    assert [message.role for message in messages] == ["assistant", "tool"]


async def test_what_cannot_be_replaced_stands_in_the_ledger(tmp_path):
    async with chain_of(tmp_path, RedactSecrets()) as chain:
        await handled(chain, call())
        answer = await handled(chain, result(f"token={SECRET}"), PlainDialect(replace_result="no"))
        records = await chain.store.records("plain:s1")
    assert answer == {}
    assert any("the model reads the original" in (record.reason or "") for record in records)


async def test_a_call_that_ran_although_denied_is_noted(tmp_path):
    async with chain_of(tmp_path, Minding(Deny("no")), RedactSecrets()) as chain:
        await handled(chain, call())
        answer = await handled(chain, result(f"token={SECRET}"))
        records = await chain.store.records("plain:s1")
        messages = await chain.store.read("plain:s1")
    assert SECRET not in json.dumps(answer)
    assert len(messages) == 2
    assert any("although it was denied" in (record.reason or "") for record in records)


async def test_a_refused_prompt_is_not_kept(tmp_path):
    class Refusing(AgentComponent):
        @guard(RUN_BEFORE)
        def refuse(self, ctx):
            return Deny("not today")

    async with chain_of(tmp_path, Refusing()) as chain:
        assert await handled(chain, event("prompt", text="go")) == {"denied": "not today"}
        assert await chain.store.read("plain:s1") == ()
        assert len(await chain.store.records("plain:s1")) == 1


async def test_a_prompt_that_would_be_changed_is_refused(tmp_path):
    async with chain_of(tmp_path, RedactSecrets(prompts=True)) as chain:
        answer = await handled(chain, event("prompt", text=f"use {SECRET}"))
        assert await chain.store.read("plain:s1") == ()
    assert "changed the prompt" in answer["denied"]
    assert SECRET not in answer["denied"]


class Enqueuing(AgentComponent):
    @on(TOOL_CALL_BEFORE)
    def tell(self, ctx):
        self.host.enqueue(f"use uv, not {SECRET}")


async def test_enqueued_text_is_context(tmp_path):
    async with chain_of(tmp_path, RedactSecrets(prompts=True), Enqueuing()) as chain:
        (text,) = (await handled(chain, call()))["context"]
        messages = await chain.store.read("plain:s1")
    assert text.startswith("use uv")
    assert SECRET not in text
    assert [type(message) for message in messages] == [AssistantMessage, UserMessage]


async def test_context_waits_for_an_event_that_carries_it(tmp_path):
    async with chain_of(tmp_path, RedactSecrets(), Enqueuing()) as chain:
        assert await handled(chain, call(), PlainDialect(add_context="no")) == {}
        kept = await HookSessions(chain.store).read("plain:s1")
        (text,) = (await handled(chain, result("fine")))["context"]
        assert (await HookSessions(chain.store).read("plain:s1")).context == ()
    assert kept.context == (text,)
    assert SECRET not in text


async def test_nothing_is_enqueued_outside_of_an_event(tmp_path):
    async with chain_of(tmp_path) as chain:
        with pytest.raises(AppendError):
            chain.enqueue("too late")


async def test_the_same_event_again_is_not_written_twice(tmp_path):
    async with chain_of(tmp_path, Minding(Deny("no"))) as chain:
        for _ in range(2):
            await handled(chain, call())
            await handled(chain, event("prompt", text="go"), event_id="e1")
        messages = await chain.store.read("plain:s1")
    assert [message.role for message in messages] == ["assistant", "tool", "user"]


async def test_a_sub_agent_has_its_session_below(tmp_path):
    scopes = []

    class Watching(AgentComponent):
        @on(TOOL_CALL_BEFORE)
        def watch(self, ctx):
            scopes.append(ctx.scope)

    async with chain_of(tmp_path, Watching()) as chain:
        await handled(chain, {**call(), "agent": "helper"})
    (scope,) = scopes
    assert (scope.agent_id, scope.lineage, scope.folder) == ("helper", ("plain",), "/work")
    assert (scope.session_id, scope.root_session_id) == ("plain:s1/helper", "plain:s1")
    # No host tells the call that runs it.
    assert (scope.parent_session_id, scope.parent_call_id) == ("plain:s1", "")


async def test_records_of_events_at_once_go_with_their_own(tmp_path):
    class Slow(AgentComponent):
        @on(TOOL_CALL_BEFORE)
        async def wait(self, ctx):
            waiting.append(ctx.value.id)
            if len(waiting) == 20:
                passed.set()
            await passed.wait()

    waiting, passed = [], asyncio.Event()
    async with chain_of(tmp_path, Slow()) as chain:
        payloads = [call(call_id=f"c{number}") for number in range(20)]
        await asyncio.gather(*[handled(chain, payload) for payload in payloads])
        messages = await chain.store.read("plain:s1")
        records = await chain.store.records("plain:s1")
    records = [record for record in records if record.event == "tool:call:before"]
    assert len(messages) == len(records) == 20
    assert sorted(message.id for message in messages) == sorted(f"{name}-1" for name in waiting)
    assert [f"{record.subject}-1" for record in records] == [message.id for message in messages]


async def test_what_cannot_be_kept_does_not_pass(tmp_path, monkeypatch):
    async with chain_of(tmp_path, Recorder()) as chain:

        async def full(*_):
            raise StoreError("hooks.db", "database or disk is full")

        monkeypatch.setattr(chain.store, "append_once", full)
        with pytest.raises(StoreError):
            await handled(chain, call())


async def test_a_message_that_no_handler_lets_in_denies_the_call(tmp_path):
    class Refusing(AgentComponent):
        @guard(MESSAGE_APPEND_BEFORE, roles="assistant")
        def refuse(self, ctx):
            return Deny("no calls")

    async with chain_of(tmp_path, Refusing()) as chain:
        assert await handled(chain, call()) == {"denied": "no calls"}
        assert await chain.store.read("plain:s1") == ()


async def test_results_without_ids_find_their_calls(tmp_path):
    async with chain_of(tmp_path, RedactSecrets()) as chain:
        for number in range(3):
            await handled(chain, call({"a": str(number)}, call_id=""), event_id=f"b{number}")
        await handled(chain, result("one", arguments={"a": "1"}, call_id=""), event_id="r1")
        await handled(chain, result("new", arguments={"a": "x"}, call_id=""), event_id="r2")
        await handled(chain, result("one", arguments={"a": "1"}, call_id=""), event_id="r1")
        messages = await chain.store.read("plain:s1")
    answers = [message for message in messages if isinstance(message, ToolMessage)]
    assert [(each.tool_call_id, each.text) for each in answers] == [
        ("plain:s1/b1-call", "one"),
        ("plain:s1/b0-call", "new"),
    ]
    assert len(messages) == 5


async def test_results_without_ids_at_once_are_all_kept(tmp_path):
    async with chain_of(tmp_path, RedactSecrets()) as chain:
        for number in range(5):
            await handled(chain, call(call_id=""), event_id=f"b{number}")
        results = [(result("same", call_id=""), f"r{number}") for number in range(5)]
        await asyncio.gather(*[handled(chain, each, event_id=name) for each, name in results])
        messages = await chain.store.read("plain:s1")
    assert len([message for message in messages if isinstance(message, ToolMessage)]) == 5


class Changing(AgentComponent):
    """A guard that asks; what a call is made of changes with each time that it is judged."""

    def __init__(self, changes):
        super().__init__()
        self._changes = iter(changes)

    @on(TOOL_CALL_BEFORE)
    def change(self, ctx):
        return next(self._changes)(ctx.value)

    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Ask("?")


def to(value):
    return lambda call: call.with_arguments({"a": value})


def in_place(value):
    return lambda call: dict.__setitem__(call.arguments, "a", value)


async def approve_next(chain, earlier=()):
    """Say yes to the first question that is not one of the *earlier*; return it."""
    while True:
        for question in await questions_of(chain.store, "plain:s1"):
            if question.id not in earlier and question.state == "pending":
                await answer(chain.store, question.id, question.digest, approve=True, by="ann")
                return question
        await asyncio.sleep(0)


async def test_a_host_runs_what_was_approved_last(tmp_path):
    async with chain_of(tmp_path, Changing([to("2"), to("3")]), wait=60) as chain:
        calling = asyncio.create_task(handled(chain, call(), PlainDialect(ask="no")))
        first = await approve_next(chain)
        second = await approve_next(chain, {first.id})
        told_host = await calling

    assert [each.arguments for each in (first, second)] == [{"a": "2"}, {"a": "3"}]
    assert told_host["call"]["arguments"] == {"a": "3"}


async def test_a_change_in_place_is_told_to_the_host(tmp_path):
    async with chain_of(tmp_path, Changing([in_place("2")] * 2), wait=60) as chain:
        calling = asyncio.create_task(handled(chain, call(), PlainDialect(ask="no")))
        question = await approve_next(chain)
        told_host = await calling

    assert question.arguments == {"a": "2"}
    assert told_host["call"]["arguments"] == {"a": "2"}
