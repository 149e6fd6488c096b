"""Each request begins, byte for byte, with what the one before said: caches of prompts go by it."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.events.values import ModelRequest
from toolbus.formats import anthropic_requests, chat_requests, responses_requests
from toolbus.messages.reasoning import ReasoningPart
from toolbus.messages.records import (
    AssistantMessage,
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

TEXTS = st.sampled_from(["", " ", "a", "]}", '"]}', "ä\n€", "two words"])
PARTS = st.sampled_from(
    [
        TextPart("see"),
        TextPart(" "),
        ImagePart(data="AAAA", mime_type="image/png"),
        ResourcePart(resource=Resource(uri="r.pdf", mime_type="application/pdf", blob="BBBB")),
        ResourcePart(resource=Resource(uri="n", text="note")),
    ]
)
CONTENTS = st.lists(PARTS, min_size=1, max_size=3).map(tuple)
THOUGHTS = st.sampled_from(
    [
        (),
        (ReasoningPart("hm", signature="seal", format="anthropic"),),
        (ReasoningPart("hm", data="seal", item_id="r", format="openai-responses"),),
        (ReasoningPart("hm"),),
    ]
)


@st.composite
def sessions(draw):
    """Draw sessions of some runs, of which some failed before their end."""
    said = [SystemMessage(content="be brief")] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        said.append(UserMessage(content=draw(TEXTS | CONTENTS)))
        for _ in range(draw(st.integers(0, 2))):
            calls = [
                ToolCall(name="look", arguments=draw(st.sampled_from([{}, {"path": "]}"}])))
                for _ in range(draw(st.integers(1, 2)))
            ]
            said.append(
                AssistantMessage(content=draw(TEXTS), tool_calls=calls, reasoning=draw(THOUGHTS))
            )
            said += [draw(results(call)) for call in calls]
        if draw(st.booleans()):
            stop = draw(st.sampled_from(["stop", "refusal", "length"]))
            said.append(AssistantMessage(content=draw(TEXTS), stop_reason=stop))
    return said


def results(call):
    return st.builds(
        lambda content, is_error: ToolMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            tool_response=ToolResponse(content, is_error=is_error),
        ),
        st.just(()) | CONTENTS,
        st.booleans(),
    )


def request_points(said):
    """Return how many messages there were whenever a model was asked, or could be at the end."""
    is_open = [isinstance(message, AssistantMessage | UserMessage) for message in said]
    return [count for count in range(1, len(said)) if is_open[count]] + [len(said)]


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        (anthropic_requests, "messages"),
        (chat_requests, "messages"),
        (responses_requests, "input"),
    ],
)
@given(said=sessions())
def test_a_request_begins_with_the_one_before(wire, name, said):
    requests = [
        wire.body_of(ModelRequest(model="m", messages=said[:count]))
        for count in request_points(said)
    ]

    texts = [json.dumps(request.pop(name), ensure_ascii=False) for request in requests]

    for before, after in pairwise(texts):
        assert after.startswith(before.rstrip("]}"))
    assert all(request == requests[-1] for request in requests)
