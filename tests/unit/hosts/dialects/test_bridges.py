"""pi's and OpenCode's events as our bridges sent them, and the exact answers that they take."""

import json

import pytest

from recorded_events import answered, blocked, decoded, recorded, texts, with_texts
from toolbus.errors import DecodeError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.bridges import bridge_source
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.messages.records import ToolCall

SESSIONS = {
    "pi": "00000000-0000-4000-8000-000000000001",
    "opencode": "ses_0000000000000000000000000000",
}
CALLS = [("pi", "tool_call"), ("opencode", "tool.execute.before")]
RESULTS = [
    ("pi", "tool_result", [{"type": "text", "text": "new"}]),
    ("opencode", "tool.execute.after", "new"),
    ("opencode", "tool.execute.after-mcp", [{"type": "text", "text": "new"}]),
    ("opencode", "tool.failed", "new"),
]


@pytest.mark.parametrize(
    ("host", "name", "kind", "text"),
    [
        ("pi", "session_start", "session_start", ""),
        ("pi", "input", "prompt", "run it"),
        ("pi", "tool_call", "call", ""),
        ("pi", "tool_result", "result", ""),
        ("pi", "agent_end", "answer", "FINAL"),
        ("pi", "session_shutdown", "session_end", ""),
        ("opencode", "chat.message", "prompt", '"run it"'),
        ("opencode", "tool.execute.before", "call", ""),
        ("opencode", "tool.execute.after", "result", ""),
        ("opencode", "tool.failed", "result", ""),
        ("opencode", "experimental.text.complete", "answer", "FINAL"),
    ],
)
def test_each_event_says_its_kind_session_and_folder(host, name, kind, text):
    event = decoded(host, name)

    assert (event.kind, event.session_id, event.text) == (kind, SESSIONS[host], text)
    assert (event.host, event.name, event.folder) == (host, name, "/home/ann/work")


@pytest.mark.parametrize(("host", "name"), CALLS)
def test_a_call_has_its_id_name_and_arguments(host, name):
    call = decoded(host, name).call

    assert (call.id, call.name) == ("call00001", "bash")
    assert call.arguments["command"] == "echo the-planted-word"


def test_a_result_is_a_text_or_blocks():
    assert texts(decoded("pi", "tool_result")) == ["the-planted-word\n"]
    assert texts(decoded("opencode", "tool.execute.after")) == ["the-planted-word\n"]
    assert texts(decoded("opencode", "tool.execute.after-mcp")) == [
        "the-planted-word struct",
        "second",
    ]
    assert not decoded("pi", "tool_result").response.is_error


def test_a_failure_is_one():
    failures = decoded("pi", "tool_result-failure"), decoded("opencode", "tool.failed")

    assert [event.response.is_error for event in failures] == [True, True]
    assert ["the-planted-word" in texts(event)[0] for event in failures] == [True, True]


@pytest.mark.parametrize("host", SESSIONS)
def test_what_passes_is_answered_by_an_empty_object(host):
    for name in dialect(host).facts.kinds:
        assert answered(host, name) == ({}, ())


@pytest.mark.parametrize(("host", "name"), CALLS)
def test_a_call_is_denied_or_rewritten(host, name):
    call = decoded(host, name).call.with_arguments({"command": "ls"})

    assert answered(host, name, denied="no") == ({"block": "no"}, ())
    assert answered(host, name, asked="really?") == ({"block": "really?"}, ("ask",))
    assert answered(host, name, call=call) == ({"arguments": {"command": "ls"}}, ())
    assert answered(host, name, call=ToolCall(name="other"))[0].keys() == {"block"}
    assert answered(host, name, context=("lost",)) == ({}, ("add_context",))


def test_pi_asks_where_somebody_sits_at_the_screen():
    payload = recorded("pi", "tool_call") | {"can_ask": True}
    event = dialect("pi").decode("tool_call", payload)
    call = event.call.with_arguments({"command": "ls"})

    def encoded(**decision):
        return json.loads(dialect("pi").encode(event, HookDecision(**decision)).stdout)

    assert encoded(asked="really?", call=call) == {
        "ask": "really?",
        "arguments": {"command": "ls"},
    }
    assert encoded(asked="really?", denied="no") == {"block": "no"}


@pytest.mark.parametrize(("host", "name", "expected"), RESULTS)
def test_a_result_is_replaced_in_its_own_form(host, name, expected):
    assert answered(host, name, response=with_texts("new")) == ({"result": expected}, ())
    assert answered(host, name, denied="no") == ({"block": "no"}, ())


@pytest.mark.parametrize(("host", "name", "expected"), RESULTS)
def test_context_stands_behind_a_result(host, name, expected):
    answer, undelivered = answered(host, name, response=with_texts("new"), context=("more",))

    more = "\n\nmore" if isinstance(expected, str) else [{"type": "text", "text": "more"}]
    assert (answer, undelivered) == ({"result": expected + more}, ())


def test_a_changed_block_goes_back_to_its_place():
    before = decoded("opencode", "tool.execute.after-mcp").response
    after = before.map_text(lambda text: text.replace("the-planted-word", "[redacted]"))

    answer, _ = answered("opencode", "tool.execute.after-mcp", response=after)

    assert answer["result"] == [
        {"type": "text", "text": "[redacted] struct"},
        {"type": "text", "text": "second"},
    ]


@pytest.mark.parametrize(("host", "name"), [("pi", "input"), ("opencode", "chat.message")])
def test_a_prompt_is_denied_or_has_context(host, name):
    assert answered(host, name, denied="no") == ({"block": "no"}, ())
    assert answered(host, name, context=("one", "two")) == ({"context": "one\n\ntwo"}, ())


@pytest.mark.parametrize("host", SESSIONS)
def test_each_event_is_stopped_alike(host):
    for name in dialect(host).facts.kinds:
        assert blocked(host, name) == ({"block": "toolbus: it broke"}, ())


@pytest.mark.parametrize(
    ("missing", "value"), [("session_id", 5), ("call_id", ""), ("result", {}), ("arguments", [])]
)
def test_an_event_of_another_form_is_refused(missing, value):
    payload = recorded("pi", "tool_result") | {missing: value}

    with pytest.raises(DecodeError, match=missing):
        dialect("pi").decode("tool_result", payload)


@pytest.mark.parametrize("file", ["pi_bridge.ts", "opencode_bridge.js"])
def test_a_bridge_is_written_with_its_command_as_json(file):
    command = ["/py \"thon'", "-I", "-S", "/folder\n/$x`y`", "pi"]

    text = bridge_source(file, command, limit=1.5)

    line = next(line for line in text.splitlines() if line.startswith("const SETTINGS"))
    assert json.loads(line.removeprefix("const SETTINGS = ")) == {
        "command": command,
        "limit_ms": 1500,
    }
    assert text.count("SETTINGS = ") == 1
