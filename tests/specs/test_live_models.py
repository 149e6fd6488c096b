"""The scenarios of `specs/live_models.md`."""

import asyncio
import json
import logging
import re
import traceback
from contextlib import aclosing
from itertools import chain, pairwise, repeat

import pytest
from msgspec.structs import replace
from tests.servers import wire_shapes as shapes
from tests.servers.fake_provider import WIRES, FakeProvider, Reply
from tests.servers.providers import (
    CHAT,
    MESSAGES,
    RESPONSES,
    check_request,
    model_for,
    provider,
)

from toolbus import (
    Agent,
    AssistantMessage,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    tool,
)
from toolbus.errors import ContextOverflowError, ModelError, RegistrationError
from toolbus.events import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_ERROR,
    RUN_AFTER,
    TOOL_CALL_AFTER,
    ModelDelta,
    ModelReply,
    ModelRequest,
    RunResult,
    ToolCallOutcome,
)
from toolbus.messages import ReasoningPart, Resource, ResourcePart, encode
from toolbus.models import ScriptedModel
from toolbus.store import MemoryStore, SqliteStore

EVERY_WIRE = pytest.mark.parametrize("path", WIRES)
SEALING_WIRES = pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
COUNTS = {"input_tokens": 25, "output_tokens": 7, "cache_read_tokens": 5, "reasoning_tokens": 2}
KEY = "sk-" + "k3y" * 9

ASKING = [
    ("reasoning", "Two files, then.", "seal"),
    ("text", "Let me look: ä €."),
    ("call", "c1", "read", '{"path": "a"}'),
    ("call", "c2", "read", '{"path": "b"}'),
]
DONE = [("text", "Both are fine.")]
REQUEST = ModelRequest(model="m", messages=[UserMessage(id="u", content="hi")])


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"file {path}"


LOOKING = [("call", "c1", "look", "{}"), ("call", "c2", "fail", "{}")]


@tool
async def look() -> ToolResponse:
    """Look."""
    image = ImagePart(data="AAAA", mime_type="image/png")
    return ToolResponse((TextPart("a cat"), image))


@tool
async def fail() -> str:
    """Fail."""
    raise OSError("the disk is full")


def told(value):
    """Return what is the same over all wires of what passes in an event."""
    match value:
        case AssistantMessage():
            calls = [(call.name, dict(call.arguments)) for call in value.tool_calls]
            return "assistant", value.text, value.reasoning_text, calls, value.stop_reason
        case ToolMessage():
            return "tool", value.text, value.tool_name
        case UserMessage():
            return "user", value.text
        case ModelRequest():
            messages = [told(message) for message in value.messages]
            return value.model, messages, [spec.name for spec in value.tools]
        case ModelReply():
            return told(value.request), told(value.message)
        case ToolCall():
            return value.name, dict(value.arguments)
        case ToolCallOutcome():
            return value.status, told(value.requested), value.response.text
        case RunResult():
            counts = {name: value.usage.get(name) for name in COUNTS}
            return value.status, value.text, value.turns, counts, [told(m) for m in value.messages]
    return type(value).__name__


def listen(agent):
    """Return a list that fills with the events of *agent*; pieces that go on are one."""
    seen = []

    def note(ctx):
        value, entry = ctx.value, (ctx.event.name, told(ctx.value))
        if isinstance(value, ModelDelta) and not value.text:
            entry = (ctx.event.name, (value.kind, value.index), value.name)
        elif isinstance(value, ModelDelta):
            entry = (ctx.event.name, (value.kind, value.index), value.text)
            if seen and seen[-1][:2] == entry[:2]:
                seen[-1] = (*entry[:2], seen[-1][2] + value.text)
                return
        seen.append(entry)

    for event in CATALOGUE:
        agent.on(event, note)
    return seen


def evened(seen):
    """Return *seen* with the white space in arguments that only some models write left out."""
    return [
        (*entry[:2], json.loads(entry[2]))
        if entry[1][0] == "tool_call" and entry[2].startswith("{")
        else entry
        for entry in seen
    ]


async def run_through(agent, streams, prompt="look"):
    if not streams:
        return await agent.run(prompt)
    return [item async for item in agent.stream(prompt)][-1]


@pytest.mark.parametrize("streams", [False, True])
@EVERY_WIRE
async def test_every_wire_causes_the_same_events(path, streams):
    calls = [ToolCall(id=f"c{name}", name="read", arguments={"path": name}) for name in "ab"]
    asking = AssistantMessage(
        content=ASKING[1][1],
        reasoning=(ReasoningPart(ASKING[0][1]),),
        tool_calls=calls,
        stop_reason="tool_calls",
        usage=COUNTS,
    )
    last = AssistantMessage(content=DONE[0][1], stop_reason="stop", usage=COUNTS)
    scripted = Agent(ScriptedModel([asking, last], name="m"), tools=[read])
    expected = listen(scripted)
    script = await run_through(scripted, streams)

    async with provider(path, ASKING, DONE) as (server, model):
        agent = Agent(model, tools=[read])
        seen = listen(agent)
        result = await run_through(agent, streams)

    assert evened(seen) == evened(expected)
    assert told(result) == told(script)
    assert result.usage["input_tokens"] == 50
    assert [request.path for request in server.requests] == [path, path]
    for request in server.requests:
        check_request(request)


