"""The scenarios of `specs/transcript.md`."""

import asyncio
import logging
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from toolbus import (
    Agent,
    AssistantMessage,
    Deny,
    EventBus,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    tool,
)
from toolbus.errors import AppendError, MessageDenied, StoreError
from toolbus.events import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    RUN_AFTER,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
    TOOL_CALL_PERSIST_BEFORE,
)
from toolbus.messages import encode
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.fakes import Recorder, counting_ids

SECRET = "canary-8d1f7c"
ROLES = (
    SystemMessage(id="s", content="be brief"),
    UserMessage(id="u", content="hi", metadata={"a": 1}),
    AssistantMessage(
        id="a",
        content="well",
        reasoning="hm",
        usage={"out": 3},
        tool_calls=[ToolCall(id="c", name="read", arguments={"path": "x"})],
    ),
    ToolMessage(
        id="t",
        tool_call_id="c",
        tool_name="read",
        metadata={"b": 2},
        tool_response=ToolResponse(
            content=ToolResponse.from_text("found").content,
            structured={"n": 1},
            tool_name="read",
            tool_call_id="c",
            parameters={"path": "x"},
            duration_ns=7,
            metadata={"c": 3},
        ),
    ),
)
STEPS = (MESSAGE_APPEND_BEFORE, MESSAGE_PERSIST_BEFORE)
WAYS = ("single", "parallel", "direct", "sub-agent")
NAMES = {
    "good": "ok",
    "bad": "error",
    "slow": "timeout",
    "forbidden": "denied",
    "nothing": "unknown_tool",
}


@tool
async def good(text: str) -> str:
    return f"<{text}>"


@tool
async def bad(text: str) -> str:
    raise ValueError(text)


@tool(timeout=0.01)
async def slow(text: str) -> str:
    await asyncio.sleep(60)
    return text


@tool
async def forbidden(text: str) -> str:
    return text


def asks(*calls: tuple[str, str], message_id: str = "ask") -> AssistantMessage:
    """Return a message that asks for *calls*: pairs of call id and tool, with a text each."""
    return AssistantMessage(
        id=message_id,
        tool_calls=[ToolCall(id=id_, name=name, arguments={"text": id_}) for id_, name in calls],
    )


def forbid(ctx):
    return Deny("it is forbidden") if ctx.value.name == "forbidden" else None


async def make_calls(bus: EventBus, way: str) -> None:
    """Call each tool of NAMES, in one of WAYS, in agents on *bus*."""
    bus.guard(TOOL_CALL_BEFORE, forbid)
    tools = [good, bad, slow, forbidden]
    if way == "direct":
        async with Agent(ScriptedModel([]), tools=tools, bus=bus) as agent:
            for name in NAMES:
                await agent.call_tool(name, text=name)
        return
    pairs = [(f"call-{name}", name) for name in NAMES]
    answers = (
        [asks(*pairs)]
        if way == "parallel"
        else [asks(pair, message_id=f"ask-{pair[1]}") for pair in pairs]
    )
    agent = Agent(ScriptedModel([*answers, "done"]), tools=tools, bus=bus, agent_id="worker")
    if way == "sub-agent":
        asking = AssistantMessage(
            id="above",
            tool_calls=[ToolCall(id="down", name="worker", arguments={"prompt": "go"})],
        )
        model = ScriptedModel([asking, "all done"])
        async with agent, Agent(model, tools=[agent.as_tool("worker")], bus=bus) as above:
            await above.run("go")
    else:
        async with agent:
            await agent.run("go")


def ours(values: Iterable) -> list:
    """Return those of *values*, with their scopes, that are not the call of a sub-agent."""
    return [one for one in values if one.tool_name != "worker"]


class Watched(MemoryStore):
    """A store that awaits *on_append* before it writes."""

    def __init__(self, on_append) -> None:
        super().__init__()
        self._on_append = on_append

    async def append(self, session_id, stored) -> None:
        if stored.message is not None:
            await self._on_append(stored.message)
        await super().append(session_id, stored)


class Failing(MemoryStore):
    """A store that raises *errors*, one at each write, None for none."""

    def __init__(self, *errors) -> None:
        super().__init__()
        self._errors = iter(errors)

    async def append(self, session_id, stored) -> None:
        if stored.message is not None and (error := next(self._errors, None)) is not None:
            raise error
        await super().append(session_id, stored)


def agent_for(*answers, **options) -> Agent:
    """Return an agent with the session "s", a tool that finds, and a model that gives *answers*."""
    options.setdefault("tools", [good])
    options.setdefault("ids", counting_ids())
    return Agent(ScriptedModel(answers), session_id="s", agent_id="main", **options)


async def asked(store: MemoryStore | None = None) -> MemoryStore:
    """Return a *store* whose session "s" ends with the call that the last of ROLES answers."""
    store = store or MemoryStore()
    await MemoryStore.append(store, "s", AppendRequest(message=ROLES[2]))
    return store


