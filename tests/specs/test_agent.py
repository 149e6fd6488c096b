"""The scenarios of `specs/agent.md`."""

import asyncio
import gc
import re
import sys
import weakref
from contextlib import aclosing, suppress

import pytest
from msgspec.structs import replace

from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    ImagePart,
    SystemMessage,
    TextPart,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    ToolResponse,
    Toolset,
    UserMessage,
    on,
    tool,
)
from toolbus.errors import (
    AppendError,
    ClosedError,
    HandlerError,
    LoopRunningError,
    MessageDenied,
    ModelError,
    RegistrationError,
    RunStatusError,
    StoreError,
)
from toolbus.events import (
    CATALOGUE,
    MCP_REQUEST_BEFORE,
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    RUN_AFTER,
    RUN_BEFORE,
    RUN_ERROR,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
    TOOL_CALL_PERSIST_BEFORE,
    TOOLS_PROVIDE,
    ModelDelta,
    RunResult,
    RunStart,
    TurnEnd,
)
from toolbus.messages import encode
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.fakes import Recorder, counting_ids
from toolbus.tools import ToolContext

WANTED = "expected text, a list of texts and parts, or a message"
# Only to end a test that has failed already.
SECONDS = 60
ENTERING = (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
)


@tool
async def echo(text: str) -> str:
    return f"<{text}>"


def asks(*call_ids: str, name: str = "echo", **facts) -> AssistantMessage:
    """Return a message that calls a tool once for each of *call_ids*, with the id as its text."""
    made = [ToolCall(id=one, name=name, arguments={"text": one}) for one in call_ids]
    return AssistantMessage(id=f"ask-{'-'.join(call_ids)}", tool_calls=made, **facts)


def delegates(*calls: tuple[str, str], name: str = "worker") -> AssistantMessage:
    """Return a message that gives tasks to a sub-agent: pairs of call id and prompt."""
    made = [ToolCall(id=one, name=name, arguments={"prompt": prompt}) for one, prompt in calls]
    return AssistantMessage(id="delegate", tool_calls=made)


def agent_for(*answers, **options) -> Agent:
    """Return an agent in the session "s" whose model gives *answers*."""
    options.setdefault("session_id", "s")
    options.setdefault("agent_id", "main")
    return Agent(ScriptedModel(answers), tools=options.pop("tools", [echo]), **options)


def texts(messages) -> list[str]:
    return [one.text for one in messages]


def is_paired(messages) -> bool:
    """Tell whether the answers of every message's calls follow it at once, each one once."""
    waiting: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = {call.id for call in message.tool_calls}
    return not waiting


def collects(agent, event):
    """Return the list that the values of the observe event *event* will be in."""
    values = []
    agent.on(event, lambda ctx: values.append(ctx.value))
    return values


def collects_starts(agent) -> list[RunStart]:
    """Return the list that the beginnings of runs will be in."""
    starts = []
    agent.on(RUN_BEFORE, lambda ctx: starts.append(ctx.value))
    return starts


def said(ctx) -> str | None:
    """Return the text that the call in *ctx* has for `echo`."""
    return ctx.value.arguments.get("text")


def tool_call_of(value):
    """Return the id of the call whose result enters with *value*, or None."""
    return getattr(value, "tool_call_id", None)


class Sluggish(MemoryStore):
    """A store that suspends before and after each write."""

    async def append(self, session_id, stored) -> None:
        await asyncio.sleep(0)
        await super().append(session_id, stored)
        await asyncio.sleep(0)


class Failing(MemoryStore):
    """A store that fails to write the messages with the texts *failing*, each once."""

    def __init__(self, *failing: str) -> None:
        super().__init__()
        self._failing = list(failing)

    async def append(self, session_id, stored) -> None:
        if stored.message is not None and stored.message.text in self._failing:
            self._failing.remove(stored.message.text)
            raise StoreError("disk", "it is full; make room and try again")
        await super().append(session_id, stored)


class Held:
    """A model whose answers wait until it is released."""

    name = "held"

    def __init__(self) -> None:
        self.asked, self.release = asyncio.Event(), asyncio.Event()

    async def complete(self, request):
        self.asked.set()
        await self.release.wait()
        return AssistantMessage(id="late", content="at last")

    async def stream(self, request):
        yield ModelDelta(kind="text", text="at ")
        yield await self.complete(request)


async def test_a_run_ends_with_the_answer():
    model = ScriptedModel([asks("1"), asks("2", "3"), "done"])
    agent = Agent(model, tools=[echo])
    recorder = Recorder(agent.bus)

    result = await agent.run("go")

    assert (result.status, result.text, result.turns, result.reason) == ("ok", "done", 3, None)
    assert result.message is result.messages[-1]
    assert texts(result.messages) == ["go", "", "<1>", "", "<2>", "<3>", "done"]
    assert [texts(one.messages) for one in model.requests] == [
        ["go"],
        ["go", "", "<1>"],
        ["go", "", "<1>", "", "<2>", "<3>"],
    ]
    assert recorder.values(RUN_AFTER) == [result]
    assert recorder.names[-1] == "run:after"


async def test_usage_is_summed():
    agent = agent_for(
        asks("1", usage={"in": 10, "out": 2, "cost": 0.5}),
        asks("2", usage={"in": 12, "cached": 7, "fast": True}),
        AssistantMessage(id="bad", content="never say this", usage={"in": 14, "out": 3}),
    )
    agent.guard(
        MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no") if "never" in ctx.value.text else None
    )

    result = await agent.run("go")

    assert result.status == "denied"
    assert result.usage == {"in": 36, "out": 5, "cached": 7}


async def test_a_result_has_its_own_messages():
    agent = agent_for("one", asks("1"), "two")
    await agent.run("first")

    result = await agent.run("second")

    assert texts(result.messages) == ["second", "", "<1>", "two"]
    assert len(agent.messages) == 6


async def test_a_prompt_may_have_parts():
    image = ImagePart(data="aGk=", mime_type="image/png")
    parts = (TextPart(text="what is this?"), image)
    whole = UserMessage(id="u-1", content=parts, metadata={"from": "ada"})
    agent = agent_for(*"12345", tools=[])
    starts = collects_starts(agent)

    await agent.run(["what is this?", image])
    await agent.run(whole)
    _ = [piece async for piece in agent.stream(parts)]
    appended = await agent.append(["what is this?", image])
    agent.enqueue(replace(whole, id="u-2"))
    await agent.run("and?")

    questions = [one for one in agent.messages if isinstance(one, UserMessage)]
    assert [one.content for one in questions] == [parts, parts, parts, parts, parts, "and?"]
    assert (questions[1], questions[3], questions[4].id) == (whole, appended, "u-2")
    assert [one.prompt for one in starts] == [parts, parts, parts, "and?"]
    assert [one.text for one in starts] == ["what is this?"] * 3 + ["and?"]


async def test_an_invalid_prompt_is_refused():
    agent = agent_for("done")
    recorder = Recorder(agent.bus)
    answer = AssistantMessage(id="a", content="x")

    problems = []
    for prompt in (7, b"x", [], ["x", {"type": "text"}], {"role": "user"}, answer):
        with pytest.raises(AppendError) as caught:
            await agent.run(prompt)
        problems.append(caught.value.reason.removeprefix(f"{WANTED}, "))
        with pytest.raises(AppendError):
            await anext(agent.stream(prompt))
    with pytest.raises(AppendError, match="expected text, a list of texts and parts, or a messag"):
        await agent.append(7)

    assert problems == [
        "not `int`",
        "not `bytes`",
        "not an empty list",
        "but one item is `dict`",
        "not `dict`",
        "not a message of role 'assistant'; `agent.append(message)` takes any role",
    ]
    assert recorder.records == []
    assert (await agent.run("go")).text == "done"


async def test_too_many_turns_end_the_run():
    agent = agent_for(*[asks(str(n)) for n in range(9)], max_turns=3)
    recorder = Recorder(agent.bus)

    result = await agent.run("go")

    assert (result.status, result.turns) == ("max_turns", 3)
    assert result.reason == "no final answer after 3 turns"
    assert recorder.values(RUN_AFTER) == [result]
    assert is_paired(agent.messages)


async def test_the_context_is_in_every_scope():
    agent = agent_for(asks("1"), "done", "done again")

    with Recorder(agent.bus) as first:
        await agent.run("go", context={"user": "ada", "tags": ["x"]})
    with Recorder(agent.bus) as second:
        await agent.run("go on")

    scopes = [one.scope for one in first.records]
    (run_id,) = {one.run_id for one in scopes}
    assert {(one.agent_id, one.session_id, one.lineage) for one in scopes} == {("main", "s", ())}
    assert all(one.context == {"user": "ada", "tags": ("x",)} for one in scopes)
    turns = [one.scope.turn for one in first.records if one.event == "message:append:before"]
    assert turns == [0, 1, 1, 2]
    assert [one.scope.turn for one in first.of(TOOL_CALL_AFTER)] == [1]
    assert [one.scope.turn for one in first.of(MODEL_CALL_AFTER)] == [1, 2]
    assert run_id not in {one.scope.run_id for one in second.records} | {""}
    assert {one.scope.context for one in second.records} == {agent.scope.context}


