"""Corners of the formats of others: seldom shapes, wrong ones, and what is remembered."""

import json
from io import BytesIO

import pytest

from toolbus.errors import DecodeError
from toolbus.formats.anthropic_messages import part_of
from toolbus.formats.chat_messages import message_of
from toolbus.formats.items import MessageItem, Problem, SkippedLine
from toolbus.formats.json_input import ToolNames, parse
from toolbus.formats.session_files import read
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    Resource,
    ResourcePart,
    TextPart,
    ToolCall,
    ToolMessage,
)


def found(*lines, kind=None):
    data = b"\n".join([json.dumps(line).encode() for line in lines])
    return list(read(BytesIO(data), "file", kind=kind))


def said(*lines, kind=None):
    return [item.message for item in found(*lines, kind=kind) if isinstance(item, MessageItem)]


def reasons(*lines, kind=None):
    return [item.reason for item in found(*lines, kind=kind) if isinstance(item, Problem)]


def openai(message):
    return message_of(message, "m", ToolNames(), "$")


PARTS = [
    (
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        Resource(uri="https://x/y.png", mime_type="image/*"),
    ),
    (
        {"type": "image_url", "image_url": "data:image/gif;base64,AA"},
        ImagePart(data="AA", mime_type="image/gif"),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        AudioPart(data="AA", mime_type="audio/wav"),
    ),
    ({"type": "refusal", "refusal": "no"}, TextPart(text="no")),
    (
        {"type": "file", "file": {}},
        Resource(uri="block:file", mime_type="application/json", text='{"type":"file","file":{}}'),
    ),
]


@pytest.mark.parametrize(("part", "ours"), PARTS)
def test_a_part_of_openai_becomes_ours(part, ours):
    (made,) = openai({"role": "user", "content": [part]}).content

    assert made == (ResourcePart(resource=ours) if isinstance(ours, Resource) else ours)


BLOCKS = [
    (
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        Resource(uri="https://x", mime_type="image/*"),
    ),
    (
        {"type": "document", "source": {"type": "base64", "media_type": "a/b", "data": "AA"}},
        Resource(uri="document", mime_type="a/b", blob="AA"),
    ),
    (
        {"type": "document", "source": {"type": "text", "data": "x"}},
        Resource(uri="document", text="x"),
    ),
]


@pytest.mark.parametrize(("block", "resource"), BLOCKS)
def test_a_block_of_anthropic_becomes_ours(block, resource):
    assert part_of(block, "$") == ResourcePart(resource=resource)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "tool", "content": "x"}, "expected a tool_call_id"),
        ({"role": "alien", "content": "x"}, "unknown role 'alien'"),
        ({"content": "x"}, "expected a message with a role"),
        ({"role": "user", "content": [5]}, "expected a content part"),
        ({"role": "user", "content": 5}, "expected text or an array of parts"),
        (
            {
                "role": "system",
                "content": [{"type": "image_url", "image_url": "data:a/b;base64,AA"}],
            },
            "expected text",
        ),
        ({"role": "assistant", "tool_calls": 5}, "expected an array"),
        ({"role": "assistant", "tool_calls": [5]}, "expected a call with id and function"),
        ({"role": "assistant", "function_call": "x"}, "expected a call with name and arguments"),
    ],
)
def test_a_wrong_message_of_openai_is_named(message, reason):
    with pytest.raises(DecodeError, match=reason):
        openai(message)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([5], "expected a content block"),
        (5, "expected text or an array of blocks"),
        ([{"type": "tool_result"}], "expected a tool_use_id"),
        ([{"type": "tool_result", "tool_use_id": "t", "is_error": 1}], "expected true or false"),
    ],
)
def test_a_wrong_user_turn_of_anthropic_is_named(content, reason):
    (told,) = reasons({"messages": [{"role": "user", "content": content}]}, kind="anthropic")

    assert reason in told
    assert "$.messages[0].content" in told


@pytest.mark.parametrize("message", [5, {"role": "alien", "content": "x"}, {"role": "user"}])
def test_a_wrong_message_of_anthropic_is_named(message):
    (told,) = reasons({"messages": [message]}, kind="anthropic")

    assert "expected a message with role and content" in told


@pytest.mark.parametrize("block", [{"type": "tool_use", "name": "x"}, 5])
def test_a_wrong_answer_of_anthropic_is_named(block):
    line = {"messages": [{"role": "assistant", "content": [block]}]}

    assert len(reasons(line, kind="anthropic")) == 1


def test_an_input_that_is_no_object_is_kept_as_text():
    block = {"type": "tool_use", "id": "t", "name": "x", "input": [1]}

    (answer,) = said({"messages": [{"role": "assistant", "content": [block]}]})

    assert answer.tool_calls == (ToolCall(id="t", name="x", raw="[1]"),)


def test_refusals_names_and_developers_are_kept():
    refused = openai({"role": "assistant", "content": None, "refusal": "no", "name": "bot"})
    developer = openai({"role": "developer", "content": [{"type": "text", "text": "a"}] * 2})

    assert (refused.text, refused.metadata) == ("no", {"name": "bot"})
    assert (developer.text, developer.metadata) == ("a\na", {"role": "developer"})