@EVERY_WIRE
async def test_calls_of_a_program_may_come_first(path):
    async with provider(path, DONE) as (server, model):
        agent = Agent(model, tools=[read])
        await agent.call_tool("read", path="a")
        result = await agent.run("and?")

    assert result.text == "Both are fine."
    check_request(server.requests[0])
    assert "file a" in json.dumps(server.requests[0].body)


ALTERNATING = [
    ("reasoning", "First.", "seal 1"),
    ("text", "I look."),
    ("call", "c1", "read", '{"path": "a"}'),
    ("reasoning", "Second.", "seal 2"),
    ("reasoning", "", "encrypted"),
    ("text", "And there."),
    ("call", "c2", "read", '{"path": "b"}'),
]


def items_sent(seen):
    """Return the items of the model's answer in the request *seen*, as `wire_shapes` has them."""
    items = []
    if seen.path == MESSAGES:
        (answer,) = [turn for turn in seen.body["messages"] if turn["role"] == "assistant"]
        blocks = answer["content"]
    else:
        blocks = seen.body["input"]
    for block in blocks:
        match block:
            case {"type": "thinking", "thinking": text, "signature": seal}:
                items.append(("reasoning", text, seal))
            case {"type": "redacted_thinking", "data": seal}:
                items.append(("reasoning", "", seal))
            case {"type": "reasoning", "summary": summary, "encrypted_content": seal}:
                items.append(("reasoning", "".join(one["text"] for one in summary), seal))
            case {"type": "text", "text": text} | {"role": "assistant", "content": str(text)}:
                items.append(("text", text))
            case {"type": "tool_use", "id": call_id, "name": name, "input": value}:
                items.append(("call", call_id, name, json.dumps(value)))
            case {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}:
                items.append(("call", call_id, name, json.dumps(json.loads(text))))
    return items


@pytest.mark.parametrize("streams", [False, True])
@SEALING_WIRES
async def test_reasoning_is_sent_back_unchanged(path, streams):
    async with provider(path, ALTERNATING, DONE) as (server, model):
        agent = Agent(model, tools=[read])
        await run_through(agent, streams)

    assert agent.messages[1].text == "I look.\nAnd there."
    assert items_sent(server.requests[1]) == ALTERNATING
    check_request(server.requests[1])


def with_other_text(part):
    return replace(part, text="Nothing.")


@pytest.mark.parametrize("change", [with_other_text, lambda part: part.with_text("Nothing.")])
@SEALING_WIRES
async def test_changed_reasoning_is_left_out(path, change):
    def rewrite(ctx):
        if isinstance(ctx.value, AssistantMessage) and ctx.value.tool_calls:
            parts = [
                change(part) if part.text == "First." else part for part in ctx.value.reasoning
            ]
            return replace(ctx.value, reasoning=tuple(parts), content="I shall look.")
        return None

    async with provider(path, ALTERNATING, DONE) as (server, model):
        agent = Agent(model, tools=[read])
        agent.on(MESSAGE_APPEND_BEFORE, rewrite)
        await agent.run("look")

    sent = items_sent(server.requests[1])
    body = json.dumps(server.requests[1].body)
    # The responses API encrypts beside the summary; what it encrypted is its own.
    thoughts = [item for item in sent if item[0] == "reasoning" and item[1]]
    assert [item[1] for item in thoughts] == ["Second."]
    assert not [text for text in ("First.", "Nothing.", "And there.") if text in body]
    assert [item for item in sent if item[0] == "text"] == [("text", "I shall look.")]
    assert [item[1] for item in sent if item[0] == "call"] == ["c1", "c2"]
    check_request(server.requests[1])


def around_messages(seen):
    """Return the text of the request *seen* before its messages, of those, and behind them."""
    name = '"input":' if seen.path == RESPONSES else '"messages":'
    start = seen.text.index(name) + len(name)
    _, end = json.JSONDecoder().raw_decode(seen.text, start)
    return seen.text[:start], seen.text[start:end], seen.text[end:]