async def test_a_tool_message_passes_every_step():
    seen = []

    async def write(message):
        seen.append(("store", len(agent.messages)))

    agent = agent_for(store=await asked(Watched(write)))
    for event in (
        MESSAGE_APPEND_AFTER,
        TOOL_CALL_PERSIST_AFTER,
        TOOL_CALL_PERSIST_BEFORE,
        MESSAGE_PERSIST_BEFORE,
        MESSAGE_APPEND_BEFORE,
    ):
        agent.on(event, lambda ctx: seen.append((ctx.event.name, len(agent.messages))))
    agent.guard(MESSAGE_APPEND_BEFORE, lambda _: seen.append(("guard", len(agent.messages))))

    await agent.append(ROLES[-1])

    assert seen == [
        ("message:append:before", 1),
        ("guard", 1),
        ("message:persist:before", 1),
        ("tool:call:persist:before", 1),
        ("store", 1),
        ("tool:call:persist:after", 2),
        ("message:append:after", 2),
    ]


async def test_other_roles_skip_the_tool_events():
    agent = agent_for()
    with Recorder(agent.bus) as recorder:
        for message in ROLES[:3]:
            await agent.append(message)

    assert recorder.names == 3 * [
        "message:append:before",
        "message:persist:before",
        "message:append:after",
    ]


async def test_an_append_returns_what_was_appended():
    agent = agent_for()
    agent.on(MESSAGE_APPEND_BEFORE, lambda ctx: replace(ctx.value, content="rewritten"))

    appended = await agent.append(UserMessage(id="u", content="hi"))

    assert appended == UserMessage(id="u", content="rewritten")
    assert agent.messages[0] is appended


async def test_the_appended_calls_run():
    agent = agent_for(asks(("1", "good"), ("2", "good")), "done")

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: ctx.value.id == "ask")
    def keep_one(ctx):
        last = ctx.value.tool_calls[-1].with_arguments({"text": "other"})
        return replace(ctx.value, tool_calls=[last])

    result = await agent.run("go")

    answers = [one for one in result.messages if isinstance(one, ToolMessage)]
    assert [(one.tool_call_id, one.text) for one in answers] == [("2", "<other>")]
    assert result.status == "ok"


async def test_the_text_is_in_one_place():
    agent = agent_for(store=(store := MemoryStore()))
    calls = [ToolCall(id=one, name="read") for one in ("c", "c2")]
    await agent.append(AssistantMessage(id="asks", tool_calls=calls))
    both = replace(ROLES[-1], content="old")
    alone = ToolMessage(id="t2", tool_call_id="c2", tool_name="read", content="kept")

    @agent.on(MESSAGE_APPEND_BEFORE)
    @agent.on(MESSAGE_PERSIST_BEFORE)
    def fill(ctx):
        return replace(ctx.value, content="kept")

    await agent.append(both)
    await agent.append(alone)

    answers = agent.messages[1:]
    assert [(one.content, one.text) for one in answers] == [("", "found"), ("kept", "kept")]
    assert await store.read("s") == tuple(agent.messages)


async def test_objects_other_than_messages_are_refused():
    agent = agent_for()
    await agent.append(ROLES[0])

    with pytest.raises(AppendError) as refused:
        await agent.append({"role": "user", "content": "hi"})
    with pytest.raises(AppendError) as refused_too:
        agent.enqueue({"role": "user", "content": "hi"})

    wanted = "text, a list of texts and parts, or a message"
    expected = f"append to session 's': expected {wanted}, not `dict`"
    assert [str(refused.value), str(refused_too.value)] == [expected, expected]
    assert len(agent.messages) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_persist_handlers_get_every_fact(way):
    bus = EventBus()
    with Recorder(bus) as recorder:
        await make_calls(bus, way)

    before = ours(recorder.values(TOOL_CALL_PERSIST_BEFORE))
    after = ours(recorder.values(TOOL_CALL_PERSIST_AFTER))
    assert [one.tool_name for one in after] == list(NAMES)
    assert before == [replace(one, tool_result=None) for one in after]
    messages = {one.id: one for one in recorder.values(MESSAGE_APPEND_AFTER)}
    scopes = {one.scope.session_id: one.scope for one in recorder.of(TOOL_CALL_AFTER)}
    for one in after:
        assert one.agent_id
        assert one.agent_id == scopes[one.session_key].agent_id
        assert one.tool_input["text"].endswith(one.tool_name)
        asking, answer = messages[one.message_id], messages[one.tool_message_id]
        assert one.tool_call_id in [call.id for call in asking.tool_calls]
        assert answer.tool_response == one.tool_result
        assert one.tool_result.text
    assert len({one.tool_call_id for one in after}) == len(NAMES)


