"""What the fake provider answers is what the SDKs' own types take, strictly and without more."""

from typing import get_args

import anthropic
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel
from tests.servers import wire_shapes as shapes

ITEMS = [
    ("text", "I look."),
    ("call", "c1", "read", '{"path": "a"}'),
    ("call", "c2", "read", "{}"),
    ("refusal", "No."),
]
SEALED = [("reasoning", "First.", "seal"), ("reasoning", "", "encrypted"), *ITEMS]


def unknown_fields(value, path="$"):
    """Give the places of fields that the types do not have."""
    if isinstance(value, BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or ())
        value = dict(value)
    match value:
        case dict():
            for name, item in value.items():
                yield from unknown_fields(item, f"{path}.{name}")
        case list():
            for index, item in enumerate(value):
                yield from unknown_fields(item, f"{path}[{index}]")


def type_of(kind, answer):
    """Return *kind*, or the one of a union that *answer* says it is, as the SDKs find it."""
    if isinstance(kind, type):
        return kind
    union = get_args(kind)[0]
    (only,) = [
        member
        for member in get_args(union)
        if answer["type"] in get_args(member.model_fields["type"].annotation)
    ]
    return only


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        (ChatCompletion, [shapes.chat_completion(ITEMS)]),
        (ChatCompletionChunk, shapes.chat_chunks(ITEMS)),
        (Response, [shapes.response(SEALED)]),
        (ResponseStreamEvent, shapes.response_events(SEALED)),
        (anthropic.types.Message, [shapes.anthropic_message(SEALED)]),
        (anthropic.types.RawMessageStreamEvent, shapes.anthropic_events(SEALED)),
    ],
)
def test_the_types_of_the_sdks_take_every_answer(kind, answers):
    for answer in answers:
        if answer.get("type") == "ping":
            continue  # The SDK passes it over.
        value = type_of(kind, answer).model_validate(answer, strict=True)
        assert [*unknown_fields(value)] == []
        assert value.to_dict(mode="json", exclude_unset=True) == answer