@pytest.mark.parametrize("output_type", [str, dict[str, int], list[int]])
@EVERY_WIRE
async def test_a_request_begins_like_the_previous_one(path, output_type):
    done = [("text", '{"value": [1]}' if output_type == list[int] else '{"a": 1}')]
    answers = [LOOKING, ASKING[1:], done, LOOKING, Reply(400, {"error": {}}), LOOKING, done]
    async with provider(path, *answers) as (server, model):
        mark = {"cache_control": {"type": "ephemeral"}}
        agent = Agent(
            model,
            tools=[read, look, fail],
            system="be brief",
            model_settings=mark,
            output_type=output_type,
        )
        await agent.run("look")
        with pytest.raises(ModelError):
            await agent.run("and then")
        await agent.run("again")

    heads, messages, tails = zip(*map(around_messages, server.requests), strict=True)
    for before, after in pairwise(messages):
        assert after.startswith(before.rstrip("]}"))
        assert len(after) > len(before)
    assert (set(heads), set(tails)) == ({heads[0]}, {tails[0]})
    assert [seen.body["cache_control"] for seen in server.requests] == [{"type": "ephemeral"}] * 7


@pytest.mark.parametrize(("path", "other"), [(RESPONSES, MESSAGES), (MESSAGES, CHAT)])
async def test_reasoning_stays_with_its_provider(path, other):
    async with provider(path, ALTERNATING, DONE) as (_, model):
        agent = Agent(model, tools=[read])
        await agent.run("look")
    async with provider(other, DONE) as (server, model):
        request = ModelRequest(model="m", messages=tuple(agent.messages))
        await model.complete(request)

    body = json.dumps(server.requests[0].body)
    assert not [word for word in ("seal", 'encrypted"', "First.", "Second.") if word in body]
    assert "And there." in body
    check_request(server.requests[0])


async def test_reasoning_between_calls_is_sent_back():
    async with provider(CHAT, ASKING, DONE, ASKING, DONE) as (server, model):
        agent = Agent(model, tools=[read])
        await agent.run("look")
        await agent.run("again")

    thoughts = [
        [turn.get("reasoning_content") for turn in seen.body["messages"] if "tool_calls" in turn]
        for seen in server.requests
    ]
    assert thoughts == [[], ["Two files, then."], [None], [None, "Two files, then."]]


MEDIA = (
    TextPart("see"),
    ImagePart(data="AAAA", mime_type="image/png"),
    ResourcePart(resource=Resource(uri="r.pdf", mime_type="application/pdf", blob="BBBB")),
    ResourcePart(resource=Resource(uri="https://x.test/y", mime_type="image/*")),
    ResourcePart(resource=Resource(uri="notes", text="words")),
)


@EVERY_WIRE
async def test_images_and_documents_are_sent(path):
    async with provider(path, DONE) as (server, model):
        await Agent(model).run(list(MEDIA))

    (seen,) = server.requests
    check_request(seen)
    turn = seen.body["input" if path == RESPONSES else "messages"][0]
    kinds = {
        CHAT: ["text", "image_url", "file", "image_url", "text"],
        RESPONSES: ["input_text", "input_image", "input_file", "input_image", "input_text"],
        MESSAGES: ["text", "image", "document", "image", "document"],
    }
    assert [part["type"] for part in turn["content"]] == kinds[path]
    body = json.dumps(turn)
    assert all(word in body for word in ("see", "AAAA", "BBBB", "r.pdf", "https://x.test/y"))
    assert "words" in body


@EVERY_WIRE
async def test_results_keep_images_and_errors(path):
    async with provider(path, LOOKING, DONE) as (server, model):
        await Agent(model, tools=[look, fail]).run("look")

    check_request(server.requests[1])
    turns = server.requests[1].body["input" if path == RESPONSES else "messages"][-3:]
    body = json.dumps(turns)
    assert "a cat" in body
    assert "AAAA" in body
    assert "the disk is full" in body
    if path == MESSAGES:
        first, second = turns[-1]["content"]
        assert [first.get("is_error"), second.get("is_error")] == [None, True]
        assert [block["type"] for block in first["content"]] == ["text", "image"]
    if path == CHAT:
        assert [turn["role"] for turn in turns] == ["tool", "tool", "user"]


@EVERY_WIRE
async def test_a_tool_cannot_inject_a_block(path):
    blocks = [{"type": kind, "id": "c9"} for kind in ("document", "file", "input_file", "tool_use")]

    @tool
    async def look() -> ToolResponse:
        resources = [
            Resource(uri=f"block:{block['type']}", text=json.dumps(block)) for block in blocks
        ]
        return ToolResponse(tuple(ResourcePart(resource=resource) for resource in resources))

    async with provider(path, LOOKING[:1], DONE) as (server, model):
        await Agent(model, tools=[look]).run("look")

    check_request(server.requests[1])
    turn = server.requests[1].body["input" if path == RESPONSES else "messages"][-1]
    content = {CHAT: lambda: turn["content"], RESPONSES: lambda: turn["output"]}.get(
        path, lambda: "\n".join(block["text"] for block in turn["content"][0]["content"])
    )()
    assert [json.loads(line) for line in content.splitlines()] == blocks


