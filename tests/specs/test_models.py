"""The scenarios of `specs/models.md`."""

import json
from collections import defaultdict

import pytest
from msgspec.structs import replace
from tests.servers import wire_shapes as shapes
from tests.servers.fake_provider import WIRES, FakeProvider, Reply

from toolbus import Agent, AssistantMessage, ToolCall, ToolMessage, UserMessage, tool
from toolbus.cli.command_line import main
from toolbus.errors import DecodeError, ModelError, RegistrationError
from toolbus.events import TOOL_CALL_AFTER, ModelDelta, ModelRequest, RunResult
from toolbus.messages import encode
from toolbus.models import AnthropicModel, OpenAIModel
from toolbus.models.answers import given_call
from toolbus.models.scripted import ScriptedModel
from toolbus.providers.replay import ReplayModel
from toolbus.store import AppendRequest, SqliteStore
from toolbus.testing.fakes import counting_ids

REQUEST = ModelRequest(model="m", messages=[UserMessage(id="u", content="hi")])
CALL = ToolCall(id="c", name="roll", arguments={"sides": 6})
ASKING = AssistantMessage(id="a1", content="let me roll", tool_calls=[CALL], usage={"out": 7})
LAST = AssistantMessage(id="a2", content="you rolled")


async def test_answers_come_in_order():
    model = ScriptedModel([ASKING, "done"], name="mine", ids=counting_ids("a"))
    other = replace(REQUEST, model="other")

    answers = [await model.complete(REQUEST), await model.complete(other)]

    assert answers[0] is ASKING
    assert answers[1] == AssistantMessage(id="a-1", content="done", stop_reason="stop")
    assert model.requests == [REQUEST, other]
    assert (model.name, ScriptedModel([]).name) == ("mine", "scripted")


async def test_an_answer_may_be_a_function():
    async def later(request):
        return replace(LAST, content=request.messages[0].text)

    model = ScriptedModel([lambda request: f"I am {request.model}", later])

    answers = [await model.complete(REQUEST), await model.complete(REQUEST)]

    assert [one.text for one in answers] == ["I am m", "hi"]


async def test_an_error_is_raised():
    error = ConnectionError("gone")
    model = ScriptedModel([error, "back"])

    with pytest.raises(ConnectionError) as raised:
        await model.complete(REQUEST)
    answer = await model.complete(REQUEST)

    assert raised.value is error
    assert answer.text == "back"


def test_a_text_is_not_a_script():
    with pytest.raises(RegistrationError) as refused:
        ScriptedModel("It is 5.")

    assert str(refused.value) == (
        "model 'scripted': expected answers in a list, not a text; write ['It is 5.']"
    )


async def test_an_exhausted_script_raises():
    model = ScriptedModel(["done"])
    await model.complete(REQUEST)

    with pytest.raises(ModelError) as ended:
        await model.complete(REQUEST)

    assert str(ended.value) == "model 'scripted': the script has no answer 2"
    assert len(model.requests) == 2


@pytest.mark.parametrize("text", ["", "one", " two  words\n", "\n\tthree more words "])
async def test_a_stream_is_the_answer_in_pieces(text):
    broken = ToolCall(id="d", name="roll", raw="{not json")
    answer = replace(ASKING, content=text, reasoning=text[::-1] or None, tool_calls=[CALL, broken])
    model = ScriptedModel([answer])

    *pieces, whole = [piece async for piece in model.stream(REQUEST)]

    def joined(kind, index=0):
        return "".join(one.text for one in pieces if (one.kind, one.index) == (kind, index))

    assert whole is answer
    assert all(isinstance(one, ModelDelta) and one.text for one in pieces)
    assert (joined("text"), joined("reasoning")) == (text, text[::-1])
    assert (joined("tool_call"), joined("tool_call", 1)) == ('{"sides":6}', "{not json")
    kinds = [one.kind for one in pieces]
    assert kinds == sorted(kinds, key=["reasoning", "text", "tool_call"].index)