async def test_the_input_is_as_executed():
    agent = agent_for(asks(("1", "good"), ("2", "forbidden")), "done", tools=[good, forbidden])
    agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"text": "rewritten"}))
    agent.guard(TOOL_CALL_BEFORE, forbid)
    recorder = Recorder(agent.bus)

    await agent.run("go")
    await agent.append(asks(("3", "good"), message_id="by hand"))
    await agent.append(ToolMessage(id="t", tool_call_id="3", tool_name="good", content="done"))

    facts = recorder.values(TOOL_CALL_PERSIST_AFTER)
    assert [one.tool_input for one in facts] == [
        {"text": "rewritten"},
        {"text": "2"},
        {"text": "3"},
    ]
    assert facts[2].tool_result == ToolResponse.from_text("done")
    assert facts[2].message_id == "by hand"


async def test_persist_handlers_run_one_by_one():
    seen = []

    async def write(message):
        seen.append("write")

    agent = agent_for(store=await asked(Watched(write)))

    def sync(name):
        return lambda ctx: seen.append(name)

    def slowly(name):
        async def handler(ctx):
            seen.append(f"{name} begins")
            await asyncio.sleep(0.001)
            seen.append(f"{name} ends")

        return handler

    agent.on(TOOL_CALL_PERSIST_BEFORE, slowly("1"))
    agent.on(TOOL_CALL_PERSIST_AFTER, slowly("4"))
    agent.on(TOOL_CALL_PERSIST_BEFORE, sync("2"))
    agent.on(TOOL_CALL_PERSIST_BEFORE, slowly("3"))
    agent.on(TOOL_CALL_PERSIST_AFTER, sync("5"))

    await agent.append(ROLES[-1])

    before = ["1 begins", "1 ends", "2", "3 begins", "3 ends"]
    assert seen == [*before, "write", "4 begins", "4 ends", "5"]


async def test_after_handlers_see_the_written_result():
    store = await asked()
    agent = agent_for(store=store)
    recorder = Recorder(agent.bus)
    agent.on(
        MESSAGE_PERSIST_BEFORE,
        lambda ctx: ctx.value.with_tool_response(ctx.value.tool_response.with_text("short")),
    )

    await agent.append(ROLES[-1])

    (after,) = recorder.values(TOOL_CALL_PERSIST_AFTER)
    _, stored = await store.read("s")
    assert after.tool_result.text == "short"
    assert after.tool_result == stored.tool_response
    assert agent.messages[1] == ROLES[-1]


async def test_a_failing_persist_handler_is_logged(caplog):
    agent, seen = agent_for(asks(("1", "good")), "done"), []

    def breaks(ctx):
        message = "no room"
        raise OSError(message)

    async def breaks_too(ctx):
        breaks(ctx)

    for event, handler in (
        (TOOL_CALL_PERSIST_BEFORE, breaks),
        (TOOL_CALL_PERSIST_AFTER, breaks_too),
    ):
        agent.on(event, handler)
        agent.on(event, lambda ctx: seen.append(ctx.event.name))

    result = await agent.run("go")

    logged = [(one.name, one.event, one.handler) for one in caplog.records]
    assert logged == [
        ("toolbus", "tool:call:persist:before", "breaks"),
        ("toolbus", "tool:call:persist:after", "breaks_too"),
    ]
    assert seen == ["tool:call:persist:before", "tool:call:persist:after"]
    assert [one.text for one in result.messages] == ["go", "", "<1>", "done"]


async def test_a_persist_handler_may_enqueue():
    agent = agent_for(asks(("1", "good"), ("2", "good")), "done")

    @agent.on(TOOL_CALL_PERSIST_AFTER)
    async def note(ctx):
        call_id = ctx.value.tool_call_id
        agent.enqueue(UserMessage(id=f"note-{call_id}", content=f"{call_id} is done"))

    result = await asyncio.wait_for(agent.run("go"), 60)

    texts = ["go", "", "<1>", "<2>", "1 is done", "2 is done", "done"]
    assert [one.text for one in result.messages] == texts


@pytest.mark.parametrize("event", [TOOL_CALL_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER])
async def test_a_persist_handler_cannot_append(event):
    agent, errors = agent_for(asks(("1", "good")), "done"), []

    @agent.on(event)
    async def note(ctx):
        with pytest.raises(AppendError) as refused:
            await agent.append(UserMessage(id="note", content="seen"))
        errors.append(str(refused.value))

    result = await asyncio.wait_for(agent.run("go"), 60)

    reason = "an append inside its own dispatch would wait for itself"
    assert errors == [f"append to session 's': {reason}; use `agent.enqueue(message)`"]
    assert [one.text for one in result.messages] == ["go", "", "<1>", "done"]


@pytest.mark.parametrize("way", WAYS)
async def test_the_result_handler_gets_every_fact(way):
    bus, seen = EventBus(), []

    @bus.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, ToolMessage))
    def hook(ctx):
        seen.append((ctx.value, ctx.scope))

    with Recorder(bus) as recorder:
        await make_calls(bus, way)

    seen = [(message, scope) for message, scope in seen if message.tool_name != "worker"]
    outcomes = {one.value.requested.id: one for one in recorder.of(TOOL_CALL_AFTER)}
    assert [message.tool_name for message, _ in seen] == list(NAMES)
    for message, scope in seen:
        response, name = message.tool_response, message.tool_name
        assert response.tool_name == name
        assert response.tool_call_id == message.tool_call_id
        assert response.parameters["text"].endswith(name)
        assert response.text
        assert response.is_error is (name != "good")
        assert response.duration_ns > 0
        outcome = outcomes[message.tool_call_id]
        assert outcome.value.status == NAMES[name]
        assert (scope.agent_id, scope.session_id) == (
            outcome.scope.agent_id,
            outcome.scope.session_id,
        )
        assert all([scope.agent_id, scope.session_id])
        assert bool(scope.lineage) is (way == "sub-agent")