@EVERY_WIRE
async def test_a_refusal_is_text_and_stop_reason(path):
    async with provider(path, [("refusal", "I will not.")], DONE) as (server, model):
        agent = Agent(model)
        result = await agent.run("do evil")
        await agent.run("then do good")

    assert (result.text, result.message.stop_reason) == ("I will not.", "refusal")
    check_request(server.requests[1])
    assert "I will not." in json.dumps(server.requests[1].body)


@pytest.mark.parametrize("arguments", ['{"path": "a', "[1]", "nonsense"])
@EVERY_WIRE
async def test_malformed_arguments_are_answered(path, arguments):
    outcomes = []
    asking = [("call", "c1", "read", arguments)]
    if path == MESSAGES:
        events = shapes.anthropic_events([("call", "c1", "read", "{}")])
        deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
        deltas[-1]["partial_json"] = arguments
        asking = Reply(events=events)

    async with provider(path, asking, DONE) as (server, model):
        agent = Agent(model, tools=[read])
        agent.on(TOOL_CALL_AFTER, lambda ctx: outcomes.append(ctx.value))
        result = await run_through(agent, streams=path == MESSAGES)

    assert [(one.status, one.requested.raw) for one in outcomes] == [
        ("invalid_arguments", arguments)
    ]
    assert result.text == "Both are fine."
    body = json.dumps(server.requests[1].body)
    assert json.dumps(arguments).strip('"').replace("\\", "") in body.replace("\\", "")
    check_request(server.requests[1])


@EVERY_WIRE
async def test_odd_names_reach_their_tools(path):
    @tool(name="files.read/all")
    async def odd(path: str) -> str:
        """Read."""
        return f"odd {path}"

    async with provider(path, DONE) as (server, model):
        agent = Agent(model, tools=[odd])
        await agent.run("hello")
        (spec,) = server.requests[0].body["tools"]
        name = spec.get("name") or spec["function"]["name"]
        server.answers = [[("call", "c1", name, '{"path": "a"}')], DONE]
        await agent.run("look")

    assert name.startswith("files_read_all_")
    assert [message.tool_name for message in agent.messages if message.role == "tool"] == [
        "files.read/all"
    ]
    assert agent.messages[-2].text == "odd a"
    for seen in server.requests:
        check_request(seen)


@pytest.mark.parametrize("index", [None, 0])
async def test_calls_without_indexes_are_distinguished(index):
    chunks = shapes.chat_chunks(ASKING)
    for chunk in chunks:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                call["index"] = index
                if index is None:
                    del call["index"]

    async with provider(CHAT, Reply(events=chunks), DONE) as (_, model):
        agent = Agent(model, tools=[read])
        await run_through(agent, streams=True)

    results = [message.text for message in agent.messages if message.role == "tool"]
    assert results == ["file a", "file b"]


@EVERY_WIRE
async def test_settings_are_sent_unchanged(path):
    defaults = {CHAT: "stream_options", RESPONSES: "store", MESSAGES: "system"}
    settings = {"temperature": 0.5, "min_p": {"deep": [1]}, defaults[path]: None}

    if path == MESSAGES:
        del settings["system"]
        settings["max_tokens"] = 100
    async with provider(path, DONE) as (server, model):
        await run_through(Agent(model, model_settings=settings), streams=True)

    (seen,) = server.requests
    assert (seen.body["temperature"], seen.body["min_p"]) == (0.5, {"deep": [1]})
    assert defaults[path] not in seen.body
    assert seen.body.get("max_tokens") == (100 if path == MESSAGES else None)


@pytest.mark.parametrize("name", ["messages", "input", "tools", "stream"])
async def test_settings_cannot_replace_the_request(name):
    path = RESPONSES if name == "input" else CHAT
    async with provider(path, DONE) as (server, model):
        with pytest.raises(RegistrationError, match=f"model setting '{name}': it is derived from"):
            await Agent(model, model_settings={name: []}).run("hello")

    assert server.requests == []


@pytest.mark.parametrize("chunk", [1, 5, 10_000])
@EVERY_WIRE
async def test_any_chunks_give_the_same_answer(path, chunk):
    items = ALTERNATING if path != CHAT else ASKING
    async with provider(path, items, items, chunk=chunk) as (_, model):
        whole = await model.complete(REQUEST)
        *pieces, answer = [piece async for piece in model.stream(REQUEST)]

    def joined(kind, index=0):
        return "".join(one.text for one in pieces if (one.kind, one.index) == (kind, index))

    assert replace(answer, id=whole.id) == whole
    assert joined("text") == whole.text
    assert joined("reasoning") == whole.reasoning_text.replace("\n", "")
    assert [json.loads(joined("tool_call", index)) for index in (0, 1)] == [
        dict(call.arguments) for call in whole.tool_calls
    ]
    assert len(pieces) > 10