async def test_the_system_message_comes_first():
    ran, appended = [agent_for("one", "two", system="be brief") for _ in range(2)]

    await ran.run("go")
    await ran.run("go on")
    await asyncio.gather(
        *[appended.append(UserMessage(id=name, content=name)) for name in ("x", "y")]
    )
    await appended.run("go")

    assert texts(ran.messages) == ["be brief", "go", "one", "go on", "two"]
    assert texts(appended.messages) == ["be brief", "x", "y", "go", "one"]
    assert isinstance(ran.messages[0], SystemMessage)


async def test_settings_reach_the_model():
    model = ScriptedModel(["done"], name="clever")
    agent = Agent(model, tools=[echo], model_settings={"temperature": 0})

    await agent.run("go")

    (request,) = model.requests
    assert (request.model, request.settings) == ("clever", {"temperature": 0})
    assert request.tools == (echo.spec,)


async def test_one_run_at_a_time():
    model, errors = Held(), []
    agent = Agent(model, session_id="s")

    @agent.on(MODEL_CALL_BEFORE)
    async def inside(ctx):
        with pytest.raises(AppendError) as refused:
            await agent.run("inside")
        errors.append(str(refused.value))

    first = asyncio.create_task(agent.run("go"))
    await model.asked.wait()
    with pytest.raises(AppendError) as refused:
        await agent.run("outside")
    model.release.set()
    result = await first

    way_out = "wait for its end, or use `agent.enqueue(message)`"
    expected = f"append to session 's': a run is in progress; {way_out}"
    assert [*errors, str(refused.value)] == [expected, expected]
    assert texts(result.messages) == ["go", "at last"]


async def test_a_denied_run_reaches_no_model():
    model = ScriptedModel(["done"])
    agent = Agent(model, system="be brief")
    agent.guard(RUN_BEFORE, lambda ctx: Deny("not on Sundays", "detail"))
    recorder = Recorder(agent.bus)

    result = await agent.run("go")

    assert (result.status, result.reason, result.turns) == ("denied", "not on Sundays", 0)
    assert (result.message, result.text, result.messages) == (None, "", ())
    assert (model.requests, list(agent.messages)) == ([], [])
    assert recorder.names == ["run:before", "run:after"]
    assert recorder.values(RUN_AFTER) == [result]


async def test_a_result_has_the_reason_of_its_end():
    agent = agent_for("done", asks("1"), max_turns=1)
    denying = agent_for()
    denying.guard(RUN_BEFORE, lambda ctx: Deny("not today"))

    fine, late = await agent.run("go"), await agent.run("go")
    denied = await denying.run("go")
    errors = []
    for result in (denied, late):
        with pytest.raises(RunStatusError) as caught:
            result.raise_for_status()
        errors.append((str(caught.value), caught.value.status))

    assert fine.raise_for_status() is fine
    assert [str(one) for one in (fine, denied, late)] == [
        "done",
        "denied: not today",
        "max_turns: no final answer after 1 turns",
    ]
    assert errors == [
        ("the run ended as 'denied': not today", "denied"),
        ("the run ended as 'max_turns': no final answer after 1 turns", "max_turns"),
    ]


async def test_a_run_may_need_approval():
    asked = []

    def approve(ask, call, scope):
        asked.append((ask, call, scope.session_id))
        return True

    async def refuse(ask, call, scope):
        return False

    results = []
    for approver in (approve, refuse, None):
        agent = agent_for("done", approver=approver)
        agent.guard(RUN_BEFORE, lambda ctx: Ask(f"may it {ctx.value.prompt}?"))
        results.append(await agent.run("go"))

    assert [(one.status, one.reason) for one in results] == [
        ("ok", None),
        ("denied", "approval was refused"),
        ("denied", "approval is needed, and no approver is available"),
    ]
    assert asked == [(Ask("may it go?"), None, "s")]


async def test_the_prompt_may_be_rewritten():
    agent = agent_for("done", "done")
    agent.on(RUN_BEFORE, lambda ctx: replace(ctx.value, prompt=ctx.value.text.upper()))
    message = UserMessage(id="u-1", content="on", metadata={"from": "ada"})

    result = await agent.run("go")
    second = await agent.run(message)

    assert texts(result.messages) == ["GO", "done"]
    assert second.messages[0] == replace(message, content="ON")


async def test_a_handler_may_answer_for_the_model():
    model, answer = ScriptedModel([]), AssistantMessage(id="cached", content="from the cache")
    agent = Agent(model)
    agent.on(MODEL_CALL_BEFORE, lambda ctx: answer)
    agent.on(MESSAGE_APPEND_BEFORE, lambda ctx: replace(ctx.value, metadata={"seen": True}))

    result = await agent.run("go")

    assert model.requests == []
    assert result.message == replace(answer, metadata={"seen": True})
    assert agent.messages[-1] is result.message


async def test_replies_are_observed_as_given():
    agent = Agent(ScriptedModel(["a secret", "bad", "a secret"]))
    given, let_in = [], []
    agent.on(MODEL_CALL_AFTER, lambda ctx: given.append(ctx.value.message.text))
    agent.on(MESSAGE_APPEND_AFTER, lambda ctx: let_in.append(ctx.value.text), roles="assistant")

    def conceal(ctx):
        return ctx.value.with_text(ctx.value.text.replace("secret", "[gone]"))

    agent.on(MESSAGE_APPEND_BEFORE, conceal, roles="assistant")
    agent.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no") if "bad" in ctx.value.text else None)

    await agent.run("go")
    denied = await agent.run("go")
    streamed = [item async for item in agent.stream("go")]

    assert given == ["a secret", "bad", "a secret"]
    assert let_in == ["a [gone]"] * 2
    assert denied.status == "denied"
    assert "secret" not in str(streamed)


async def test_a_denied_request_ends_the_run():
    agent = agent_for(asks("1"), "done")
    agent.guard(
        MODEL_CALL_BEFORE,
        lambda ctx: Deny("enough") if len(ctx.value.messages) > 1 else None,
    )

    result = await agent.run("go")

    assert (result.status, result.reason, result.turns) == ("denied", "enough", 2)
    assert texts(result.messages) == ["go", "", "<1>"]
    assert result.message == asks("1")


async def test_denied_tools_are_not_offered():
    model = ScriptedModel([asks("1"), "done"])
    agent = Agent(model, tools=[echo])
    agent.guard(TOOLS_PROVIDE, lambda ctx: Deny("no tools today"))

    result = await agent.run("go")

    assert [one.tools for one in model.requests] == [(), ()]
    assert result.messages[2].text == "no tool named 'echo'; known tools: none"
    assert result.messages[2].tool_response.error_type == "unknown_tool"


async def test_a_tool_not_sent_cannot_run():
    ran = []

    @tool
    async def secret(text: str) -> str:
        ran.append(text)
        return text

    model = ScriptedModel([asks("1", name="secret"), "done"])
    agent = Agent(model, tools=[echo, secret])
    agent.on(MODEL_CALL_BEFORE, lambda ctx: replace(ctx.value, tools=ctx.value.tools[:1]))

    result = await agent.run("go")

    assert ran == []
    assert result.messages[2].text == "no tool named 'secret'; known tools: echo"


async def test_a_failing_model_may_be_answered():
    model = ScriptedModel([ConnectionError("gone away")])
    agent, seen = Agent(model), []

    @agent.on(MODEL_CALL_ERROR)
    def rescue(ctx):
        seen.append(ctx.value)
        return AssistantMessage(id="sorry", content="I am not well")

    result = await agent.run("go")

    (failure,) = seen
    assert (failure.error_type, failure.error_text) == ("ConnectionError", "gone away")
    assert [failure.request] == model.requests
    assert (result.status, result.text) == ("ok", "I am not well")


async def test_a_failing_model_reaches_the_caller():
    error = ConnectionError("gone away")
    agent = agent_for(asks("1"), error, "back again")
    recorder = Recorder(agent.bus)

    with pytest.raises(ConnectionError) as raised:
        await agent.run("go")
    result = await agent.run("go on")

    assert raised.value is error
    failed, ended = recorder.values(RUN_AFTER)
    assert (failed.status, failed.reason) == ("error", "ConnectionError: gone away")
    assert texts(failed.messages) == ["go", "", "<1>"]
    assert (ended, result.text) == (result, "back again")
    assert is_paired(agent.messages)


async def test_a_failing_run_may_be_answered():
    agent, seen = agent_for(ConnectionError("gone away")), []
    answer = RunResult(status="error", reason="try again tomorrow")
    recorder = Recorder(agent.bus)

    @agent.on(RUN_ERROR)
    def rescue(ctx):
        seen.append(ctx.value)
        return answer

    result = await agent.run("go")

    (failure,) = seen
    assert (failure.error_type, failure.error_text) == ("ConnectionError", "gone away")
    assert (failure.start.prompt, failure.start.messages) == ("go", ())
    assert result is answer
    assert recorder.values(RUN_AFTER) == [answer]