async def test_the_handler_replaces_text_and_structure():
    store = MemoryStore()

    @tool
    async def count() -> dict[str, int]:
        return {"apples": 3}

    asking = AssistantMessage(id="ask", tool_calls=[ToolCall(id="1", name="count")])
    model = ScriptedModel([asking, "done"])
    agent = Agent(model, tools=[count], store=store, session_id="s")

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, ToolMessage))
    async def hook(ctx):
        new = replace(ctx.value.tool_response.with_text("three"), structured={"apples": 4})
        return ctx.value.with_tool_response(new)

    await agent.run("go")

    answer = model.requests[1].messages[-1]
    assert (answer.text, answer.tool_response.structured) == ("three", {"apples": 4})
    assert answer in await store.read("s")
    assert answer.tool_response.is_error is False


async def test_the_handler_denies_with_a_reason():
    model = ScriptedModel([asks(("1", "good")), "done"])
    agent = Agent(model, tools=[good])

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, ToolMessage))
    def hook(ctx):
        marked = replace(ctx.value, metadata={"seen": True})
        ctx.output = replace(marked, tool_response=replace(marked.tool_response, metadata={"x": 1}))
        return Deny("it is private", "for operators")

    result = await agent.run("go")

    answer = model.requests[1].messages[-1]
    response = answer.tool_response
    assert (answer.text, answer.content) == ("it is private", "")
    assert (response.is_error, response.error_type) == (True, "denied")
    assert (answer.tool_call_id, answer.tool_name) == ("1", "good")
    assert (response.tool_call_id, response.tool_name) == ("1", "good")
    assert response.parameters == {"text": "1"}
    assert response.duration_ns > 0
    assert (answer.metadata, response.metadata, response.structured) == ({}, {}, None)
    assert result.text == "done"


@pytest.mark.parametrize("way", WAYS)
async def test_the_order_of_steps_never_changes(way):
    bus = EventBus()
    with Recorder(bus) as recorder:
        await make_calls(bus, way)

    by_call: dict[str, list[str]] = {}
    for record in recorder.records:
        if record.call_id and record.event not in {"tool:call:before", "tool:call:error"}:
            by_call.setdefault(record.call_id, []).append(record.event)
    by_call.pop("down", None)
    assert list(by_call.values()) == len(NAMES) * [
        [
            "tool:call:after",
            "message:append:before",
            "message:persist:before",
            "tool:call:persist:before",
            "tool:call:persist:after",
            "message:append:after",
        ]
    ]


async def test_a_failing_handler_changes_nothing(caplog):
    agent = agent_for(asks(("1", "good")), "done")

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, ToolMessage))
    def hook(ctx):
        ctx.output = ctx.value.with_tool_response(ToolResponse.from_text("half"))
        message = "broken"
        raise RuntimeError(message)

    result = await agent.run("go")

    assert [one.text for one in result.messages] == ["go", "", "<1>", "done"]
    assert [(one.name, one.handler) for one in caplog.records] == [("toolbus", "hook")]


async def test_a_blocked_result_leaves_no_trace(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "toolbus")
    caplog.set_level(logging.DEBUG, "asyncio")

    @tool
    async def as_text() -> str:
        return f"it is {SECRET}"

    @tool
    async def as_structure() -> dict[str, dict[str, int]]:
        return {"key": {SECRET: 1}}

    @tool
    async def as_metadata() -> ToolResponse:
        return replace(ToolResponse.from_text("hidden"), metadata={"key": SECRET})

    @tool
    async def as_error() -> str:
        raise ValueError(SECRET)

    tools = [as_text, as_structure, as_metadata, as_error]
    asking = [
        AssistantMessage(
            id=f"ask-{turn}",
            tool_calls=[
                ToolCall(id=f"{turn}-{one.spec.name}", name=one.spec.name) for one in tools
            ],
        )
        for turn in range(2)
    ]
    model = ScriptedModel([asking[0], "done", asking[1], "done again"])
    path, guards = tmp_path / "store.db", []

    def judge(ctx):
        if isinstance(ctx.value, ToolMessage):
            if guards:
                raise ValueError(encode(ctx.value).decode())
            return Deny("it is private")
        return None

    async with SqliteStore(path) as store:
        async with Agent(model, tools=tools, store=store) as agent:
            agent.guard(MESSAGE_APPEND_BEFORE, judge)
            await agent.run("go")
            guards.append("raise")
            await agent.run("go on")
            messages, ledger = tuple(agent.messages), agent.ledger
            at_work = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        stored = await store.read(agent.scope.session_id)
        records = await store.records(agent.scope.session_id)
    on_disk = b"".join(file.read_bytes() for file in tmp_path.iterdir())

    bare = [record.without_details() for record in ledger]
    seen = encode([messages, bare, stored, records, model.requests]) + at_work + on_disk
    # A failed guard's error is told to operators, in the process alone.
    ours = [record for record in caplog.records if not hasattr(record, "handler")]
    logged = "".join(repr(vars(record)) for record in ours)
    details = [entry.detail for record in ledger for entry in record.entries if entry.detail]
    assert len([detail for detail in details if SECRET in detail]) == 4
    assert b"ask-1" in at_work
    assert SECRET.encode() not in seen
    assert SECRET not in logged
    texts = [one.text for one in stored if isinstance(one, ToolMessage)]
    assert texts == 4 * ["it is private"] + 4 * ["guard 'judge' raised an error"]
    assert len(ledger) > 0