@EVERY_WIRE
async def test_a_truncated_stream_is_an_error(path):
    events = WIRES[path][1](ASKING)
    cuts = [Reply(events=events[:count]) for count in range(len(events))]
    if path == CHAT:
        cuts = cuts[:-1]  # Behind the last come only counts.
    ran = []

    async with provider(path, *cuts, DONE) as (server, model):
        agent = Agent(model, tools=[read])
        agent.on(TOOL_CALL_AFTER, lambda ctx: ran.append(ctx.value))
        for _ in cuts:
            with pytest.raises(ModelError):
                [piece async for piece in agent.stream("hello")]
        result = await agent.run("and now?")

    assert len(server.requests) == len(cuts) + 1 > 10
    assert [message.role for message in agent.messages] == [
        *["user"] * len(cuts),
        "user",
        "assistant",
    ]
    assert (result.text, ran) == ("Both are fine.", [])


@pytest.mark.full
@EVERY_WIRE
async def test_many_sessions_stream_at_once(path):
    def answer(seen):
        turn = seen.body["input" if path == RESPONSES else "messages"][0]["content"]
        number = turn[0]["text"] if path == MESSAGES else turn
        return [("text", " ".join(f"{number}.{count}" for count in range(40)))]

    async def run(number, model):
        agent = Agent(model)
        *pieces, _, result = [piece async for piece in agent.stream(str(number))]
        return "".join(piece.text for piece in pieces), result.text

    async with FakeProvider(answer, chunk=50) as server, model_for(path, server) as model:
        texts = await asyncio.gather(*[run(number, model) for number in range(200)])

    for number, (streamed, whole) in enumerate(texts):
        assert streamed == whole == " ".join(f"{number}.{count}" for count in range(40))


ERRORS = {
    CHAT: {"error": {"message": "it burns", "type": "server_error", "code": None}},
    RESPONSES: {
        "type": "error",
        "code": "server_error",
        "message": "it burns",
        "param": None,
        "sequence_number": 3,
    },
    MESSAGES: {"type": "error", "error": {"type": "overloaded_error", "message": "it burns"}},
}


@EVERY_WIRE
async def test_an_error_in_mid_stream_is_named(path):
    events = WIRES[path][1](ASKING)[:3]
    async with provider(path, Reply(events=events, error=ERRORS[path]), max_retries=2) as (
        server,
        model,
    ):
        with pytest.raises(ModelError) as caught:
            [piece async for piece in model.stream(REQUEST)]

    assert "it burns" in str(caught.value)
    assert len(server.requests) == 1


@EVERY_WIRE
async def test_leaving_a_stream_ends_the_request(path):
    events = WIRES[path][1](ASKING)[:-3]
    async with provider(path, Reply(events=events, hangs=True)) as (server, model):
        async with aclosing(model.stream(REQUEST)) as stream:
            async for _ in stream:
                break
        await asyncio.wait_for(server.gone.wait(), 60)

    assert len(server.requests) == 1


RETRY = {"retry-after-ms": "1"}


@pytest.mark.parametrize("streams", [False, True])
@EVERY_WIRE
async def test_a_busy_server_is_retried(path, streams):
    busy = [Reply(status, {"error": {"message": "busy"}}, RETRY) for status in (429, 500)]
    async with provider(path, *busy, DONE, max_retries=2) as (server, model):
        result = await run_through(Agent(model), streams)

    assert (result.status, result.message.metadata["retries"]) == ("ok", 2)
    assert len(server.requests) == 3


@EVERY_WIRE
async def test_a_lasting_failure_is_reported(path):
    failures = []
    down = Reply(503, {"error": {"message": "the machine is down", "type": "x"}}, RETRY)
    async with provider(path, down, down, DONE, max_retries=1) as (_, model):
        agent = Agent(model)
        agent.on(MODEL_CALL_ERROR, lambda ctx: failures.append(ctx.value))
        with pytest.raises(ModelError, match="HTTP 503: the machine is down"):
            await agent.run("hello")
        result = await agent.run("and now?")

    (failure,) = failures
    assert (failure.error_type, failure.attempts) == ("ModelError", 2)
    assert failure.error_text == "model 'm': HTTP 503: the machine is down"
    assert result.status == "ok"


def withheld(path):
    """Return an empty answer that a filter has stopped, whole and as a stream."""
    whole, events = WIRES[path][0]([]), WIRES[path][1]([])
    match path:
        case "/v1/messages":
            whole["stop_reason"] = "refusal"
            next(e for e in events if e["type"] == "message_delta")["delta"] |= {
                "stop_reason": "refusal"
            }
        case "/v1/responses":
            ended = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
            whole |= ended
            events[-1]["type"] = "response.incomplete"
            events[-1]["response"] |= ended
        case _:
            whole["choices"][0]["finish_reason"] = "content_filter"
            for event in events:
                for choice in event["choices"]:
                    if choice["finish_reason"]:
                        choice["finish_reason"] = "content_filter"
    return whole, events