async def test_tools_run_for_real():
    rolled = []

    @tool
    async def roll(sides: int) -> str:
        rolled.append(sides)
        return f"roll {len(rolled)} of {sides}"

    recorded = await Agent(ScriptedModel([ASKING, LAST]), tools=[roll]).run("roll for me")

    replayed = await Agent(ReplayModel(recorded.messages), tools=[roll]).run("roll for me")

    assert rolled == [6, 6]
    texts = [
        [one.text for one in result.messages if isinstance(one, ToolMessage)]
        for result in (recorded, replayed)
    ]
    assert texts == [["roll 1 of 6"], ["roll 2 of 6"]]
    assert replayed.message is LAST
    assert replayed.messages[1] is ASKING


async def test_a_recording_is_read_from_lines(tmp_path):
    path = tmp_path / "session.jsonl"
    lines = [encode(one) for one in (*REQUEST.messages, ASKING, LAST)]
    path.write_bytes(b"\n\n".join(lines))

    model = ReplayModel.from_file(path, name="taped")

    assert await model.complete(REQUEST) == ASKING
    assert await model.complete(REQUEST) == LAST
    assert (model.name, ReplayModel.from_file(str(path)).name) == ("taped", "replay")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "JSON is malformed: invalid character - at byte 4"),
        (b'{"role":"assistant","content":"x"}', "`id`"),
        (b'{"role":"robot","id":"r"}', "'robot' - at `$.role`"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, reason):
    path = tmp_path / "session.jsonl"
    path.write_bytes(encode(ASKING) + b"\n\n" + line + b"\n" + encode(LAST) + b"\n")

    with pytest.raises(DecodeError) as refused:
        ReplayModel.from_file(path)

    assert str(refused.value).startswith("session.jsonl, line 3: ")
    assert reason in str(refused.value)


