"""Requests hold what was said, and reading them again gives it back."""

import json
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolbus.events.values import ModelRequest, ToolSpec
from toolbus.formats import anthropic_requests, chat_requests, responses_requests
from toolbus.formats.answers import items_of
from toolbus.formats.anthropic_messages import answer_items, answer_message
from toolbus.formats.items import MessageItem
from toolbus.formats.names import original_names, wire_name
from toolbus.formats.responses_output import response_message
from toolbus.formats.session_files import read
from toolbus.messages.reasoning import ReasoningPart
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.testing.strategies import json_values, messages, tool_specs

PNG = ImagePart(data="AAAA", mime_type="image/png")
PDF = ResourcePart(resource=Resource(uri="r.pdf", mime_type="application/pdf", blob="BBBB"))
CALLS = (
    ToolCall(id="c1", name="look", arguments={"deep": [1, {"a": "ä"}]}),
    ToolCall(id="c2", name="now"),
)
SESSION = (
    SystemMessage(id="s", content="be brief"),
    UserMessage(id="u", content=(TextPart("see"), PNG, PDF)),
    AssistantMessage(id="a", content="I look.", tool_calls=CALLS),
    ToolMessage(
        id="t1",
        tool_call_id="c1",
        tool_name="look",
        tool_response=ToolResponse("a cat"),
    ),
    ToolMessage(id="t2", tool_call_id="c2", tool_name="now", tool_response=ToolResponse("noon")),
    UserMessage(id="v", content="so?"),
    AssistantMessage(id="b", content="A cat at noon."),
)


def body(wire, *said, **facts):
    return wire.body_of(ModelRequest(model="m", messages=said, **facts))


def bare(message):
    """Return *message* without its id, and with text for what is one text part."""
    if isinstance(message, UserMessage) and message.content == (TextPart(message.text),):
        message = replace(message, content=message.text)
    return replace(message, id="")


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        (anthropic_requests, "anthropic"),
        (chat_requests, "openai"),
        (responses_requests, "openai"),
    ],
)
def test_a_request_that_is_read_is_the_session(wire, kind):
    line = json.dumps(body(wire, *SESSION)).encode()

    items = [*read(BytesIO(line), "file", kind=kind)]

    again = [item.message for item in items if isinstance(item, MessageItem)]
    assert [bare(message) for message in again] == [bare(message) for message in SESSION]


def test_results_of_anthropics_keep_their_errors_and_images():
    response = ToolResponse((TextPart("oh"), PNG), is_error=True)
    message = ToolMessage(id="t", tool_call_id="c1", tool_name="look", tool_response=response)

    sent = body(anthropic_requests, SESSION[2], message)
    items = [*read(BytesIO(json.dumps(sent).encode()), "file", kind="anthropic")]

    assert items[-2].message.tool_response == response


@given(said=st.lists(messages(), max_size=4), tools=st.lists(tool_specs(), max_size=2))
def test_any_messages_make_a_request(said, tools):
    texts = [
        json.dumps(message.content)[1:-1]
        for message in said
        if isinstance(message, SystemMessage | AssistantMessage) and message.content.strip()
    ]

    for wire in (anthropic_requests, chat_requests, responses_requests):
        sent = json.dumps(body(wire, *said, tools=tools))

        assert [text for text in texts if text not in sent] == []


LAYOUTS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["text", "reasoning", "call", "block", "x"])},
        optional={"length": st.integers(-1, 9), "block": json_values(), "phase": json_values()},
    )
    | json_values(max_leaves=2),
    max_size=5,
)


@given(layout=LAYOUTS | json_values(), text=st.text(max_size=8), parts=st.integers(0, 2))
def test_no_metadata_hide_what_was_said(layout, text, parts):
    message = AssistantMessage(
        id="a",
        content=text,
        reasoning=tuple(
            ReasoningPart(str(i), signature="s", format="anthropic") for i in range(parts)
        ),
        tool_calls=CALLS[:1],
        metadata={"wire": {"format": "anthropic", "layout": layout}},
    )

    items = items_of(message, "anthropic")

    texts = [item.value for item in items if item.kind == "text"]
    assert "".join(texts).replace("\n", "") == text.replace("\n", "")
    assert [item.value for item in items if item.kind == "call"] == [CALLS[0]]
    assert len([item for item in items if item.kind == "reasoning"]) == parts


KINDS = st.sampled_from(["thinking", "redacted", "text", "call", "mystery"])


@given(kinds=st.lists(st.tuples(KINDS, st.text(min_size=1, max_size=6)), max_size=7))
def test_blocks_come_back_in_their_order(kinds):
    blocks = []
    for number, (kind, text) in enumerate(kinds):
        blocks.append(
            {
                "thinking": {"type": "thinking", "thinking": text, "signature": f"s{number}"},
                "redacted": {"type": "redacted_thinking", "data": text},
                "text": {"type": "text", "text": f"{text}."},
                "call": {"type": "tool_use", "id": f"c{number}", "name": "x", "input": {"a": text}},
                "mystery": {"type": "mystery", "of": text},
            }[kind]
        )

    message = answer_message(answer_items(blocks, "$"), "a")
    sent = body(anthropic_requests, UserMessage(id="u", content="go"), message)

    assert [block for turn in sent["messages"][1:] for block in turn["content"]] == blocks


def test_items_of_a_response_come_back_with_their_phases():
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    ]

    message = response_message({"output": output, "status": "completed"}, "a")
    sent = body(responses_requests, message)["input"]

    assert sent == [
        output[0],
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        output[2],
        output[3],
    ]


@given(name=st.text(min_size=1), other=st.text(min_size=1))
def test_names_on_the_wire_are_sound_and_apart(name, other):
    sound = wire_name(name)

    assert 0 < len(sound) <= 64
    assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in sound)
    assert wire_name(sound) == sound
    assert (wire_name(other) == sound) == (other in {name, sound} or name == wire_name(other))


def test_only_names_that_changed_are_looked_up():
    specs = [ToolSpec(name="files.read"), ToolSpec(name="now")]

    assert original_names(specs) == {wire_name("files.read"): "files.read"}


def test_sounds_and_files_that_a_wire_lacks_are_named():
    parts = (
        AudioPart(data="AAAA", mime_type="audio/flac"),
        ResourcePart(
            resource=Resource(uri="file:///x.zip", mime_type="application/zip", blob="AA")
        ),
        ResourcePart(resource=Resource(uri="file:///etc/hosts")),
    )

    (turn,) = body(anthropic_requests, UserMessage(id="u", content=parts))["messages"]

    assert [block["text"] for block in turn["content"]] == [
        "[audio/flac, 3 bytes: not supported by this model]",
        "[x.zip, application/zip, 1 bytes: not supported by this model]",
        "[file:///etc/hosts]",
    ]


@pytest.mark.parametrize(
    ("seal", "later", "expected"),
    [("s", (), "enabled"), (None, (), "disabled"), (None, SESSION[5:6], "enabled")],
)
def test_thinking_pauses_where_a_thought_cannot_go_back(seal, later, expected):
    thought = ReasoningPart("hm", signature=seal, format="anthropic")
    asking = replace(SESSION[2], reasoning=(thought,))
    thinking = {"type": "enabled", "budget_tokens": 2000}

    sent = body(
        anthropic_requests,
        *(SESSION[1], asking, *SESSION[3:5], *later),
        settings={"thinking": thinking},
    )

    assert sent["thinking"]["type"] == expected
    assert ("hm" in json.dumps(sent["messages"])) == (seal is not None)
    assert "thinking" not in body(anthropic_requests, SESSION[1], asking)