@pytest.mark.parametrize("streams", [False, True])
@EVERY_WIRE
async def test_a_withheld_answer_is_an_error(path, streams):
    whole, events = withheld(path)
    async with provider(path, Reply(body=whole, events=events if streams else None)) as (_, model):
        agent = Agent(model)
        with pytest.raises(ModelError, match=r"withheld the answer \((content_filter|refusal)\)"):
            await run_through(agent, streams)

    assert [message.role for message in agent.messages] == ["user"]


OVERFLOWS = [
    (CHAT, {"message": "too long", "code": "context_length_exceeded"}),
    (CHAT, {"message": "This model's maximum context length is 10 tokens", "code": 400}),
    (CHAT, {"message": "the request exceeds the available context size", "code": 400}),
    (RESPONSES, {"message": "Your input exceeds the context window", "code": "x"}),
    (MESSAGES, {"message": "prompt is too long: 11 tokens > 10 maximum", "type": "x"}),
]


@pytest.mark.parametrize(("path", "error"), OVERFLOWS)
async def test_an_overflow_is_its_own_error(path, error):
    async with provider(path, Reply(400, {"error": error})) as (_, model):
        with pytest.raises(ContextOverflowError) as caught:
            await Agent(model).run("hello")

    assert error["message"] in str(caught.value)


@EVERY_WIRE
async def test_a_silent_server_times_out(path):
    async with provider(path, Reply(hangs=True), timeout=0.1) as (_, model):
        with pytest.raises(ModelError, match=r"(?i)timed out"):
            await Agent(model).run("hello")


@EVERY_WIRE
async def test_cancelling_ends_the_request(path):
    async with provider(path, Reply(hangs=True), DONE) as (server, model):
        agent = Agent(model)
        run = asyncio.create_task(agent.run("hello"))
        while not server.requests:
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.wait_for(server.gone.wait(), 60)
        result = await agent.run("and now?")

    assert [message.role for message in agent.messages] == ["user", "user", "assistant"]
    assert result.status == "ok"


@pytest.mark.parametrize("streams", [False, True])
@EVERY_WIRE
async def test_the_server_sets_the_pause(path, streams, monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("anyio.sleep", sleep)
    busy = [
        Reply(status, {"error": {"message": "busy"}}, {"retry-after": seconds})
        for status, seconds in ((429, "7"), (503, "30"))
    ]
    async with provider(path, *busy, DONE, max_retries=2) as (_, model):
        await run_through(Agent(model), streams)

    assert pauses == [7, 30]


@pytest.mark.parametrize("streams", [False, True])
@EVERY_WIRE
async def test_a_long_pause_is_logged(path, streams, monkeypatch, caplog):
    told = []

    async def sleep(seconds):
        told.append((seconds, caplog.messages[-1]))

    monkeypatch.setattr("anyio.sleep", sleep)
    busy = Reply(429, {"error": {"message": "busy"}}, {"retry-after": "7"})
    async with provider(path, busy, DONE, max_retries=2) as (_, model):
        await run_through(Agent(model), streams)

    assert told == [(7, "model 'm': HTTP 429; retrying in 7.0 s")]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retry-after", "3600"),
        ("retry-after-ms", "3600000"),
        ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ("retry-after", "inf"),
    ],
)
@EVERY_WIRE
async def test_too_long_a_pause_is_an_error(path, name, value, streams):
    busy = Reply(529, {"error": {"message": "busy"}}, {name: value})
    async with provider(path, busy, max_retries=2) as (server, model):
        with pytest.raises(ModelError) as caught:
            await run_through(Agent(model), streams)

    told = r"HTTP 529: busy; the server asks for a pause of (3,600|[\d,]{15}|inf) seconds"
    assert re.search(rf"{told}, the limit is 60$", str(caught.value))
    assert len(server.requests) == 1


@pytest.mark.parametrize("streams", [False, True])
@EVERY_WIRE
async def test_attempts_are_in_the_ledger(path, streams, tmp_path):
    busy = Reply(429, {"error": {"message": "busy"}}, RETRY)
    async with (
        SqliteStore(tmp_path / "s.db") as store,
        provider(path, busy, busy, DONE, busy, busy, busy, DONE, max_retries=2) as (_, model),
        Agent(model, store=store, session_id="s") as agent,
    ):
        answered = await run_through(agent, streams)
        with pytest.raises(ModelError):
            await run_through(agent, streams)
        await run_through(agent, streams)
        stored = [record for record in await store.records("s") if record.reason]

    assert [(record.event, record.reason) for record in agent.ledger if record.reason] == [
        ("model:call:after", "the request was repeated 2 times"),
        ("model:call:error", "the request was repeated 2 times"),
    ]
    assert stored == [record for record in agent.ledger if record.reason]
    assert [record.subject for record in stored] == [answered.message.id, ""]
    assert [record.scope.turn for record in stored] == [1, 1]