def test_a_truncated_line_is_named(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_bytes(encode(ASKING) + b"\n" + encode(LAST)[:-9])

    with pytest.raises(DecodeError) as refused:
        ReplayModel.from_file(path)

    end = len(encode(LAST)) - 9
    expected = f"session.jsonl, line 2: input data was truncated - at byte {end}"
    assert str(refused.value) == expected


async def test_an_exhausted_recording_raises():
    agent = Agent(ReplayModel([LAST]))
    await agent.run("go")

    with pytest.raises(ModelError) as ended:
        await agent.run("go on")

    reason = "the recording has 1 answers, and none to 'go on', which is request 2"
    assert str(ended.value) == f"model 'replay': {reason}"


SAID = ("Two files, then.", "Let me look: ä €.", '{"path": "a', "I will not.")


def live_answers(path):
    """Return what a provider answers: parallel calls, a broken one, a busy server, a refusal."""
    thinking = [("reasoning", SAID[0], "seal"), ("text", SAID[1])]
    calls = [("call", f"c{name}", "read", json.dumps({"path": name})) for name in "ab"]
    broken = [("call", "cx", "read", SAID[2])]
    if path == "/v1/messages":
        events = shapes.anthropic_events([("call", "cx", "read", "{}")])
        deltas = [each["delta"] for each in events if each["type"] == "content_block_delta"]
        deltas[-1]["partial_json"] = SAID[2]
        broken = Reply(events=events)
    busy = Reply(429, {"error": {"message": "busy"}}, {"retry-after-ms": "1"})
    return [[*thinking, *calls], broken, busy, [("text", "Fine.")], [("refusal", SAID[3])]]


async def talked(model, store, session_id):
    """Return the messages and the pieces of a session of two runs."""
    pieces = []
    options = {"store": store, "session_id": session_id, "ids": counting_ids("m")}
    async with Agent(model, tools=[read], system="Be brief.", **options) as agent:
        for prompt in ("look", "do evil"):
            pieces += [item async for item in agent.stream(prompt)]
        return list(agent.messages), together(pieces)


def together(pieces):
    """Return the texts of *pieces* by kind and place, without the spaces of some models' JSON."""
    texts = defaultdict(str)
    for item in pieces:
        if isinstance(item, ModelDelta):
            texts[item.kind, item.index] += item.text.replace(" ", "")
    return texts


def untimed(message):
    """Return *message*, if it is a tool's without how long that took."""
    if isinstance(message, ToolMessage):
        return message.tool_call_id, message.tool_name, message.text
    return message


@tool
async def read(path: str) -> str:
    return f"file {path}"


@pytest.mark.parametrize("path", WIRES)
async def test_live_sessions_are_replayed(path, tmp_path):
    database, export = tmp_path / "s.db", tmp_path / "s.jsonl"
    async with FakeProvider(live_answers(path)) as server, SqliteStore(database) as store:
        if path == "/v1/messages":
            model = AnthropicModel("m", base_url=server.url)
        else:
            api = "chat" if "chat" in path else "responses"
            model = OpenAIModel("m", api=api, base_url=f"{server.url}/v1")
        async with model:
            messages, pieces = await talked(model, store, "live")
    assert main(["export", str(database), "-o", str(export)]) == 0

    assert [message.role for message in messages].count("tool") == 3
    assert messages[5].tool_calls[0].raw == SAID[2]
    assert messages[7].metadata["retries"] == 1
    assert (messages[9].stop_reason, messages[9].text) == ("refusal", SAID[3])
    for played in (
        ReplayModel(messages),
        ReplayModel.from_file(database),
        ReplayModel.from_file(export),
    ):
        again, shown = await talked(played, None, "again")
        assert list(map(untimed, again)) == list(map(untimed, messages))
        assert shown == pieces
        assert played.deviations == []


async def test_one_of_several_sessions_is_replayed(tmp_path):
    database, export = tmp_path / "s.db", tmp_path / "s.jsonl"
    async with SqliteStore(database) as store:
        for session_id in ("one", "other", "one/c1/sub"):
            answer = AssistantMessage(id=f"m-{session_id}", content=session_id)
            await store.append(session_id, AppendRequest(message=answer))
    assert main(["export", str(database), "-o", str(export)]) == 0

    for file in (database, export):
        for name, answer in (("one", "one"), ("oth", "other"), ("one/", "one/c1/sub")):
            model = ReplayModel.from_file(file, session=name)
            assert (await model.complete(REQUEST)).text == answer
        for name, reason in (
            (None, "holds 3 sessions; name one of them: 'one', 'other'"),
            ("o", "holds 3 sessions 'o'; there are: 'one', 'other', 'one/c1/sub'"),
            ("x", "holds no session 'x'; there are: 'one'"),
        ):
            with pytest.raises(DecodeError) as refused:
                ReplayModel.from_file(file, session=name)
            assert reason in str(refused.value)


async def test_deviations_are_reported(caplog):
    @tool
    async def roll(sides: int) -> str:
        return results.pop()

    results = ["two", "three", "five", "five"]
    recorded = await Agent(ScriptedModel([ASKING, LAST]), tools=[roll]).run("roll for me")
    model = ReplayModel(recorded.messages)
    same = await Agent(model, tools=[roll]).run("roll for me")
    quiet = [record for record in caplog.records if record.levelname == "WARNING"]
    other = ReplayModel(recorded.messages)
    result = await Agent(other, tools=[roll]).run("throw\x1b it")
    alone = ReplayModel([ASKING, LAST])
    await Agent(alone, tools=[roll]).run("anything")

    assert (same.message, result.message) == (LAST, LAST)
    assert (model.deviations, quiet, alone.deviations) == ([], [], [])
    assert other.deviations == [
        "for 'roll for me', but the prompt is 'throw\\x1b it'",
        "after another result of roll ('c')",
    ]
    assert caplog.messages[-2].startswith("model 'replay': answer 1 was recorded for 'roll")


class Parrot:
    """Says what was said."""

    name = "parrot"

    def __init__(self):
        self.requests = []

    async def complete(self, request):
        self.requests.append(request)
        return AssistantMessage(id="p", content=request.messages[-1].text)

    def stream(self, request):
        return Once([ModelDelta(kind="text", text="you"), LAST])


class Once:
    """An async iterator that is no generator."""

    def __init__(self, items):
        self._items = iter(items)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None


async def test_any_object_may_be_a_model():
    model = Parrot()
    agent = Agent(model)

    result = await agent.run("hello")
    *pieces, _, end = [piece async for piece in agent.stream("hello")]

    assert result.text == "hello"
    assert model.requests[0].model == "parrot"
    assert [one.text for one in pieces] == ["you"]
    assert isinstance(end, RunResult)
    assert end.text == "you rolled"


async def test_objects_other_than_answers_are_refused():
    class Mute(Parrot):
        async def complete(self, request):
            return {"content": "hi"}

        def stream(self, request):
            return Once([])

    agent = Agent(Mute())

    with pytest.raises(ModelError) as completed:
        await agent.run("hello")
    with pytest.raises(ModelError) as streamed:
        [piece async for piece in agent.stream("hello")]

    errors = [str(completed.value), str(streamed.value)]
    assert errors == [
        f"model 'parrot': it returned `{name}` instead of an AssistantMessage"
        for name in ("dict", "NoneType")
    ]


@pytest.mark.parametrize("call_id", ["call_0", ""])
async def test_repeated_ids_are_replaced(call_id):
    ran = []

    @tool
    async def roll(sides: int) -> str:
        ran.append(sides)
        return f"rolled {sides}"

    calls = [ToolCall(id=call_id, name="roll", arguments={"sides": n}) for n in (1, 2, 3)]
    asking = AssistantMessage(id="m", tool_calls=calls)
    agent = Agent(
        ScriptedModel([asking, asking, AssistantMessage(id="m", content="done")]), tools=[roll]
    )

    result = await agent.run("go")

    messages = agent.messages
    asked = [call.id for one in (messages[1], messages[5]) for call in one.tool_calls]
    answers = [one for one in messages if isinstance(one, ToolMessage)]
    assert len({one.id for one in messages}) == len(messages) == 10
    assert len(set(asked)) == 6
    assert all(asked)
    assert [one.tool_call_id for one in answers] == asked
    assert [one.text for one in answers] == [f"rolled {n}" for n in (1, 2, 3)] * 2
    assert (result.text, sorted(ran)) == ("done", [1, 1, 2, 2, 3, 3])


async def test_an_unknown_stream_item_is_an_error():
    class Odd(Parrot):
        def stream(self, request):
            return Once([ModelDelta(kind="text", text="you"), {"text": " rolled"}, LAST])

    with pytest.raises(ModelError) as caught:
        [piece async for piece in Agent(Odd()).stream("hello")]

    assert str(caught.value) == "model 'parrot': its stream yielded `dict`, not a delta"


async def test_invalid_text_of_a_model_is_repaired():
    class Cuts(Parrot):
        name = "cuts"

        def __init__(self):
            super().__init__()
            call = given_call("c\ud83d", "say", '{"text": "half \\ud83d"}')
            script = [AssistantMessage(id="a", tool_calls=[call]), "done \ud83d"]
            self.script = ScriptedModel(script)

        async def complete(self, request):
            return await self.script.complete(request)

        async def stream(self, request):
            yield ModelDelta(kind="text", text="piece \ud83d")
            yield await self.complete(request)

    heard = []

    @tool
    async def say(text: str) -> str:
        heard.append(text)
        return text

    ran, streamed = Agent(Cuts(), tools=[say]), Agent(Cuts(), tools=[say])
    result = await ran.run("go")
    pieces = [piece async for piece in streamed.stream("go")]

    assert (result.text, pieces[-1].text) == ("done \ufffd", "done \ufffd")
    assert {one.text for one in pieces if isinstance(one, ModelDelta)} == {"piece \ufffd"}
    assert heard == ["half \ufffd"] * 2
    for agent in (ran, streamed):
        assert [one.text for one in agent.messages] == ["go", "", "half \ufffd", "done \ufffd"]
        assert agent.messages[1].tool_calls[0].id == "c\ufffd"


@pytest.mark.parametrize(
    ("arguments", "raw"),
    [
        ('{"sides": NaN}', '{"sides": NaN}'),
        ({"sides": float("nan")}, '{"sides": NaN}'),
        ({"sides": 2**70}, f'{{"sides": {2**70}}}'),
        ("[1, 2]", "[1, 2]"),
        ('{"sides": 1', '{"sides": 1'),
        ('{"sides": 1\ud83d', '{"sides": 1\ufffd'),
    ],
)
async def test_arguments_beyond_json_stay_text(arguments, raw):
    outcomes = []

    @tool
    async def roll(sides: int) -> str:
        return f"rolled {sides}"

    asking = AssistantMessage(id="a", tool_calls=[given_call("c", "roll", arguments)])
    agent = Agent(ScriptedModel([asking, "done"]), tools=[roll])
    agent.on(TOOL_CALL_AFTER, lambda ctx: outcomes.append(ctx.value))

    result = await agent.run("go")

    assert [one.status for one in outcomes] == ["invalid_arguments"]
    assert (outcomes[0].requested.raw, outcomes[0].requested.arguments) == (raw, {})
    assert result.text == "done"
