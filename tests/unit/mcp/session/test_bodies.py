"""What is shown of a body is all of it, and what comes back is the same again."""

from copy import deepcopy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolbus.mcp.protocol.revisions import CALL, ERROR
from toolbus.mcp.session.bodies import decode_body, refusal, rendered
from toolbus.messages.records import (
    AudioPart,
    ImagePart,
    Resource,
    ResourcePart,
    TextPart,
    ToolResponse,
)

SECRET = "hunter2"
METHODS = [
    CALL,
    ERROR,
    "resources/read",
    "prompts/get",
    "initialize",
    "notifications/message",
    "notifications/progress",
    "x/new",
]
texts = st.sampled_from(["", "a", "a" + SECRET, SECRET, "é"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
inner = st.fixed_dictionaries(
    {"uri": texts},
    optional={"text": texts, "blob": st.just("aaaa"), "mimeType": texts, "_meta": plain},
)
blocks = (
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}, optional={"_meta": plain})
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["image", "audio"]), "data": st.just("aaaa"), "mimeType": texts},
        optional={"annotations": plain},
    )
    | st.fixed_dictionaries({"type": st.just("resource"), "resource": inner})
    | st.fixed_dictionaries({"type": st.just("new")}, optional={"uri": texts, "text": texts})
    | plain
)
messages = st.fixed_dictionaries({"role": st.just("user"), "content": blocks | plain})
bodies = plain | st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(blocks, max_size=3) | plain,
        "contents": st.lists(inner | plain, max_size=3),
        "messages": st.lists(messages | plain, max_size=3),
        "structuredContent": st.dictionaries(texts, plain, min_size=1, max_size=2),
        "isError": st.booleans(),
        "message": texts | plain,
        "data": texts | plain,
        "instructions": texts,
        "_meta": plain,
    },
)


def lowered(seen, response, rest):
    return seen.lower_result(response, rest) if rest is not None else seen.lower(response)


def rest_of(seen):
    return getattr(seen, "rest", None)


@given(st.sampled_from(METHODS), bodies)
def test_what_nobody_changed_comes_back(method, body):
    seen = decode_body(method, deepcopy(body))

    assert lowered(seen, seen.response, rest_of(seen)) == body


@given(st.sampled_from([m for m in METHODS if m != "initialize"]), bodies)
def test_every_text_is_shown(method, body):
    def hide(text):
        return text.replace(SECRET, "")

    seen = decode_body(method, deepcopy(body))
    rest = ToolResponse(structured=rest_of(seen)).map_text(hide).structured
    left = lowered(seen, seen.response.map_text(hide), rest)

    assert SECRET.encode() not in msgspec.json.encode(left)


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (TextPart(text="a"), {"type": "text", "text": "a"}),
        (ImagePart(data="a", mime_type="b"), {"type": "image", "mimeType": "b", "data": "a"}),
        (AudioPart(data="a", mime_type="b"), {"type": "audio", "mimeType": "b", "data": "a"}),
        (
            ResourcePart(resource=Resource(uri="u", text="a")),
            {"type": "resource", "resource": {"uri": "u", "text": "a"}},
        ),
    ],
)
def test_new_parts_are_blocks(part, block):
    content = [{"type": "video", "data": "x"}, {"type": "text", "text": "old", "_meta": {}}]
    call, prompt = (
        decode_body(CALL, {"content": content}),
        decode_body("prompts/get", {"messages": []}),
    )
    response = ToolResponse(content=(part,))

    assert rendered(response) == {"content": [block]}
    assert call.lower_result(response, call.rest) == {"content": [block]}
    assert prompt.lower(response) == {"messages": [{"role": "user", "content": block}]}


def test_a_resource_stays_one_whatever_a_handler_left():
    body = {"contents": [{"uri": "u", "mimeType": "m", "text": "old"}]}
    seen = decode_body("resources/read", body)
    new = ToolResponse.from_text("new")
    kept = replace(new, structured=seen.response.structured)

    assert seen.lower(kept) == {"contents": [{"uri": "u", "text": "new"}]}
    assert seen.lower(new) == {"contents": [{"uri": "toolbus:answer", "text": "new"}]}


def test_a_result_that_is_no_object_is_shown_whole():
    seen = decode_body(CALL, ["a"])

    assert seen.response.structured == ("a",)
    assert seen.lower(seen.response) == ["a"]
    assert decode_body(ERROR, "broken").response.is_error


def test_a_refusal_is_an_error_with_its_reason():
    assert refusal("no") == {"content": [{"type": "text", "text": "no"}], "isError": True}