OVERFLOWING = {
    CHAT: {"message": "too long", "code": "context_length_exceeded"},
    RESPONSES: {"message": "Your input exceeds the context window", "code": "x"},
    MESSAGES: {"message": "prompt is too long: 11 tokens > 10 maximum", "type": "x"},
}
FAILURES = {
    "overflow": lambda path: Reply(400, {"error": OVERFLOWING[path]}),
    "busy": lambda path: Reply(429, {"error": {"message": "busy"}}),
    "down": lambda path: Reply(503, b"<html>"),
    "timeout": lambda path: Reply(hangs=True),
    "timeout in a stream": lambda path: Reply(events=WIRES[path][1](ASKING)[:5], hangs=True),
    "no answer": lambda path: Reply(events=[]),
    "cut": lambda path: Reply(body=WIRES[path][0](ASKING), cut_at=50),
    "cut stream": lambda path: Reply(events=WIRES[path][1](ASKING)[:-2]),
    "error": lambda path: Reply(events=WIRES[path][1](ASKING)[:5], error=ERRORS[path]),
}


class FirstOf:
    """Asks *first* once, and then *other*."""

    name = "m"

    def __init__(self, first, other):
        self._models = chain([first], repeat(other))

    async def complete(self, request):
        return await next(self._models).complete(request)

    def stream(self, request):
        return next(self._models).stream(request)


@pytest.mark.full
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("failure", FAILURES)
@EVERY_WIRE
async def test_sessions_continue_after_any_failure(path, failure, streams):
    def answer(seen):
        prompt = json.dumps(seen.body)
        if "go on" in prompt:
            return DONE
        return FAILURES[failure](path) if "file a" in prompt else ASKING

    store = MemoryStore()
    async with (
        FakeProvider(answer) as server,
        model_for(path, server, timeout=0.1) as impatient,
        model_for(path, server) as model,
    ):
        ends, is_timeout = [], failure.startswith("timeout")
        first = FirstOf(impatient, model) if is_timeout else model
        async with Agent(first, tools=[read], store=store, session_id="s") as agent:
            agent.on(RUN_AFTER, lambda ctx: ends.append(ctx.value))
            if is_timeout:  # So that nothing but the failure has so little time.
                await agent.call_tool("read", path="a")
            with pytest.raises(ContextOverflowError if failure == "overflow" else ModelError):
                await run_through(agent, streams)
            check_transcript(agent.messages)
            following = await run_through(agent, streams, "go on")
        async with Agent(model, tools=[read], store=store, session_id="s") as resumed:
            result = await run_through(resumed, streams, "and go on")
            check_transcript(resumed.messages)

    assert [end.status for end in ends] == ["error", "ok"]
    assert ends[0].reason.startswith(("ModelError: ", "ContextOverflowError: "))
    assert (following.text, result.text) == ("Both are fine.",) * 2
    for seen in server.requests:
        check_request(seen)


def check_transcript(messages):
    """Fail unless each call has its message, behind the answer that asks for it."""
    open_calls = []
    for message in messages:
        if message.role == "tool":
            open_calls.remove(message.tool_call_id)
        else:
            assert open_calls == []
            open_calls += [call.id for call in getattr(message, "tool_calls", ())]
    assert open_calls == []


@pytest.mark.full
@EVERY_WIRE
async def test_sessions_continue_after_a_reader_leaves(path):
    def answer(seen):
        return DONE if "file a" in json.dumps(seen.body) or "go on" in str(seen.body) else ASKING

    async with FakeProvider(answer) as server, model_for(path, server) as model:
        whole = [item async for item in Agent(model, tools=[read]).stream("look")]
        cancelled = 0
        for count in range(1, len(whole)):
            ends, agent = [], Agent(model, tools=[read])
            agent.on(RUN_AFTER, lambda ctx, ends=ends: ends.append(ctx.value.status))
            async with aclosing(agent.stream("look")) as stream:
                for _ in range(count):
                    await anext(stream)
                # The run does not wait for its reader, and may be ahead of it.
                had_ended = list(ends)
            check_transcript(agent.messages)
            cancelled += not had_ended
            result = await run_through(agent, streams=True, prompt="go on")
            check_transcript(agent.messages)
            assert ends == [*(had_ended or ["cancelled"]), "ok"]
            assert result.text == "Both are fine."

    assert len(whole) > 20
    assert cancelled
    for seen in server.requests:
        check_request(seen)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "malformed"),
        (b"", "truncated"),
        ([], "expected"),
        ({"object": "other"}, "expected"),
        ({"choices": [{}], "output": [5], "content": [5]}, "expected"),
        ({"error": {"message": "no such model"}}, "no such model"),
    ],
)
@EVERY_WIRE
async def test_an_invalid_answer_is_an_error(path, body, words):
    async with provider(path, Reply(200, body)) as (_, model):
        with pytest.raises(ModelError, match=words):
            await Agent(model).run("hello")