async def test_a_denied_user_message_raises():
    store = MemoryStore()
    agent = agent_for("hello", store=store)
    recorder = Recorder(agent.bus)
    agent.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no people here", "detail"))

    with pytest.raises(MessageDenied) as denied:
        await agent.append(UserMessage(id="u", content="hi"))
    with pytest.raises(MessageDenied, match="no people here"):
        await agent.run("hi")

    assert str(denied.value) == "user message 'u' was denied: no people here"
    assert (denied.value.role, denied.value.message_id) == ("user", "u")
    assert denied.value.reason == "no people here"
    assert (len(agent.messages), await store.read("s")) == (0, ())
    (end,) = recorder.values(RUN_AFTER)
    assert (end.status, end.reason) == ("denied", "no people here")


async def test_a_denied_answer_is_not_appended():
    agent = agent_for("the password is 1234")

    @agent.guard(MESSAGE_APPEND_BEFORE)
    def no_passwords(ctx):
        return Deny("it had a password") if "password" in ctx.value.text else None

    result = await agent.run("tell me")

    assert (result.status, result.reason) == ("denied", "it had a password")
    assert (result.message, result.text) == (None, "")
    assert [one.text for one in agent.messages] == ["tell me"]
    assert b"1234" not in encode(result)


async def test_the_store_gets_a_separate_copy():
    store = MemoryStore()
    model = ScriptedModel([asks(("1", "good")), "done"])
    agent = Agent(model, tools=[good], store=store, session_id="s")

    @agent.on(MESSAGE_PERSIST_BEFORE, when=lambda ctx: isinstance(ctx.value, ToolMessage))
    async def shorten(ctx):
        await asyncio.sleep(0)
        return ctx.value.with_tool_response(ctx.value.tool_response.with_text("…"))

    await agent.run("go")

    stored = await store.read("s")
    assert model.requests[1].messages[-1].text == "<1>"
    assert [one.text for one in stored] == ["go", "", "…", "done"]
    assert [one.text for one in agent.messages] == ["go", "", "<1>", "done"]


async def test_a_denied_copy_is_a_stub():
    store = MemoryStore()
    agent = agent_for(store=store)
    agent.guard(MESSAGE_PERSIST_BEFORE, lambda ctx: Deny("not to be kept", "detail"))
    bare = ToolMessage(
        id="t2", tool_call_id="c2", tool_name="read", content="old", metadata={"a": 1}
    )

    asking = replace(ROLES[2], tool_calls=[*ROLES[2].tool_calls, ToolCall(id="c2", name="read")])
    messages = (*ROLES[:2], asking, ROLES[3], bare)
    for message in messages:
        await agent.append(message)

    assert tuple(agent.messages) == messages
    assert await store.read("s") == (
        SystemMessage(id="s", content="not to be kept"),
        UserMessage(id="u", content="not to be kept"),
        AssistantMessage(
            id="a",
            content="not to be kept",
            tool_calls=[ToolCall(id="c", name="read"), ToolCall(id="c2", name="read")],
        ),
        ToolMessage(
            id="t",
            tool_call_id="c",
            tool_name="read",
            tool_response=replace(
                ToolResponse.from_text("not to be kept"),
                tool_name="read",
                tool_call_id="c",
                duration_ns=7,
            ),
        ),
        ToolMessage(id="t2", tool_call_id="c2", tool_name="read", content="not to be kept"),
    )


async def test_a_copy_cannot_lose_calls():
    store = MemoryStore()
    agent = agent_for(asks(("1", "good"), ("2", "good")), "done", store=store)

    @agent.on(MESSAGE_PERSIST_BEFORE, when=lambda ctx: isinstance(ctx.value, AssistantMessage))
    def drop(ctx):
        return replace(ctx.value, content="shorter", tool_calls=ctx.value.tool_calls[1:])

    await agent.run("go")

    stored = await store.read("s")
    assert stored[1] == AssistantMessage(
        id="ask",
        content="handler 'drop' changed the calls of the stored message",
        tool_calls=[ToolCall(id="1", name="good"), ToolCall(id="2", name="good")],
    )
    assert stored[-1].text == "shorter"
    assert agent.messages[1] == asks(("1", "good"), ("2", "good"))