async def test_a_denied_recovery_lets_errors_leave():
    agent = agent_for(ConnectionError("gone away"))
    agent.on(MODEL_CALL_ERROR, lambda ctx: AssistantMessage(id="sorry", content="sorry"))
    agent.on(RUN_ERROR, lambda ctx: RunResult(status="ok"))
    agent.guard(MODEL_CALL_ERROR, lambda ctx: Deny("no excuses"))
    agent.guard(RUN_ERROR, lambda ctx: Deny("no excuses"))

    with pytest.raises(ConnectionError, match="gone away"):
        await agent.run("go")

    assert texts(agent.messages) == ["go"]


async def test_pieces_come_before_the_result():
    script = [asks("1"), "one two three"]
    agent, other = agent_for(*script, ids=counting_ids()), agent_for(*script, ids=counting_ids())
    recorder = Recorder(agent.bus)

    *given, result = [piece async for piece in agent.stream("go", context={"user": "ada"})]

    pieces = [piece for piece in given if isinstance(piece, ModelDelta)]
    assert [(one.kind, one.text) for one in pieces] == [
        ("tool_call", '{"text":"1"}'),
        ("text", "one "),
        ("text", "two "),
        ("text", "three"),
    ]
    assert recorder.values(MODEL_CALL_DELTA) == pieces
    assert {one.scope.context["user"] for one in recorder.records} == {"ada"}
    expected = await other.run("go")
    assert texts(result.messages) == texts(expected.messages)
    assert (result.status, result.turns) == (expected.status, expected.turns)


async def test_a_stream_left_early_ends():
    closed = []

    class Flowing(Held):
        async def stream(self, request):
            try:
                yield ModelDelta(kind="text", text="at ")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                closed.append(True)

    model = Flowing()
    agent = Agent(model)
    recorder = Recorder(agent.bus)

    async with aclosing(agent.stream("go")) as pieces:
        async for piece in pieces:
            assert piece.text == "at "
            break
    model.release.set()
    result = await agent.run("go on")

    assert closed == [True]
    assert [one.status for one in recorder.values(RUN_AFTER)] == ["cancelled", "ok"]
    assert texts(agent.messages) == ["go", "go on", "at last"]
    assert result.text == "at last"


async def test_an_error_leaves_the_stream():
    error = ConnectionError("gone away")

    class Breaking(Held):
        async def stream(self, request):
            yield ModelDelta(kind="text", text="at ")
            raise error

    agent, pieces = Agent(Breaking()), []

    async def stream():
        async for piece in agent.stream("go"):
            pieces.append(piece)  # noqa: PERF401 - a comprehension would lose them to the error

    with pytest.raises(ConnectionError) as raised:
        await stream()

    assert raised.value is error
    assert [(piece.kind, piece.text) for piece in pieces] == [("text", "at "), ("void", "")]


def test_observers_see_each_sync_run(tmp_path):
    seen = []
    store = SqliteStore(tmp_path / "store.db")
    agent = agent_for(asks("1"), "one", "two", "three", store=store)

    @agent.on(RUN_AFTER)
    async def observe(ctx):
        await asyncio.sleep(0.001)
        assert ctx.scope.context["prompt"] == ctx.value.messages[0].text
        seen.append(ctx.value.text)

    results = []
    for prompt in ("a", "b", "c"):
        results.append(agent.run_sync(prompt, context={"prompt": prompt}))
        assert len(seen) == len(results)
    asyncio.run(agent.aclose())
    stored = asyncio.run(store.read("s"))
    asyncio.run(store.close())

    assert seen == texts(results) == ["one", "two", "three"]
    assert list(stored) == list(agent.messages)
    assert texts(stored) == ["a", "", "<1>", "one", "b", "two", "c", "three"]


def test_another_loop_may_take_over():
    agent, seen = agent_for(*"abcde", approver=lambda *_: True), []
    agent.guard(RUN_BEFORE, lambda ctx: Ask("may it?"))

    @agent.on(MESSAGE_APPEND_AFTER)
    async def observe(ctx):
        seen.append(ctx.value.text)

    async def twice():
        results = [await agent.run("2"), await agent.run("3")]
        await agent.bus.drain()
        return results

    results = [agent.run_sync("1"), *asyncio.run(twice()), agent.run_sync("4")]
    results.append(asyncio.run(agent.run("5")))

    assert texts(results) == list("abcde")
    assert seen[:8] == texts(agent.messages)[:8]


def test_a_program_calls_a_tool_synchronously(tmp_path):
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    seen, store = [], SqliteStore(tmp_path / "store.db")
    agent = agent_for("fine", tools=[double], store=store)
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("no") if ctx.value.arguments["number"] else None)

    @agent.on(TOOL_CALL_AFTER)
    async def observe(ctx):
        await asyncio.sleep(0.001)
        seen.append(ctx.value)

    outcomes = [agent.call_tool_sync("double", number=0)]
    agent.run_sync("go")
    outcomes.append(agent.call_tool_sync("double", {"number": 1}))
    stored = asyncio.run(store.read("s"))
    asyncio.run(store.close())

    assert [(one.status, one.response.text) for one in outcomes] == [("ok", "0"), ("denied", "no")]
    assert seen == outcomes
    assert list(stored) == list(agent.messages)
    assert texts(stored) == ["", "0", "go", "fine", "", "no"]


async def test_a_running_loop_refuses_sync_methods():
    agent = agent_for("done")

    with pytest.raises(LoopRunningError) as refused:
        agent.run_sync("go")
    with pytest.raises(LoopRunningError) as refused_too:
        agent.call_tool_sync("echo")
    result = await agent.run("go")

    way_out = "use `await agent.run(prompt)`"
    assert str(refused.value) == f"an event loop is already running; {way_out}"
    assert str(refused_too.value).endswith("use `await agent.call_tool(name)`")
    assert result.text == "done"


def test_a_single_run_is_observed():
    def observed(*answers, slow=True, **options):
        agent, seen = agent_for(*answers, **options), []

        async def observe(ctx):
            await asyncio.sleep(0.01 if slow else SECONDS)
            seen.append(ctx.event.name)

        for event in (TOOL_CALL_AFTER, RUN_AFTER):
            agent.on(event, observe)
        return agent, seen

    async def streamed(agent):
        return [piece async for piece in agent.stream("go")]

    async def inside(agent):
        async with asyncio.timeout(SECONDS / 2):
            await agent.__aenter__()
            return await agent.run("go")

    ends, answers = ["tool:call:after", "run:after"], (asks("c1"), "done")
    plain, seen = observed(*answers)
    assert asyncio.run(plain.run("go")).text == "done"
    assert seen == ends
    streaming, seen = observed(*answers)
    asyncio.run(streamed(streaming))
    assert seen == ends
    failing, seen = observed(asks("c1"), ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        asyncio.run(failing.run("go"))
    assert seen == ends
    stuck, seen = observed(*answers, slow=False, grace=0.02)
    assert asyncio.run(stuck.run("go")).text == "done"
    entered, seen_inside = observed(*answers, slow=False)
    assert asyncio.run(inside(entered)).text == "done"
    assert seen == seen_inside == []


@pytest.mark.parametrize("event", ENTERING, ids=lambda event: event.name)
def test_a_closed_loop_leaves_the_agent_usable(event, monkeypatch):
    noise = []
    monkeypatch.setattr(sys, "unraisablehook", noise.append)
    agent = agent_for(asks("c1", "c2"), "done", "well")
    told, loop = collects(agent, TOOL_CALL_AFTER), asyncio.new_event_loop()

    async def hang(ctx):
        if tool_call_of(ctx.value):
            loop.stop()
            await asyncio.Event().wait()

    with agent.on(event, hang):
        run = loop.create_task(agent.run("go"))
        loop.run_forever()
    loop.close()
    result = asyncio.run(agent.run("on"))
    del run
    gc.collect()

    assert result.status == "ok"
    assert is_paired(agent.messages)
    assert [(one.requested.id, one.status) for one in told] == [("c1", "ok"), ("c2", "ok")]
    assert noise == []


async def test_an_enqueued_message_waits_its_turn():
    @tool
    async def remember(text: str) -> str:
        agent.enqueue(UserMessage(id=f"note-{text}", content=f"note {text}"))
        return text

    agent = agent_for(asks("1", "2", name="remember"), "one", "two", tools=[remember])
    agent.enqueue(UserMessage(id="early", content="early"))

    await agent.run("go")
    agent.enqueue(UserMessage(id="between", content="between"))
    await agent.run("go on")

    said = ["early", "go", "", "1", "2", "note 1", "note 2", "one", "between", "go on", "two"]
    assert texts(agent.messages) == said


async def test_an_enqueued_message_is_not_lost():
    store = Failing("note")
    agent = agent_for("done", store=store)
    for text in ("first", "note", "last"):
        agent.enqueue(UserMessage(id=text, content=text))

    with pytest.raises(StoreError):
        await agent.run("go")
    await agent.run("go")

    assert texts(agent.messages) == ["first", "note", "last", "go", "done"]
    assert await store.read("s") == tuple(agent.messages)


async def test_a_cancelled_run_keeps_enqueued_messages():
    notes = [UserMessage(id=text, content=text) for text in ("first", "second")]
    for steps in range(200):
        agent = agent_for("one", "two", store=Sluggish())
        for note in notes:
            agent.enqueue(note)
        run = asyncio.create_task(agent.run("go"))
        for _ in range(steps):
            await asyncio.sleep(0)
        ended = not run.cancel()
        await asyncio.wait({run})

        await agent.run("go on")

        kept = [one for one in agent.messages if one in notes]
        assert kept == notes
        if ended:
            break

    assert ended


async def test_a_denied_enqueued_message_is_logged(caplog):
    agent = agent_for("done")
    agent.guard(
        MESSAGE_APPEND_BEFORE, lambda ctx: Deny("too rude") if ctx.value.id == "1" else None
    )
    for name in ("1", "2"):
        agent.enqueue(UserMessage(id=name, content=name))

    await agent.run("go")

    assert texts(agent.messages) == ["2", "go", "done"]
    logged = [(one.name, one.levelname, one.getMessage()) for one in caplog.records]
    assert logged == [("toolbus", "WARNING", "enqueued user message '1' was denied: too rude")]


def test_an_enqueued_message_has_no_tool_calls():
    agent = agent_for()

    with pytest.raises(AppendError) as refused:
        agent.enqueue(asks("1"))
    agent.enqueue(AssistantMessage(id="a", content="just saying"))

    reason = "its tool calls would never run; use `agent.call_tool(name, arguments)`"
    assert str(refused.value) == f"append to session 's': {reason}"


def test_a_run_may_have_deps():
    seen = []

    @tool
    async def look(text: str, context: ToolContext[str]) -> None:
        seen.append(context.deps)

    async def streams(agent, **options):
        async for _ in agent.stream("go", **options):
            pass

    def made(**options):
        asking = [asks(str(n), name="look") for n in range(5)]
        answers = [one for ask in asking for one in (ask, "done")]
        return agent_for(*answers, tools=[look], **options)

    agent = made(deps="agent")
    agent.run_sync("go")
    agent.run_sync("go", deps="run")
    asyncio.run(streams(agent))
    asyncio.run(streams(agent, deps="stream"))
    asyncio.run(agent.run("go", deps=None))
    asyncio.run(agent.call_tool("look", text="x"))
    made().run_sync("go", deps="only of the run")

    assert seen == ["agent", "run", "agent", "stream", None, "agent", "only of the run"]


class Unspeakable:
    """What nobody may look into."""

    def refuse(self, *_):
        raise AssertionError

    __getattr__ = __repr__ = __str__ = __eq__ = __hash__ = __reduce_ex__ = __bool__ = refuse
    __copy__ = __deepcopy__ = refuse


async def test_deps_are_stored_nowhere(tmp_path):
    deps, held = Unspeakable(), []

    @tool
    async def look(text: str, context: ToolContext[Unspeakable]) -> str:
        held.append(context.deps is deps)
        return "looked"

    path = tmp_path / "agent.db"
    store = SqliteStore(path)
    agent = agent_for(
        asks("1", name="look"), "done", tools=[look], store=store, deps=deps, keep_originals=True
    )
    recorder = Recorder(agent.bus)
    agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"text": "2"}))
    await agent.run("go", deps=deps)
    await agent.aclose()
    await store.close()

    assert held == [True]
    assert recorder.names.count("tool:call:after") == 1
    assert b"Unspeakable" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