@EVERY_WIRE
async def test_a_key_appears_in_no_text(path, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", KEY)
    texts = []
    echo = Reply(401, {"error": {"message": f"no such key: {KEY}", "type": "auth"}})
    store = SqliteStore(tmp_path / "s.db")
    async with (
        provider(path, echo, DONE, key_env="MY_KEY") as (server, model),
        Agent(model, store=store, keep_originals=True) as agent,
    ):
        for event in CATALOGUE:
            agent.on(event, lambda ctx: texts.append(encode(ctx.value).decode()))
        with pytest.raises(ModelError) as caught:
            await agent.run("hello")
        await agent.run("hello")
        texts += [str(agent.ledger), repr(model), repr(agent), repr(vars(model))]
    await store.close()

    assert KEY in str(server.requests[0].headers)
    error = caught.value
    assert "no such key: [key]" in str(error)
    assert error.__cause__ is error.__context__ is None
    texts += ["".join(traceback.format_exception(error)), caplog.text]
    assert KEY not in "\n".join(texts)
    assert not [file for file in tmp_path.iterdir() if KEY.encode() in file.read_bytes()]


@EVERY_WIRE
async def test_a_key_goes_to_no_other_server(path, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID"):
        monkeypatch.setenv(name, KEY)
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, f"X-Gateway: {KEY}\nX-Mine: {KEY}")
    named = "ANTHROPIC_API_KEY" if path == MESSAGES else "OPENAI_API_KEY"

    async with provider(path, DONE, headers={"X-Mine": "given"}) as (server, model):
        await model.complete(REQUEST)
    async with provider(path, DONE, key_env=named) as (trusted, model):
        await model.complete(REQUEST)

    assert KEY not in str(server.requests[0].headers)
    assert server.requests[0].headers["x-mine"] == "given"
    assert "authorization" not in server.requests[0].headers
    (name,) = [name for name, value in trusted.requests[0].headers.items() if KEY in value]
    assert name in {"authorization", "x-api-key"}


@EVERY_WIRE
async def test_a_redirect_is_not_followed(path, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    async with FakeProvider([DONE]) as other:
        moved = Reply(307, {"error": {"message": "moved"}}, {"location": f"{other.url}{path}"})
        async with provider(path, moved, key_env="MY_KEY") as (_, model):
            with pytest.raises(ModelError, match="HTTP 307"):
                await model.complete(REQUEST)

    assert other.requests == []


@EVERY_WIRE
async def test_a_key_may_be_in_a_file(path, tmp_path):
    good, shared, two = (tmp_path / name for name in ("good", "shared", "two"))
    for file, text in ((good, f"{KEY}\n"), (shared, KEY), (two, "a\nb")):
        file.write_text(text)
        file.chmod(0o640 if file is shared else 0o600)

    async with provider(path, DONE, key_file=good) as (server, model):
        await model.complete(REQUEST)
        refused = [
            pytest.raises(RegistrationError, match=words)
            for words in ("others may use it", "No such file", "has invalid characters")
        ]
        for caught, file in zip(refused, (shared, tmp_path / "none", two), strict=True):
            with caught:
                model_for(path, server, key_file=file)

    assert KEY in str(server.requests[0].headers)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "path"),
    [("openai:m", CHAT), ("openai-responses:m", RESPONSES), ("anthropic:m", MESSAGES)],
)
def test_a_name_creates_the_model(name, path, monkeypatch):
    loop = asyncio.new_event_loop()
    server = FakeProvider([DONE, DONE])
    loop.run_until_complete(server.__aenter__())
    for variable, value in {
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
    }.items():
        monkeypatch.setenv(variable, value)
    agent = Agent(name)

    async def elsewhere():
        return [await asyncio.to_thread(agent.run_sync, prompt) for prompt in ("hello", "again")]

    results = loop.run_until_complete(elsewhere())
    open_connections = len(server._tasks)
    loop.run_until_complete(server.__aexit__())
    loop.close()

    assert [result.text for result in results] == ["Both are fine."] * 2
    assert [(seen.path, seen.body["model"]) for seen in server.requests] == [(path, "m")] * 2
    assert KEY in str(server.requests[0].headers)
    assert open_connections == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("opnai:m", r"expected PROVIDER:NAME.*; did you mean 'openai'"),
        ("gpt-5", r"model 'gpt-5': expected PROVIDER:NAME"),
        ("openai:", "expected PROVIDER:NAME"),
        ("openai:m", "no key for 'api.openai.com': set OPENAI_API_KEY, or name a private file"),
        ("anthropic:m", "no key for 'api.anthropic.com': set ANTHROPIC_API_KEY"),
    ],
)
def test_unknown_names_are_refused(name, words, monkeypatch):
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(RegistrationError, match=words):
        Agent(name)