async def test_stubs_pair_when_read_back():
    store = MemoryStore()
    first = agent_for(asks(("1", "good"), ("2", "good")), "done", store=store)
    first.guard(MESSAGE_PERSIST_BEFORE, lambda ctx: Deny("not to be kept"))
    await first.run("go")
    model = ScriptedModel(["and on"])

    second = Agent(model, store=store, session_id="s", tools=[good])
    result = await second.run("go on")

    (request,) = model.requests
    assert [one.text for one in request.messages] == 5 * ["not to be kept"] + ["go on"]
    asked = [call.id for call in request.messages[1].tool_calls]
    assert asked == [one.tool_call_id for one in request.messages[2:4]] == ["1", "2"]
    assert len(result.messages) == 2


async def test_a_message_fails_the_next_enters():
    error = StoreError("disk", "it is full; make room and try again")
    store = Failing(error)
    agent = agent_for(store=store)
    recorder = Recorder(agent.bus)

    with pytest.raises(StoreError) as failed:
        await agent.append(UserMessage(id="1", content="hi"))
    at_once = tuple(agent.messages)
    names = recorder.names
    await agent.append(UserMessage(id="2", content="hi again"))

    assert failed.value is error
    assert at_once == ()
    assert names == ["message:append:before", "message:persist:before"]
    assert [one.id for one in agent.messages] == ["2"]
    assert await store.read("s") == tuple(agent.messages)


async def test_every_failure_is_a_store_error():
    error = ConnectionError("gone away")
    agent = agent_for(store=Failing(error))

    with pytest.raises(StoreError) as failed:
        await agent.append(UserMessage(id="1", content="hi"))

    expected = "store 's': ConnectionError: gone away; nothing was appended"
    assert str(failed.value) == expected
    assert failed.value.__cause__ is error
    assert len(agent.messages) == 0


async def test_a_lost_result_is_answered_later():
    runs = []

    @tool
    async def count(text: str) -> str:
        runs.append(text)
        return text

    # It is written together with the second one first, and then alone.
    errors = [StoreError("disk", "full"), StoreError("disk", "full")]
    store = Failing(None, None, *errors)
    agent = agent_for(asks(("1", "count"), ("2", "count")), "done", tools=[count], store=store)

    with pytest.raises(StoreError):
        await agent.run("go")
    first = [one.tool_call_id for one in agent.messages if isinstance(one, ToolMessage)]
    result = await agent.run("go on")

    assert first == ["2"]
    late = result.messages[0]
    assert (late.tool_call_id, late.text, late.tool_response.error_type) == ("1", "1", None)
    assert late.tool_response.parameters == {"text": "1"}
    assert [one.text for one in result.messages[1:]] == ["go on", "done"]
    assert await store.read("s") == tuple(agent.messages)
    assert sorted(runs) == ["1", "2"]


async def test_concurrent_appends_take_turns():
    store = MemoryStore()
    agent, steps = agent_for(store=store), []

    @agent.on(MESSAGE_PERSIST_BEFORE)
    @agent.on(MESSAGE_APPEND_BEFORE)
    async def suspend(ctx):
        steps.append(ctx.value.id)
        await asyncio.sleep(0)
        steps.append(ctx.value.id)

    messages = [UserMessage(id=str(n), content="hi") for n in range(20)]
    await asyncio.gather(*[agent.append(message) for message in messages])

    assert steps == [message.id for message in messages for _ in range(4)]
    assert list(agent.messages) == messages
    assert await store.read("s") == tuple(messages)


@pytest.mark.parametrize("event", [*STEPS, TOOL_CALL_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER])
async def test_an_append_inside_an_append_is_refused(event):
    agent, errors = agent_for(store=await asked()), []
    note = UserMessage(id="note", content="seen")

    @agent.on(event)
    async def append(ctx):
        for attempt in (agent.append(note), asyncio.create_task(agent.append(note))):
            with pytest.raises(AppendError, match=r"agent\.enqueue") as refused:
                await attempt
            errors.append(refused.value.session_id)

    await asyncio.wait_for(agent.append(ROLES[-1]), 60)

    assert errors == ["s", "s"]
    assert list(agent.messages) == [*ROLES[2:]]


async def test_an_observer_of_the_append_may_append():
    agent = agent_for()

    @agent.on(MESSAGE_APPEND_AFTER, when=lambda ctx: isinstance(ctx.value, UserMessage))
    async def note(ctx):
        text = f"noted: {ctx.value.text}"
        await agent.append(AssistantMessage(id=f"note-{ctx.value.id}", content=text))

    await asyncio.gather(
        *[agent.append(UserMessage(id=str(n), content=f"hi {n}")) for n in range(3)]
    )
    await agent.bus.drain()

    said = [f"hi {n}" for n in range(3)]
    assert [one.text for one in agent.messages if one.role == "user"] == said
    notes = [one.text for one in agent.messages if one.role == "assistant"]
    assert notes == [f"noted: {text}" for text in said]


