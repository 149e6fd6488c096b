"""Readers and JSON of the right words in the wrong places."""

import json
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus.formats.items import (
    MessageItem,
    Problem,
    RecordItem,
    SessionEnd,
    SessionStart,
    SkippedLine,
)
from toolbus.formats.session_files import FORMATS, read, read_lines
from toolbus.messages.records import decode, encode

WORDS = (
    *("role", "content", "type", "text", "messages", "tool_calls", "function", "name", "arguments"),
    *("id", "tool_call_id", "tool_use_id", "input", "is_error", "source", "data", "media_type"),
    *("system", "request", "response", "choices", "message", "uuid", "sessionId", "isSidechain"),
    *("parentUuid", "agentId", "usage", "stop_reason", "thinking", "image_url", "url", "custom"),
    *("function_call", "refusal", "records", "record", "version", "input_audio", "format", "body"),
)
VALUES = (
    *("user", "assistant", "system", "tool", "function", "developer", "text", "image", "tool_use"),
    *(
        "tool_result",
        "thinking",
        "document",
        "url",
        "base64",
        "session",
        "record",
        "end",
        "message",
    ),
    *("toolbus", "image_url", "input_audio", "summary", "", "\ud83d", "data:image/png;base64,AA"),
)
LEAVES = st.one_of(
    st.sampled_from(VALUES),
    st.sampled_from([None, True, False, 0, -1, 2**70, 1.5, [], {}]),
    st.text(max_size=3),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
    ),
    max_leaves=20,
)

USER = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
SAMPLES = {
    "toolbus": {"type": "message", "message": {"role": "user", "id": "u", "content": "hi"}},
    "openai": {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ],
        "response": {"choices": [{"message": {"role": "assistant", "content": "x"}}]},
    },
    "anthropic": {
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}],
            },
        ],
        "response": {"role": "assistant", "content": [{"type": "thinking", "thinking": "h"}]},
    },
    "claude-code": {
        "type": "assistant",
        "uuid": "u",
        "sessionId": "s",
        "isSidechain": True,
        "parentUuid": None,
        "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "x"}]},
    },
}


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from places(item, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    first, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[first] = replaced(value[first], rest, new)
    return copy


def check(data, kind):
    """Read *data* and check what every reader promises."""
    opened = set()
    for item in read(BytesIO(data), "file", kind=kind):
        match item:
            case SessionStart(session):
                assert session not in opened
                opened.add(session)
            case SessionEnd(session):
                opened.remove(session)
            case MessageItem(session, message):
                assert session in opened
                assert decode(encode(message)) == message
            case RecordItem(session, _):
                assert session in opened
            case Problem(line, reason) | SkippedLine(line, reason):
                assert line > 0
                assert reason
    assert not opened


@pytest.mark.parametrize("kind", [None, *FORMATS])
@given(values=st.lists(JSON, max_size=4))
@settings(max_examples=3 * settings.default.max_examples)
def test_any_json_of_known_words_is_read_or_named(kind, values):
    check(b"\n".join([json.dumps(value).encode() for value in values]), kind)


@pytest.mark.parametrize("kind", FORMATS)
@given(data=st.data())
@settings(max_examples=3 * settings.default.max_examples)
def test_a_sample_with_one_place_replaced_is_read_or_named(kind, data):
    sample = SAMPLES[kind]
    path = data.draw(st.sampled_from(list(places(sample))))
    value = replaced(sample, path, data.draw(JSON))

    check(b"\n".join([json.dumps(one).encode() for one in (sample, value, sample)]), kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_samples_are_good(kind):
    items = list(read(BytesIO(json.dumps(SAMPLES[kind]).encode()), "file"))

    assert [one for one in items if isinstance(one, MessageItem)]


@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        (b"12345\n123456\n1\n", [1, None, 3]),
        (b"12345\r\n123456\r\n1", [1, None, 3]),
        (b"12345", [1]),
        (b"123456", [None]),
        (b"1234567890" * 20_000 + b"\n1", [None, 2]),
        (b"     " * 20_000 + b"\n1", [2]),
        (b"12345      \n1", [1, 2]),
        (b"", []),
    ],
)
def test_lines_are_bounded(data, numbers):
    found = list(read_lines(BytesIO(data), 5))

    assert [None if line is None else number for number, line in found] == numbers


def test_duplicate_keys_are_the_last():
    data = b'{"messages":[],"messages":[{"role":"user","content":"hi"}]}'

    (said,) = [one for one in read(BytesIO(data), "file") if isinstance(one, MessageItem)]

    assert said.message.text == "hi"