async def test_a_direct_call_keeps_history_paired():
    @tool
    async def add(x: int, y: int = 0, name: str = "") -> str:
        return f"{name}{x + y}"

    agent = agent_for(tools=[add], system="be brief", ids=counting_ids())
    agent.enqueue(UserMessage(id="note", content="note"))

    outcome = await agent.call_tool("add", {"x": 1, "y": 5}, y=2, name="sum ")

    assert (outcome.status, outcome.response.text) == ("ok", "sum 3")
    system, asking, answer, note = agent.messages
    assert (system.text, note.text) == ("be brief", "note")
    assert asking == AssistantMessage(id=asking.id, tool_calls=[outcome.requested])
    assert outcome.requested.arguments == {"x": 1, "y": 2, "name": "sum "}
    assert (answer.tool_call_id, answer.tool_response) == (outcome.requested.id, outcome.response)
    assert (await agent.call_tool("add", {"x": 1})).response.text == "1"


async def test_a_direct_call_refuses_a_running_session():
    model = Held()
    agent = Agent(model, tools=[echo])

    run = asyncio.create_task(agent.run("go"))
    await model.asked.wait()
    with pytest.raises(AppendError, match="a run is in progress"):
        await agent.call_tool("echo", text="x")
    model.release.set()
    result = await run

    assert texts(result.messages) == ["go", "at last"]


async def test_a_removed_direct_call_is_an_error():
    agent = agent_for("done")
    recorder = Recorder(agent.bus)

    with (
        agent.on(MESSAGE_APPEND_BEFORE, lambda ctx: replace(ctx.value, tool_calls=())),
        pytest.raises(MessageDenied) as denied,
    ):
        await agent.call_tool("echo", text="x")

    reason = "a handler removed the call"
    assert (denied.value.role, denied.value.reason) == ("assistant", reason)
    assert recorder.of(TOOL_CALL_BEFORE) == []
    assert (await agent.run("go")).text == "done"


async def test_an_added_call_runs():
    agent = agent_for()
    extra = ToolCall(id="extra", name="echo", arguments={"text": "more"})

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: isinstance(ctx.value, AssistantMessage))
    def add(ctx):
        return replace(ctx.value, tool_calls=[extra, *ctx.value.tool_calls])

    outcome = await agent.call_tool("echo", text="x")

    assert outcome.response.text == "<x>"
    assert texts(agent.messages) == ["", "<more>", "<x>"]