async def test_a_task_left_behind_may_append():
    agent, over, tasks = agent_for(), asyncio.Event(), []

    async def later():
        await over.wait()
        for name in ("second", "third"):
            await agent.append(AssistantMessage(id=name, content=name))

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, UserMessage))
    async def leave(ctx):
        tasks.append(asyncio.create_task(later()))

    await agent.append(UserMessage(id="first", content="hi"))
    over.set()
    await asyncio.wait_for(tasks[0], 60)

    assert [one.id for one in agent.messages] == ["first", "second", "third"]


async def test_a_handler_may_append_elsewhere():
    first, second = agent_for(), Agent(ScriptedModel([]), session_id="2")
    errors = []

    @first.on(MESSAGE_APPEND_BEFORE)
    async def there(ctx):
        await second.append(replace(ctx.value, id="copy"))

    @second.on(MESSAGE_APPEND_BEFORE)
    async def and_back(ctx):
        with pytest.raises(AppendError) as refused:
            await first.append(replace(ctx.value, id="copy of the copy"))
        errors.append(refused.value.session_id)

    await asyncio.wait_for(first.append(UserMessage(id="1", content="hi")), 60)

    assert [one.id for one in first.messages] == ["1"]
    assert [one.id for one in second.messages] == ["copy"]
    assert errors == ["s"]


async def test_nothing_comes_between_call_and_answer():
    agent = agent_for()
    await agent.append(asks(("1", "good"), ("2", "good")))

    errors = []
    for call_id in ("1", "2"):
        with pytest.raises(AppendError) as refused:
            await agent.append(UserMessage(id="u", content="hi"))
        errors.append(str(refused.value))
        message = ToolMessage(id=f"t{call_id}", tool_call_id=call_id, tool_name="good")
        await agent.append(message)
    await agent.append(UserMessage(id="u", content="hi"))

    way_out = "use `agent.enqueue(message)`, it enters after them"
    assert errors == [
        f"append to session 's': {n} tool calls have no answer yet; {way_out}" for n in (2, 1)
    ]
    assert [one.id for one in agent.messages] == ["ask", "t1", "t2", "u"]


async def test_a_call_gets_one_answer():
    agent = agent_for(asks(("1", "good")), "done")
    await agent.run("go")

    refused = []
    for number, call_id in enumerate(("1", "9")):
        answer = ToolMessage(id=f"late-{number}", tool_call_id=call_id, tool_name="good")
        with pytest.raises(AppendError) as caught:
            await agent.append(answer)
        refused.append(caught.value.reason)

    assert refused == ["call '1' has its answer already", "call '9' was never made"]
    assert [one.text for one in agent.messages] == ["go", "", "<1>", "done"]


async def test_a_running_call_belongs_to_its_tool():
    errors = []

    @tool
    async def hasty(text: str) -> str:
        answer = ToolMessage(id="t", tool_call_id=text, tool_name="hasty", content="mine")
        with pytest.raises(AppendError) as caught:
            await agent.append(answer)
        errors.append(caught.value.reason)
        return "later"

    agent = agent_for(asks(("1", "hasty")), "done", tools=[hasty])
    await agent.run("go")

    assert errors == ["call '1' is running, and its tool will answer it"]
    assert [one.text for one in agent.messages] == ["go", "", "later", "done"]


async def test_a_message_id_is_unique():
    agent = agent_for()
    await agent.append(ROLES[1])
    other = UserMessage(id=ROLES[1].id, content="another")

    with pytest.raises(AppendError) as appended:
        await agent.append(other)
    with pytest.raises(AppendError) as enqueued:
        agent.enqueue(other)
    agent.enqueue(UserMessage(id="w", content="waits"))
    with pytest.raises(AppendError) as enqueued_twice:
        agent.enqueue(UserMessage(id="w", content="waits"))
    await agent.aclose()

    reason = "it has a message '{}' already; give each message an id of its own"
    given = [one.value.reason for one in (appended, enqueued, enqueued_twice)]
    assert given == [reason.format(id_) for id_ in ("u", "u", "w")]
    assert [one.text for one in agent.messages] == ["hi", "waits"]


@pytest.mark.parametrize(
    ("ids", "reason"),
    [(("x", "x"), "2 calls have the id 'x'"), (("x", ""), "the call of tool 'good' has no id")],
)
async def test_calls_of_a_message_are_distinct(ids, reason):
    calls = [ToolCall(id=one, name="good", arguments={"text": "t"}) for one in ids]
    agent = agent_for("done")

    with pytest.raises(AppendError) as caught:
        await agent.append(AssistantMessage(id="a", tool_calls=calls))

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, AssistantMessage))
    def double(ctx):
        return replace(ctx.value, tool_calls=calls)

    result = await agent.run("go")

    assert caught.value.reason == reason
    assert result.status == "denied"
    assert "double' made the message invalid: " + reason in result.reason
    assert [one.text for one in agent.messages] == ["go"]