def test_calls_may_be_custom_bare_or_objects():
    calls = [
        {"id": "1", "custom": {"name": "sql", "input": "SELECT 1"}},
        {"id": "2", "function": {"name": "now"}},
        {"id": "3", "function": {"name": "look", "arguments": {"a": 1}}},
        {"id": "4", "function": {"name": "look", "arguments": {"a": 2**70}}},
    ]

    made = openai({"role": "assistant", "tool_calls": calls}).tool_calls

    assert made == (
        ToolCall(id="1", name="sql", raw="SELECT 1"),
        ToolCall(id="2", name="now"),
        ToolCall(id="3", name="look", arguments={"a": 1}),
        ToolCall(id="4", name="look", raw=f'{{"a":{2**70}}}'),
    )


def test_a_result_without_its_call_has_its_own_name_or_none():
    named = openai({"role": "tool", "tool_call_id": "c", "name": "look", "content": "x"})
    nameless = openai({"role": "tool", "tool_call_id": "c", "content": None})

    assert (named.tool_name, nameless.tool_name, nameless.text) == ("look", "", "")


def test_reasoning_usage_and_reason_to_stop_are_kept():
    reply = {
        "choices": [
            {
                "message": {"role": "assistant", "content": "x", "reasoning_content": "hm"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"total_tokens": 3},
    }

    _, answer = said(
        {"request": {"messages": [{"role": "user", "content": "q"}]}, "response": reply}
    )

    assert (answer.reasoning_text, answer.stop_reason, answer.usage) == (
        "hm",
        "stop",
        {"total_tokens": 3},
    )


def test_a_log_of_anthropic_has_its_answer():
    line = {
        "request": {"body": {"messages": [{"role": "user", "content": "q"}]}},
        "response": {
            "body": {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1},
            }
        },
    }

    _, answer = said(line)

    assert (answer.text, answer.stop_reason, answer.usage) == ("a", "stop", {"input_tokens": 1})


def test_a_system_message_among_anthropics_is_one():
    spoken = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]

    assert [one.role for one in said({"messages": spoken}, kind="anthropic")] == ["system", "user"]


def test_a_line_without_messages_is_a_problem():
    assert "expected an object with messages" in reasons([], kind="openai")[0]


def test_an_empty_turn_is_an_empty_message():
    (turn,) = said({"system": "s", "messages": [{"role": "user", "content": []}]})[1:]

    assert turn.text == ""


def test_names_are_forgotten_when_answered_or_too_many():
    names = ToolNames(limit=2)
    calls = [ToolCall(id=str(at), name=f"n{at}") for at in range(3)]
    names.add(AssistantMessage(id="a", tool_calls=tuple(calls)))
    names.add(ToolMessage(id="t", tool_call_id="2", tool_name="n2"))

    assert [names.of(str(at)) for at in range(3)] == ["", "n1", ""]


def claude(kind, content, uuid, message_id=None, **more):
    message = {"content": content} | ({"id": message_id} if message_id else {})
    return {"type": kind, "sessionId": "S", "uuid": uuid, "message": message, **more}


def text(value):
    return [{"type": "text", "text": value}]


def test_a_result_between_the_lines_of_an_answer_splits_it():
    use = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}

    first, answered, second = said(
        claude("assistant", [use], "1", "m"),
        claude("user", [result], "2"),
        claude("assistant", text("more"), "3", "m"),
    )

    assert (first.id, answered.id, second.id) == ("1", "2", "3")
    assert answered.tool_name == "bash"


def test_answers_without_an_id_are_not_put_together():
    assert len(said(claude("assistant", text("a"), "1"), claude("assistant", text("b"), "2"))) == 2


def test_an_answer_has_only_so_many_blocks():
    lines = [claude("assistant", text("a"), str(at), "m") for at in range(1_001)]

    assert len(said(*lines)) == 2


def test_agents_with_an_id_have_a_session_each():
    lines = [
        claude("user", "a", "1", isSidechain=True, agentId="x"),
        claude("user", "b", "2", isSidechain=True, agentId="y"),
        {"type": "user", "session_id": "T", "uuid": "3", "message": {"content": "c"}},
    ]

    assert [one.session for one in found(*lines) if isinstance(one, MessageItem)] == [
        "S/x",
        "S/y",
        "T",
    ]


def test_only_so_many_side_chains_are_remembered():
    lines = [claude("user", "a", str(at), isSidechain=True) for at in range(70)]
    lines.append(claude("user", "b", "x", isSidechain=True, parentUuid="0"))

    sessions = [one.session for one in found(*lines) if isinstance(one, MessageItem)]

    assert sessions[:2] == ["S/sidechain-1", "S/sidechain-2"]
    assert sessions[-1] == "S/sidechain-70"


def test_lines_for_the_screen_alone_are_left_aside():
    items = found(
        claude("user", "a", "1", isVisibleInTranscriptOnly=True), {"type": "tag", "uuid": "2"}
    )

    assert items == [SkippedLine(1, "shown only"), SkippedLine(2, "tag")]


@pytest.mark.parametrize("line", [[], {"type": 5}])
def test_a_line_that_is_nothing_of_theirs_is_a_problem(line):
    assert "expected an object with a type" in reasons(line, kind="claude-code")[0]


@pytest.mark.parametrize(
    "data", [b'["\\ud83d", NaN]', b'["\\ud83d', b'["\\ud83d"' + b"[" * 100_000]
)
def test_what_is_no_json_beside_half_a_pair_is_refused(data):
    with pytest.raises(DecodeError):
        parse(data)


def test_half_a_pair_may_stand_anywhere():
    assert parse('{"\\ud83d": ["\\uDE00", 1]}') == {"\\ud83d": ["\\ude00", 1]}
