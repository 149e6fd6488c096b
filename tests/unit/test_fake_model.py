"""The fake model, asked as hosts ask it, and whether it finds a text that was sent in disguise."""

import base64
import json
from urllib.request import Request, urlopen

import pytest
from tests.servers.fake_model import FakeModel, ModelCall

TURNS = [[ModelCall("run", {"command": "ls"}), ModelCall("run", {"command": "pwd"})], "all is well"]
SECRET = "a7Gq0+Zx\"1/kP='é4T"
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}


def messages(calls, stream):
    content = [
        {"type": "tool_use", "id": call_id, "name": "run", "input": {"command": "ls"}}
        for call_id in calls
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": text}]}
        for call_id, text in calls.items()
    ]
    spoken = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    tools = [{"name": "run", "input_schema": PARAMETERS}]
    started = [{"role": "user", "content": "go"}]
    body = {"messages": started + (spoken if calls else []), "tools": tools, "stream": stream}
    return "/v1/messages?beta=true", body


def chat(calls, stream):
    function = {"name": "run", "arguments": "{}"}
    spoken = [{"id": call_id, "type": "function", "function": function} for call_id in calls]
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": text}
        for call_id, text in calls.items()
    ]
    history = [{"role": "assistant", "content": None, "tool_calls": spoken}, *results]
    tools = [{"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}]
    started = [{"role": "user", "content": "go"}]
    body = {"messages": started + (history if calls else []), "tools": tools, "stream": stream}
    return "/v1/chat/completions", body


def responses(calls, stream):
    spoken = [
        {"type": "function_call", "call_id": call_id, "name": "run", "arguments": "{}"}
        for call_id in calls
    ]
    results = [
        {"type": "function_call_output", "call_id": call_id, "output": text}
        for call_id, text in calls.items()
    ]
    started = [{"role": "user", "content": "go"}]
    tools = [{"type": "function", "name": "run", "parameters": PARAMETERS}]
    return "/v1/responses", {"input": started + spoken + results, "tools": tools, "stream": stream}


def contents(calls, stream):
    spoken = [{"functionCall": {"id": call_id, "name": "run", "args": {}}} for call_id in calls]
    results = [
        {"functionResponse": {"id": call_id, "name": "run", "response": {"output": text}}}
        for call_id, text in calls.items()
    ]
    history = [{"role": "model", "parts": spoken}, {"role": "user", "parts": results}]
    started = [{"role": "user", "parts": [{"text": "go"}]}]
    tools = [{"functionDeclarations": [{"name": "run", "parametersJsonSchema": PARAMETERS}]}]
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    body = {"contents": started + (history if calls else []), "tools": tools}
    return f"/v1beta/models/fake:{method}", body


def post(model, path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with urlopen(Request(model.url + path, data), timeout=60) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", [messages, chat, responses, contents])
def test_script_is_played_turn_by_turn(wire, stream):
    with FakeModel(TURNS) as model:
        called = post(model, *wire({}, stream))
        again = post(model, *wire({}, stream))
        ended = post(model, *wire({"call_0_0": "a.txt", "call_0_1": "/tmp"}, stream))
        path, body = wire({}, stream)
        beside = post(model, path, body | {"tools": []})

    assert "call_0_0" in called
    assert "call_0_1" in called
    assert "call_0_1" in again
    assert "call_" not in ended.replace("function_call_", "")
    assert "fine" in beside
    assert [model.result(0, 0), model.result(0, 1), model.result(1)] == ["a.txt", "/tmp", None]
    assert not model.problems


def test_turn_follows_from_the_results():
    turns = [TURNS[0], lambda results: [ModelCall("run", {"command": results[0, 1]})]]
    with FakeModel(turns) as model:
        called = post(model, *chat({"call_0_0": "a.txt", "call_0_1": "/tmp"}, stream=False))

    assert '"call_1_0"' in called
    assert "/tmp" in called


def test_missing_tool_is_a_problem():
    with FakeModel([[ModelCall("walk", {})]]) as model:
        post(model, *chat({}, stream=False))

    assert model.problems == ["the host offers ['run'], not ['walk']"]


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: text,
        lambda text: json.dumps({"text": text}),
        lambda text: json.dumps(json.dumps({"text": text}, ensure_ascii=False)),
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.b64encode(f"a{text}bc".encode()).decode(),
        lambda text: base64.urlsafe_b64encode(f"ab{text}".encode()).decode(),
        lambda text: text.encode().hex(),
        lambda text: text[::-1],
    ],
)
def test_secret_is_found_in_disguise(disguise):
    with FakeModel([]) as model:
        post(model, "/v1/messages", disguise(SECRET).encode())

    assert model.leaks(SECRET) == ["/v1/messages"]
    assert model.leaks("another7Gq0Zx") == []