async def test_a_call_id_is_unique():
    store = MemoryStore()
    first = agent_for("done", store=store, ids=counting_ids())
    await first.call_tool("good", text="t")
    (known,) = first.messages[0].tool_calls
    agent = agent_for(AssistantMessage(tool_calls=[replace(known, id="other")]), store=store)

    with pytest.raises(AppendError) as caught:
        await agent.append(AssistantMessage(id="a", tool_calls=[known]))
    with agent.on(MESSAGE_APPEND_BEFORE, lambda ctx: repeated(ctx.value, known), name="again"):
        result = await agent.run("go")
    other = agent_for("done", store=store, ids=counting_ids())
    outcome = await other.call_tool("good", text="t")

    reason = f"call {known.id!r} was made already; give each call an id of its own"
    assert caught.value.reason == reason
    assert (result.status, result.reason) == (
        "denied",
        f"handler 'again' made the message invalid: {reason}",
    )
    assert (outcome.status, outcome.requested.id == known.id) == ("ok", False)
    answered = [one.tool_call_id for one in other.messages if isinstance(one, ToolMessage)]
    assert answered == [known.id, outcome.requested.id]


def repeated(message, call):
    """Return *message* with *call* in place of its own, None if it has none."""
    return replace(message, tool_calls=[call]) if getattr(message, "tool_calls", ()) else None


@pytest.mark.parametrize("event", [*STEPS, TOOL_CALL_PERSIST_BEFORE])
async def test_cancellation_before_the_write_appends_nothing(event):
    store = await asked()
    agent, there = agent_for(store=store), asyncio.Event()

    async def hang(ctx):
        there.set()
        await asyncio.Event().wait()

    with agent.on(event, hang):
        append = asyncio.create_task(agent.append(ROLES[-1]))
        await there.wait()
        append.cancel()
        with pytest.raises(asyncio.CancelledError):
            await append
    before = len(agent.messages), await store.read("s")
    await agent.append(ROLES[-1])

    assert before == (1, ROLES[2:3])
    assert list(agent.messages) == [*ROLES[2:]]


async def test_a_started_write_is_finished():
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def write(message):
        writing.set()
        await go_on.wait()

    store = await asked(Watched(write))
    agent = agent_for(store=store)
    recorder = Recorder(agent.bus)

    append = asyncio.create_task(agent.append(ROLES[-1]))
    await writing.wait()
    for _ in range(2):
        append.cancel()
        await asyncio.sleep(0)
        assert not append.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await append

    assert list(agent.messages) == [*ROLES[2:]]
    assert await store.read("s") == ROLES[2:]
    assert recorder.names[-2:] == ["tool:call:persist:after", "message:append:after"]


@pytest.mark.parametrize("message", ROLES, ids=lambda one: one.role)
async def test_cancellation_keeps_store_and_transcript_equal(message):
    async def write(message):
        await asyncio.sleep(0)

    async def suspend(ctx):
        await asyncio.sleep(0)

    outcomes = set()
    for steps in range(100):
        store = Watched(write)
        if isinstance(message, ToolMessage):
            await asked(store)
        before = await store.read("s")
        agent = agent_for(store=store)
        recorder = Recorder(agent.bus)
        for event in (*STEPS, TOOL_CALL_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER):
            agent.on(event, suspend)

        append = asyncio.create_task(agent.append(message))
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = append.cancel()
        await asyncio.wait({append})

        stored = await store.read("s")
        assert stored in {tuple(agent.messages), before}
        written = stored != before
        assert written is (len(agent.messages) > len(before))
        assert ("message:append:after" in recorder.names) is written
        outcomes.add((append.cancelled(), written))
        if not cancelled:
            break

    assert outcomes == {(True, False), (True, True), (False, True)}


async def test_a_view_does_not_grow():
    agent = agent_for()
    await agent.append(ROLES[0])
    view = agent.messages

    await agent.append(ROLES[1])

    assert (len(view), list(view), view[-1]) == (1, [ROLES[0]], ROLES[0])
    assert len(agent.messages) == 2
    assert repr(view) == "<Messages: 1>"


async def test_a_view_reads_like_a_list():
    agent = agent_for()
    for message in ROLES[:3]:
        await agent.append(message)
    view, same = agent.messages, list(ROLES[:3])

    await agent.append(ROLES[3])

    assert (view[0], view[-1], view[1:], view[::-1]) == (
        same[0],
        same[-1],
        tuple(same[1:]),
        tuple(same[::-1]),
    )
    assert view == same
    assert view == tuple(same)
    assert view != agent.messages
    assert view != 3
    assert same[1] in view
    for index in (3, -4):
        with pytest.raises(IndexError):
            view[index]
    with pytest.raises(TypeError):
        view[0] = same[1]
    with pytest.raises(TypeError):
        hash(view)