class Marking(AgentComponent):
    """Marks the results of its agent with its mark."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self.mark, self.scopes = mark, []
        self.register_tool_adapter(Marker(mark))

    @on(MESSAGE_APPEND_AFTER)
    def note(self, ctx):
        self.scopes.append(ctx.scope)


class Marker(ToolAdapter):
    """Puts a mark before texts."""

    tools = ("echo",)

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def adapt_response(self, response, call):
        return response.with_text(f"{self._mark}{response.text}")


async def test_two_agents_never_mix():
    bus, heard, agents, components = EventBus(), [], [], []
    recorder = Recorder(bus)
    for name in ("left", "right"):
        component = Marking(name[0])
        agent = Agent(
            ScriptedModel([asks("1"), asks("2"), "done"]),
            tools=[echo],
            bus=bus,
            agent_id=name,
            session_id=f"{name}-session",
            components=[component],
            store=Sluggish(),
        )
        agent.on(TOOL_CALL_BEFORE, lambda ctx, name=name: heard.append((name, ctx.scope.agent_id)))
        agents.append(agent)
        components.append(component)

    results = await asyncio.gather(*[agent.run(agent.scope.agent_id) for agent in agents])

    order = [one.scope.agent_id for one in recorder.records]
    assert order != sorted(order)
    for agent, component, result in zip(agents, components, results, strict=True):
        name = agent.scope.agent_id
        marked = [f"{name[0]}<1>", f"{name[0]}<2>"]
        assert texts(result.messages) == [name, "", marked[0], "", marked[1], "done"]
        assert {one.agent_id for one in component.scopes} == {name}
        assert {one.scope.session_id for one in agent.ledger} == {f"{name}-session"}
    ours = {(one.scope.agent_id, one.scope.session_id) for one in recorder.records}
    assert ours == {("left", "left-session"), ("right", "right-session")}
    assert sorted(heard) == [("left", "left")] * 2 + [("right", "right")] * 2


async def test_one_bus_has_one_agent_per_id():
    bus, heard = EventBus(), []

    class Watch(AgentComponent):
        def __init__(self, mark):
            self.mark = mark

        @on(RUN_BEFORE)
        def look(self, ctx):
            heard.append((self.mark, ctx.scope.agent_id))

    def make(number, bus=bus):
        options = {"agent_id": "clerk", "components": [Watch(number)]}
        return Agent(ScriptedModel(["hi"]), bus=bus, **options)

    first = make(1)
    before = bus.handlers(RUN_BEFORE)
    with pytest.raises(RegistrationError) as refused:
        make(2)
    assert refused.value.what == "agent 'clerk'"
    assert "another agent on this bus has that id" in refused.value.reason
    assert "give it another `agent_id` or bus, or close the other" in refused.value.reason
    assert bus.handlers(RUN_BEFORE) == before
    elsewhere = make(3, EventBus())

    await first.run("go")
    await elsewhere.run("go")
    await first.aclose()
    second = make(4)
    await second.run("go")
    del second
    third = make(5)
    await third.run("go")

    assert heard == [(number, "clerk") for number in (1, 3, 4, 5)]
    await third.aclose()
    await elsewhere.aclose()


async def test_a_caller_s_handlers_reach_its_sub_agents():
    bus = EventBus()
    below = Agent(ScriptedModel([asks("1", "no"), "found"]), tools=[echo], bus=bus, agent_id="sub")
    above = Agent(
        ScriptedModel([delegates(("down", "look")), "done"]),
        tools=[below.as_tool("worker")],
        components=[Marking("!")],
        bus=bus,
        agent_id="top",
        session_id="s",
    )
    above.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("not that") if ctx.value.id == "no" else None)
    recorder = Recorder(bus)

    result = await above.run("go", context={"user": "ada"})

    assert texts(result.messages) == ["go", "", "found", "done"]
    inner = [one for one in recorder.records if one.scope.agent_id == "sub"]
    answers = [
        one.value.text
        for one in inner
        if one.event == "message:append:after" and isinstance(one.value, ToolMessage)
    ]
    assert answers == ["!<1>", "!not that"]
    assert {one.scope.lineage for one in inner} == {("top",)}
    parents = {(one.scope.parent_session_id, one.scope.parent_call_id) for one in inner}
    assert parents == {("s", "down")}
    assert {one.scope.context["user"] for one in inner} == {"ada"}
    (run_id,) = {one.scope.run_id for one in inner}
    assert run_id not in {result.messages, above.scope.run_id}


async def test_a_sub_agent_shares_the_bus():
    stranger = agent_for(bus=EventBus()).as_tool("worker", "Works.")
    shared = Toolset([echo])
    agent = agent_for(delegates(("1", "go")), "done", tools=[shared])

    with pytest.raises(RegistrationError) as refused:
        agent_for(tools=[stranger])
    with pytest.raises(RegistrationError) as refused_later:
        agent.tools.add(stranger)
    friend = agent_for(bus=agent.bus, agent_id="friend", tools=[]).as_tool("friend")
    agent.tools.add(friend)
    shared.add(stranger)
    await agent.run("go")

    reason = "a sub-agent shares its caller's bus; give both the same `bus=`, or the sub-agent none"
    expected = f"tool 'worker': {reason}"
    assert [str(refused.value), str(refused_later.value)] == [expected, expected]
    answer = agent.messages[2].tool_response
    assert (answer.error_type, answer.text) == ("RegistrationError", f"agent 'main': {reason}")
    assert stranger.spec.description == "Works."
    assert friend.spec.description == "Give a task to the agent 'friend'."
    assert list(friend.spec.input_schema["properties"]) == ["prompt"]


class Wrapping(ToolAdapter):
    """Tells the model of another name of the argument, and puts its mark around results."""

    def __init__(self, mark: str, inner: str, outer: str) -> None:
        self.mark, self.inner, self.outer = mark, inner, outer

    def adapt_signature(self, spec):
        return replace(spec, input_schema=takes_text(self.outer)) if spec.name == "echo" else None

    def adapt_parameters(self, call):
        if call.name != "echo":
            return None
        return call.with_arguments({self.inner: call.arguments[self.outer]})

    def adapt_response(self, response, call):
        return response.map_text(lambda text: f"{self.mark}{text}") if call.name == "echo" else None


def takes_text(name: str):
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


def wrapping(*facts: str) -> AgentComponent:
    component = AgentComponent()
    component.register_tool_adapter(Wrapping(*facts))
    return component


def calls_echo(argument: str, *call_ids: str) -> AssistantMessage:
    calls = [ToolCall(id=one, name="echo", arguments={argument: one}) for one in call_ids]
    return AssistantMessage(tool_calls=calls)


async def test_a_sub_agent_adopts_a_bus():
    heard = []
    answers = [*[calls_echo("b", "a1", "a2", "no", "never"), "below"] * 2]
    answers += [calls_echo("m", "alone", "never"), "alone"]
    worker = agent_for(*answers, agent_id="worker", components=[wrapping("w", "text", "m")])
    worker.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("own") if said(ctx) == "never" else None)
    worker.set_before_tool_callback(lambda name, arguments: heard.append(("worker", name)))

    def caller(name):
        def approver(ask, call, scope):
            heard.append((name, call.id))
            return call.id == "a2"

        script = [delegates(("d", "go")), "done"]
        tools, components = [worker.as_tool("worker")], [wrapping(name, "m", "b")]
        agent = agent_for(
            *script, agent_id=name, tools=tools, components=components, approver=approver
        )
        agent.guard(
            TOOL_CALL_BEFORE, lambda ctx: Ask("sure?") if said(ctx) in {"a2", "no"} else None
        )
        return agent, collects(agent, TOOL_CALL_AFTER)

    (one, told_one), (two, told_two) = caller("1"), caller("2")
    read = collects(worker, MESSAGE_APPEND_AFTER)
    results = [await one.run("go"), await two.run("go")]
    below = [message.text for message in read if isinstance(message, ToolMessage)]
    alone = await worker.run("go")

    refused = ["approval was refused", "own"]
    assert texts(results) == ["done", "done"]
    assert below == [f"{name}w{text}" for name in "12" for text in ("<a1>", "<a2>", *refused)]
    assert [one for one in heard if one[0] != "worker"] == [
        (name, call_id) for name in "12" for call_id in ("a2", "no")
    ]
    assert [len(told) for told in (told_one, told_two)] == [5, 5]
    assert texts(alone.messages) == ["go", "", "w<alone>", "wown", "alone"]
    assert heard.count(("worker", "echo")) == 10


async def test_a_closed_sub_agent_leaves_the_adopted_bus():
    component = wrapping("w", "text", "m")
    worker = agent_for(*"ab", agent_id="worker", components=[component])
    caller = agent_for(delegates(("d", "go")), "done", tools=[worker.as_tool("worker")])
    listed = []

    def note():
        handlers = [one for event in CATALOGUE for one in caller.bus.handlers(event)]
        listed.append(len([one for one in handlers if one.sender == "worker"]))

    note()
    await caller.run("go")
    note()
    subscription = worker.guard(TOOL_CALL_BEFORE, lambda ctx: None)
    note()
    subscription.cancel()
    note()
    await worker.remove(component)
    note()
    worker.on(RUN_AFTER, lambda ctx: None)
    note()
    await worker.aclose()
    note()

    other = agent_for(*"ab", agent_id="worker")
    other.on(RUN_AFTER, lambda ctx: None)
    again = agent_for(delegates(("d", "go")), "done", tools=[other.as_tool("worker")])
    await again.run("go")
    bus = weakref.ref(again.bus)
    del again
    gc.collect()  # The agent first: its end ends its ledger on the bus.
    gc.collect()

    assert listed == [0, 3, 4, 3, 0, 1, 0]
    assert bus() is None
    assert (await other.run("on")).text == "b"


def test_a_sub_agent_needs_an_id_of_its_own():
    worker = agent_for(agent_id="twin").as_tool("worker")

    with pytest.raises(RegistrationError, match="tool 'worker': its caller has the same id"):
        agent_for(agent_id="twin", tools=[worker])


async def test_a_sub_agent_may_have_a_timeout():
    worker = Agent(Held(), agent_id="worker", grace=0.1)
    ends = collects(worker, RUN_AFTER)
    # Long enough for the sub-run to begin on a machine that has other work, too.
    tools = [worker.as_tool("worker", timeout=0.5)]
    agent = agent_for(delegates(("d", "go")), "done", tools=tools)
    calls = collects(agent, TOOL_CALL_AFTER)

    result = await asyncio.wait_for(agent.run("go"), SECONDS)

    assert [one.status for one in calls] == ["timeout"]
    assert [one.status for one in ends] == ["cancelled"]
    assert (result.status, result.text) == ("ok", "done")
    with pytest.raises(RegistrationError, match="timeout must be a positive number of seconds"):
        worker.as_tool("worker", timeout=-1)


async def test_each_sub_run_has_a_session():
    bus, store = EventBus(), MemoryStore()
    model = ScriptedModel([lambda request: f"did {request.messages[-1].text}"] * 3)
    below = Agent(model, bus=bus, store=store, system="be brief")
    above = Agent(
        ScriptedModel([delegates(("1", "a"), ("2", "b")), delegates(("1", "c")), "done"]),
        tools=[below.as_tool("worker")],
        bus=bus,
        session_id="s",
    )

    result = await above.run("go")

    assert texts(result.messages) == ["go", "", "did a", "did b", "", "did c", "done"]
    assert [texts(one.messages) for one in model.requests] == [
        ["be brief", prompt] for prompt in "abc"
    ]
    sessions = [one.id for one in await store.sessions()]
    asked = [call.id for one in above.messages for call in getattr(one, "tool_calls", ())]
    assert [one.rsplit("/", 1)[0] for one in sessions] == [f"s/{call_id}" for call_id in asked]
    assert len(set(sessions)) == 3
    assert list(below.messages) == []


async def test_a_sub_agent_s_failure_becomes_a_result():
    bus = EventBus()

    def sub(name, *answers, **options):
        agent = Agent(ScriptedModel(answers), tools=[echo], bus=bus, **options)
        return agent, agent.as_tool(name)

    _, raising = sub("raising", ConnectionError("gone away"))
    denied, denying = sub("denying", "done")
    denied.guard(RUN_BEFORE, lambda ctx: Deny("not today"))
    _, endless = sub("endless", asks("1"), asks("2"), max_turns=2)
    asking = AssistantMessage(
        id="ask",
        tool_calls=[
            ToolCall(id=name, name=name, arguments={"prompt": "go"})
            for name in ("raising", "denying", "endless")
        ],
    )
    above = Agent(ScriptedModel([asking, "done"]), tools=[raising, denying, endless], bus=bus)

    result = await above.run("go")

    responses = [one.tool_response for one in result.messages[2:5]]
    assert [(one.is_error, one.error_type, one.text) for one in responses] == [
        (True, "ConnectionError", "gone away"),
        (True, "denied", "the agent ended as denied: not today"),
        (True, "max_turns", "the agent ended as max_turns: no final answer after 2 turns"),
    ]
    assert (result.status, result.text) == ("ok", "done")


async def test_a_sub_agent_s_handlers_use_its_run_s_session():
    bus, store, counts = EventBus(), MemoryStore(), []
    below = Agent(ScriptedModel([asks("1"), "done"]), tools=[echo], bus=bus, store=store)

    @below.on(TOOL_CALL_AFTER)
    def note(ctx):
        counts.append(len(below.messages))
        below.enqueue(UserMessage(id="note", content="seen"))

    above = Agent(
        ScriptedModel([delegates(("down", "look")), "done"]),
        tools=[below.as_tool("worker")],
        bus=bus,
    )

    await above.run("go")

    (session,) = await store.sessions()
    assert texts(await store.read(session.id)) == ["look", "", "<1>", "seen", "done"]
    assert counts == [2]
    assert list(below.messages) == []
    assert texts(above.messages) == ["go", "", "done", "done"]


async def test_questions_of_a_sub_agent_reach_its_caller():
    bus, asked = EventBus(), []

    def approver(name):
        return lambda ask, call, scope: asked.append((name, scope.agent_id, call.name)) or True

    def agent(agent_id, *answers, tools=(), approve=None):
        model = ScriptedModel(answers)
        return Agent(model, tools=[echo, *tools], bus=bus, agent_id=agent_id, approver=approve)

    low = agent("low", asks("l"), "low done")
    middle = agent(
        "middle", asks("m"), delegates(("d", "go"), name="low"), "done", tools=[low.as_tool("low")]
    )
    wise = agent("wise", asks("w"), "wise done", approve=approver("wise"))
    top = agent(
        "top",
        delegates(("a", "go"), name="middle"),
        delegates(("b", "go"), name="wise"),
        "done",
        tools=[middle.as_tool("middle"), wise.as_tool("wise")],
        approve=approver("top"),
    )
    top.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("may I?") if ctx.value.name == "echo" else None)

    result = await top.run("go")

    assert result.text == "done"
    assert asked == [("top", "middle", "echo"), ("top", "low", "echo"), ("wise", "wise", "echo")]


async def test_deps_reach_sub_agents():
    bus, seen = EventBus(), []

    @tool
    async def look(text: str, context: ToolContext[object]) -> None:
        seen.append((context.scope.agent_id, context.deps))

    def agent(agent_id, *answers, tools=(), **options):
        model = ScriptedModel(answers)
        return Agent(model, tools=[look, *tools], bus=bus, agent_id=agent_id, **options)

    low = agent("low", asks("l", name="look"), "done")
    middle = agent("middle", delegates(("d", "go"), name="low"), "done", tools=[low.as_tool("low")])
    own = agent("own", asks("o", name="look"), "done", deps="its own")
    top = agent(
        "top",
        delegates(("a", "go"), name="middle"),
        delegates(("b", "go"), name="own"),
        "done",
        tools=[middle.as_tool("middle"), own.as_tool("own")],
        deps="the agent's",
    )

    result = await top.run("go", deps="the run's")

    assert result.text == "done"
    assert seen == [("low", "the run's"), ("own", "its own")]


async def test_cancellation_reaches_sub_agents():
    bus, store, there = EventBus(), MemoryStore(), asyncio.Event()

    @tool
    async def hang(text: str) -> str:
        there.set()
        await asyncio.Event().wait()
        return text

    below = Agent(
        ScriptedModel([asks("1", name="hang")]), tools=[hang], bus=bus, agent_id="sub", store=store
    )
    above = Agent(
        ScriptedModel([delegates(("down", "look"))]),
        tools=[below.as_tool("worker")],
        bus=bus,
        agent_id="top",
    )
    recorder = Recorder(bus)

    run = asyncio.create_task(above.run("go"))
    await there.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    ends = [(one.scope.agent_id, one.value.status) for one in recorder.of(RUN_AFTER)]
    assert ends == [("sub", "cancelled"), ("top", "cancelled")]
    (session,) = await store.sessions()
    for messages in (above.messages, await store.read(session.id)):
        assert texts(messages)[2:] == ["the call was cancelled"]
        assert is_paired(messages)


async def test_a_closed_agent_leaves_nothing():
    bus, seen = EventBus(), []

    def handlers():
        return [one.name for event in CATALOGUE for one in bus.handlers(event)]

    async with Agent(
        ScriptedModel(["done"]), bus=bus, components=[Marking("!")], before_tool_callback=print
    ) as closed:
        closed.guard(TOOL_CALL_BEFORE, lambda ctx: None)

        @closed.on(RUN_AFTER)
        def observe(ctx):
            seen.append(ctx.value)

        closed.on(RUN_AFTER, observe).cancel()
        await closed.run("go")
        at_work = len(handlers())
    twice = [Marking("!")] * 2
    with pytest.raises(RegistrationError):
        Agent(ScriptedModel([]), bus=bus, components=twice)
    forgotten = Agent(ScriptedModel(["done"]), bus=bus)
    await forgotten.run("go")
    ledger, scope, forgotten = closed.ledger, forgotten.scope, weakref.ref(forgotten)
    gc.collect()
    bus.on(RUN_AFTER, lambda ctx: None, name="mine")
    bus.do(RUN_AFTER, RunResult(status="ok"), scope=closed.scope)
    bus.do(RUN_AFTER, RunResult(status="ok"), scope=scope)

    assert at_work == 7
    assert handlers() == ["mine"]
    assert len(seen) == 1
    assert closed.ledger == ledger
    assert ledger[-1].entries[0].name == "observe"
    assert forgotten() is None


async def test_a_cancelled_run_has_that_status():
    model = Held()
    agent = Agent(model)
    recorder = Recorder(agent.bus)

    run = asyncio.create_task(agent.run("go"))
    await model.asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    model.release.set()
    result = await agent.run("go on")

    ends = [(one.status, one.reason, texts(one.messages)) for one in recorder.values(RUN_AFTER)]
    assert ends == [
        ("cancelled", "the run was cancelled", ["go"]),
        ("ok", None, ["go on", "at last"]),
    ]
    assert result.text == "at last"


async def test_a_failing_recovery_is_an_error():
    agent = agent_for(ConnectionError("gone away"))
    recorder = Recorder(agent.bus)

    @agent.on(RUN_ERROR, on_error="raise")
    def rescue(ctx):
        raise ValueError

    with pytest.raises(HandlerError) as raised:
        await agent.run("go")

    (end,) = recorder.values(RUN_AFTER)
    reason = "handler 'rescue' of 'run:error' raised an error"
    assert (str(raised.value), end.status) == (reason, "error")
    assert end.reason == f"HandlerError: {reason}"


async def test_a_run_cancelled_during_recovery_has_that_status():
    agent, there = agent_for(ConnectionError("gone away")), asyncio.Event()
    recorder = Recorder(agent.bus)

    @agent.on(RUN_ERROR)
    async def hang(ctx):
        there.set()
        await asyncio.Event().wait()

    run = asyncio.create_task(agent.run("go"))
    await there.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert [one.status for one in recorder.values(RUN_AFTER)] == ["cancelled"]


@pytest.mark.parametrize("times", [1, 2])
async def test_cancellation_anywhere_keeps_the_session_paired(times):
    @tool
    async def rest(text: str) -> str:
        await asyncio.sleep(0)
        return text

    async def suspend(ctx):
        await asyncio.sleep(0)

    statuses = set()
    for steps in range(500):
        store = Sluggish()
        asking, end = asks("1", "2", name="rest"), "done"
        agent = agent_for(asking, end, end, tools=[rest], store=store, system="be brief")
        agent.on(MESSAGE_APPEND_BEFORE, suspend)
        agent.on(MESSAGE_PERSIST_BEFORE, suspend)
        agent.on(MODEL_CALL_BEFORE, suspend)
        recorder = Recorder(agent.bus)
        run = asyncio.create_task(agent.run("go"))
        for _ in range(steps):
            await asyncio.sleep(0)
        ended = not run.cancel()
        for _ in range(times - 1):
            await asyncio.sleep(0)
            run.cancel()
        await asyncio.wait({run})

        results = recorder.values(RUN_AFTER)
        statuses |= {one.status for one in results}
        # Before its first step the run has not begun, and nothing was promised.
        assert len(results) == bool(recorder.records)
        assert await store.read("s") == tuple(agent.messages)
        assert is_paired(agent.messages)
        calls = [one.requested.id for one in recorder.values(TOOL_CALL_AFTER)]
        assert len(calls) == len(set(calls))
        assert (await agent.run("again")).status == "ok"
        assert texts(agent.messages)[0] == "be brief"
        assert texts(agent.messages).count("be brief") == 1
        assert is_paired(agent.messages)
        if ended:
            break

    assert ended
    assert statuses == {"cancelled", "ok"}


async def test_a_run_waits_for_observers():
    bus, seen, release = EventBus(max_pending=2), [], asyncio.Event()
    agent = Agent(ScriptedModel([asks(str(n)) for n in range(9)] + ["done"]), tools=[echo], bus=bus)

    @bus.on(TOOL_CALL_AFTER)
    async def observe(ctx):
        await release.wait()
        seen.append(ctx.value.requested.id)

    run = asyncio.create_task(agent.run("go"))
    while bus.pending < 3:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    pending, done = bus.pending, run.done()
    release.set()
    result = await run
    await bus.drain()

    assert (pending, done) == (3, False)
    assert result.text == "done"
    assert seen == [str(n) for n in range(9)]


@pytest.mark.parametrize("verb", ["append", "call_tool"])
async def test_a_program_waits_for_observers(verb):
    bus, release = EventBus(max_pending=2), asyncio.Event()
    agent = Agent(ScriptedModel([]), tools=[echo], bus=bus)

    @bus.on(MESSAGE_APPEND_AFTER if verb == "append" else TOOL_CALL_AFTER)
    async def observe(ctx):
        await release.wait()

    async def work():
        for n in range(9):
            if verb == "append":
                await agent.append(UserMessage(id=str(n), content="hi"))
            else:
                await agent.call_tool("echo", text="hi")

    task = asyncio.create_task(work())
    while bus.pending < 3:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    pending, done = bus.pending, task.done()
    release.set()
    await task

    assert (pending, done) == (3, False)
    assert len(agent.messages) in (9, 18)


async def test_the_last_records_are_kept():
    agent = agent_for()
    agent.on(MESSAGE_APPEND_AFTER, lambda ctx: None)

    for n in range(1_003):
        await agent.append(UserMessage(id=str(n), content="hi"))

    ledger = agent.ledger
    assert len(ledger) == 1_000
    assert [ledger[0].subject, ledger[-1].subject] == ["3", "1002"]


async def test_deltas_and_idle_dispatches_are_left_out():
    agent, seen = agent_for("one two"), []
    agent.on(MODEL_CALL_DELTA, lambda ctx: seen.append(ctx.value))
    agent.on(RUN_AFTER, lambda ctx: seen.append(ctx.value))

    pieces = [piece async for piece in agent.stream("go")]

    assert seen == [piece for piece in pieces if not isinstance(piece, TurnEnd)]
    (record,) = agent.ledger
    assert (record.event, record.value) == ("run:after", None)
    assert b"one" not in encode(record)


async def test_records_are_written_with_the_run(tmp_path):
    async with SqliteStore(tmp_path / "store.db") as store:
        agent = agent_for(asks("1"), "done", store=store)
        agent.on(RUN_AFTER, lambda ctx: None)
        agent.on(TOOL_CALL_BEFORE, lambda ctx: None)
        agent.on(MESSAGE_APPEND_BEFORE, lambda ctx: None)

        await agent.run("go")
        records = await store.records("s")
        await agent.aclose()

        append = "message:append:before"
        names = [append, append, "tool:call:before", append, append, "run:after"]
        assert [one.event for one in records] == names
        assert records == agent.ledger == await store.records("s")


async def test_a_lost_ledger_loses_no_message(caplog):
    class Forgetful(MemoryStore):
        durable = True
        failures = 1

        async def append(self, session_id, stored):
            if stored.message is None and self.failures:
                self.failures -= 1
                raise StoreError("disk", "it is full; make room and try again")
            await super().append(session_id, stored)

    store = Forgetful()
    agent = agent_for("one", "two", store=store)
    agent.on(RUN_AFTER, lambda ctx: None)

    first = await agent.run("go")
    (logged,) = [(one.name, one.getMessage()) for one in caplog.records]
    second = await agent.run("go on")

    assert texts([first, second]) == ["one", "two"]
    reason = "store 'disk': it is full; make room and try again"
    assert logged == ("toolbus", f"ledger records of the session wait on: {reason}")
    assert await store.records("s") == agent.ledger
    assert len(agent.ledger) == 2


async def test_a_closed_agent_refuses_every_call():
    agent, closed = agent_for("done", "more"), []
    await agent.run("go")
    await agent.aclose()
    await agent.aclose()

    async def streaming():
        async for _ in agent.stream("go"):
            raise AssertionError

    message = UserMessage(id="u", content="hi")
    for attempt in (agent.run("go"), streaming(), agent.append(message), agent.call_tool("echo")):
        with pytest.raises(ClosedError) as refused:
            await attempt
        closed.append(str(refused.value))
    with pytest.raises(ClosedError) as refused:
        agent.enqueue(message)

    assert closed == 4 * ["the agent is closed; make a new one"]
    assert str(refused.value) == "session 's' is closed; make a new one"
    assert texts(agent.messages) == ["go", "done"]


async def test_closing_ends_a_run():
    bus, store, there = EventBus(), MemoryStore(), asyncio.Semaphore(0)

    @tool
    async def hang(text: str) -> str:
        there.release()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            names = [one.name for one in bus.handlers(TOOL_CALL_BEFORE)]
            guarded.append(names == ["judge"])
        return text

    guarded: list[bool] = []
    hanging = [asks("1", name="hang"), asks("2", name="hang")]
    agent = Agent(ScriptedModel(hanging), tools=[hang], bus=bus, agent_id="sub", store=store)
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: None, name="judge")
    above = Agent(
        ScriptedModel([delegates(("down", "look")), "done"]),
        tools=[agent.as_tool("worker")],
        bus=bus,
    )
    recorder = Recorder(bus)
    run, outer = asyncio.create_task(agent.run("go")), asyncio.create_task(above.run("go"))
    await there.acquire()
    await there.acquire()

    await agent.aclose()
    with pytest.raises(ClosedError) as refused:
        await run
    result = await outer

    assert str(refused.value) == "the agent is closed; make a new one"
    ends = [(one.scope.agent_id, one.value.status) for one in recorder.of(RUN_AFTER)]
    assert ends[:2] == 2 * [("sub", "cancelled")]
    assert guarded == [True, True]
    for session in await store.sessions():
        messages = await store.read(session.id)
        assert is_paired(messages)
        assert messages[-1].text == "the call was cancelled"
    assert texts(result.messages)[2:] == ["the agent is closed; make a new one", "done"]
    assert bus.handlers(TOOL_CALL_BEFORE) == ()


async def test_a_stream_about_to_begin_ends():
    agent = agent_for("done", store=MemoryStore())
    await agent.append(UserMessage(id="u", content="hi"))

    first = asyncio.ensure_future(anext(agent.stream("go")))
    await asyncio.sleep(0)
    await agent.aclose()
    with pytest.raises(ClosedError, match="the agent is closed"):
        await first

    assert texts(agent.messages) == ["hi"]


async def test_a_run_cannot_close_its_agent():
    @tool
    async def close(text: str) -> str:
        await agent.aclose()
        return text

    agent = agent_for(asks("1", name="close"), "done", tools=[close])

    result = await asyncio.wait_for(agent.run("go"), 60)
    await agent.aclose()

    response = result.messages[2].tool_response
    reason = "a run would wait for its own end; call it outside"
    assert (response.error_type, response.text) == ("DispatchError", f"event 'aclose': {reason}")
    assert result.text == "done"


async def test_a_cancelled_caller_stays_cancelled():
    model = Held()
    agent = Agent(model)

    run = asyncio.create_task(agent.run("go"))
    await model.asked.wait()
    run.cancel()
    await asyncio.gather(asyncio.wait({run}), agent.aclose())

    assert run.cancelled()


async def test_closing_appends_enqueued_messages():
    store = MemoryStore()
    async with agent_for("done", store=store) as agent:

        @agent.on(RUN_AFTER)
        async def thank(ctx):
            agent.enqueue(UserMessage(id="thanks", content="thanks"))

        await agent.run("go")

    assert texts(await store.read("s")) == ["go", "done", "thanks"]
    assert texts(agent.messages) == ["go", "done", "thanks"]


async def test_a_lost_enqueued_message_is_logged(caplog):
    agent = agent_for("done", store=Failing("note"))
    await agent.run("go")
    for name in ("note", "more"):
        agent.enqueue(UserMessage(id=name, content=name))

    await agent.aclose()

    reason = "store 'disk': it is full; make room and try again"
    logged = [(one.name, one.getMessage()) for one in caplog.records]
    assert logged == [("toolbus", f"2 enqueued messages are lost: {reason}")]
    assert texts(agent.messages) == ["go", "done"]


async def test_observers_end_before_components_close():
    class Exporting(AgentComponent):
        async def install(self, agent):
            self.exported, self.open = [], True

        async def close(self):
            self.open = False

        @on(MESSAGE_APPEND_AFTER)
        async def export(self, ctx):
            await asyncio.sleep(0)
            self.exported.append((ctx.value.text, self.open))

    component = Exporting()
    async with agent_for("done", components=[component]) as agent:
        await agent.run("go")

    assert component.exported == [("go", True), ("done", True)]
    assert component.open is False


async def test_concurrent_first_steps_start_once():
    class Slow(MemoryStore):
        async def read(self, session_id):
            await asyncio.sleep(0)
            return await super().read(session_id)

    class Counting(AgentComponent):
        installed = 0

        async def install(self, agent):
            await asyncio.sleep(0)
            self.installed += 1

    component = Counting()
    agent = agent_for(store=Slow(), components=[component])

    await asyncio.gather(*[agent.append(UserMessage(id=name, content=name)) for name in "abc"])

    assert component.installed == 1
    assert texts(agent.messages) == ["a", "b", "c"]


async def test_an_install_may_use_the_agent():
    class Greeting(AgentComponent):
        async def install(self, agent):
            await agent.append(AssistantMessage(id="hello", content="hello"))

    agent = agent_for("done", components=[Greeting()], system="be brief")

    await asyncio.wait_for(agent.run("go"), 60)

    assert texts(agent.messages) == ["be brief", "hello", "go", "done"]


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        (
            "model",
            "gpt",
            "model 'gpt': expected PROVIDER:NAME, or an object like `toolbus.models.Mo",
        ),
        ("model", None, "model None: it has no `complete`"),
        ("model", print, "model <built-in function print>: it has no `complete`"),
        ("model", ScriptedModel, "model 'ScriptedModel': it is a class; give an instance"),
        ("store", MemoryStore, "store 'MemoryStore': it is a class; give an instance"),
        ("store", {}, "store {}: it has no `append`"),
        ("components", [Marking], "component 'Marking': it is a class; give an instance"),
        ("components", [ToolAdapter], "component 'ToolAdapter': it is a class; "),
        ("components", [print], "component <built-in function print>: expected an AgentComp"),
        ("components", AgentComponent(), "components: expected a list of components"),
        ("approver", True, "approver True: it must be callable with a question, a call and a"),
        ("approver", lambda ask: True, "it must be callable with a question, a call and a scope"),
        ("bus", "main", "bus 'main': expected an `EventBus`"),
        ("approver", int, "approver <class 'int'>: it must be callable with a question"),
        ("approval_timeout", 0, "approval_timeout: expected a positive number of seconds, not 0"),
        ("approval_timeout", "1", "expected a positive number of seconds, not '1'"),
        ("before_tool_callback", dict, "before_tool_callback <class 'dict'>: it must be callable"),
        ("tools", print, "tools: expected a list of tools, not <built-in function print>"),
        ("tools", "echo", "tools: expected a list of tools, not 'echo'"),
        ("tools", [7], "tool 7: expected a function"),
        ("max_turns", 0, "max_turns 0: expected a limit of model calls per run, 1 or more"),
        ("max_turns", "3", "max_turns '3': expected a limit of model calls"),
        ("model_settings", {"seed": {7}}, "model_settings: "),
        ("keep_originals", "no", "keep_originals 'no': expected True or False"),
        ("clock", 7, "clock 7: it must be callable without an argument"),
        ("ids", 7, "ids 7: it must be callable without an argument"),
        ("ids", lambda: 7, "expected ids of non-empty text, not 7"),
        ("session_id", "", "session_id '': it is empty; leave it out for a fresh id"),
        ("session_id", 7, "session_id 7: expected text, got `int`"),
        ("session_id", "\ud83d", "lone surrogate U+D83D at character 0"),
    ],
)
def test_arguments_of_agents_are_checked(option, value, problem):
    bus = EventBus()
    options = {"model": ScriptedModel([]), "bus": bus, "agent_id": "main", option: value}

    with pytest.raises(RegistrationError, match=re.escape(problem)):
        Agent(**options)

    assert not any(bus.handlers(event) for event in CATALOGUE)


@pytest.mark.parametrize("event", ENTERING, ids=lambda event: event.name)
async def test_a_hanging_handler_is_cut_off(event):
    store, reached = MemoryStore(), asyncio.Event()
    agent = agent_for(asks("c1", "c2"), "done", store=store, grace=0.02)
    told = collects(agent, TOOL_CALL_AFTER)
    ends = collects(agent, RUN_AFTER)

    async def hang(ctx):
        if tool_call_of(ctx.value):
            reached.set()
            await asyncio.Event().wait()

    hanging = agent.on(event, hang)
    run = asyncio.create_task(agent.run("go"))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, SECONDS)

    assert [one.status for one in ends] == ["cancelled"]
    assert [(one.requested.id, one.status) for one in told] == [("c1", "ok"), ("c2", "ok")]
    assert texts(agent.messages) == ["go", "", "<c1>", "<c2>"]
    assert await store.read("s") == tuple(agent.messages)
    hanging.cancel()
    assert (await agent.run("on")).status == "ok"


@pytest.mark.parametrize("event", ENTERING, ids=lambda event: event.name)
async def test_closing_cuts_hanging_handlers_off(event):
    store, reached = MemoryStore(), asyncio.Event()
    agent = agent_for(asks("c1", "c2"), "done", store=store, grace=0.02)

    @agent.on(event)
    async def hang(ctx):
        if tool_call_of(ctx.value):
            reached.set()
            await asyncio.Event().wait()

    run = asyncio.create_task(agent.run("go"))
    await reached.wait()
    await asyncio.wait_for(agent.aclose(), SECONDS)

    with pytest.raises(ClosedError):
        await run
    assert texts(await store.read("s")) == ["go", "", "<c1>", "<c2>"]


@pytest.mark.parametrize("kind", ["guard", "adapter"])
async def test_a_guard_cut_off_withholds(kind):
    reached = asyncio.Event()

    async def hang(value):
        if isinstance(value, ToolResponse | ToolMessage):
            reached.set()
            await asyncio.Event().wait()

    async def judge(ctx):
        await hang(ctx.value)

    class Hang(ToolAdapter):
        async def adapt_response(self, response, call):
            await hang(response)

    component = AgentComponent()
    if kind == "adapter":
        component.register_tool_adapter(Hang())
    agent = agent_for(asks("c1", "c2"), components=[component], grace=0.02)
    if kind == "guard":
        agent.guard(MESSAGE_APPEND_BEFORE, judge)

    run = asyncio.create_task(agent.run("go"))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, SECONDS)

    answers = agent.messages[2:]
    assert [one.tool_call_id for one in answers] == ["c1", "c2"]
    assert all("was ended by CancelledError" in one.text for one in answers)
    assert all(one.tool_response.is_error for one in answers)
    assert not any("<c" in one.text for one in answers)


@pytest.mark.parametrize("event", ENTERING, ids=lambda event: event.name)
async def test_an_uncancellable_handler_is_left_behind(event):
    store, reached, late = MemoryStore(), asyncio.Event(), asyncio.Event()
    agent = agent_for(asks("c1", "c2"), store=store, grace=0.02)
    ends = collects(agent, RUN_AFTER)

    @agent.on(event)
    async def deaf(ctx):
        if tool_call_of(ctx.value) is None:
            return
        reached.set()
        while not late.is_set():
            with suppress(asyncio.CancelledError):
                await late.wait()

    run = asyncio.create_task(agent.run("go"))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, SECONDS)

    before = tuple(agent.messages)
    late.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert [one.status for one in ends] == ["cancelled"]
    assert [one.tool_call_id for one in before[2:]] == ["c1", "c2"]
    assert tuple(agent.messages) == before
    assert [one.id for one in await store.read("s")] == [one.id for one in before]


async def test_slow_handlers_are_not_cut_off():
    agent = agent_for(asks("c1"), "done", grace=0)

    @agent.on(MESSAGE_APPEND_BEFORE)
    async def slow(ctx):
        if not isinstance(ctx.value, ToolMessage):
            return None
        await asyncio.sleep(0.1)
        return ctx.value.with_tool_response(ToolResponse.from_text("slow"))

    await agent.run("go")

    assert texts(agent.messages) == ["go", "", "slow", "done"]


async def test_a_close_ends_within_its_grace():
    forever, closed = asyncio.Event(), []

    class Hanging(AgentComponent):
        async def close(self):
            closed.append("begun")
            await forever.wait()

    agent = agent_for("done", components=[Hanging()], grace=0.02)

    @agent.on(RUN_AFTER)
    async def observe(ctx):
        await forever.wait()

    clock = asyncio.get_running_loop().time
    async with agent:
        for _ in range(3):
            agent.bus.do(RUN_AFTER, RunResult(status="ok"), scope=agent.scope)
        since = clock()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.aclose(), 0.05)
        took = clock() - since

    assert took < SECONDS
    assert closed == ["begun"]
    with pytest.raises(ClosedError):
        await agent.run("go")


@pytest.mark.parametrize("grace", [-1, "5", None, float("inf"), float("nan"), True])
def test_the_grace_is_checked(grace):
    with pytest.raises(RegistrationError, match="grace: expected a number of seconds, got"):
        agent_for("done", grace=grace)


async def test_the_whole_catalogue_is_dispatched():
    @tool
    async def fail(text: str) -> str:
        raise ValueError(text)

    bus = EventBus()
    recorder = Recorder(bus)
    working = agent_for(asks("1"), asks("2", name="fail"), "done", tools=[echo, fail], bus=bus)
    failing = agent_for(ModelError("m", "no answer"), bus=bus, agent_id="failing")

    await working.run("go")
    with pytest.raises(ModelError):
        await failing.run("go")
    async for _ in agent_for("streamed", bus=bus, agent_id="streaming").stream("go"):
        pass

    of_proxies = {MCP_REQUEST_BEFORE.name}
    assert set(recorder.names) == {event.name for event in CATALOGUE} - of_proxies
