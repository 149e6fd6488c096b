from base64 import b64encode

import msgspec
import pytest
from hypothesis import given

from toolbus.messages.parts import AudioPart, ImagePart, Resource, ResourcePart, TextPart
from toolbus.messages.record_walker import rewrite_message
from toolbus.messages.records import (
    AssistantMessage,
    ReasoningPart,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.messages.text_walker import TextMapper, TextVisitor, is_text_type, text_in
from toolbus.testing.strategies import messages

SVG = "image/svg+xml"


class Marking(TextVisitor):
    """Marks every text, and notes which ones came together and under which key."""

    def __init__(self):
        self.visited = []

    def texts(self, texts, key="", /):
        self.visited.append((texts, key))
        return tuple([f"<{text}>" for text in texts])


def encoded(text):
    return b64encode(text.encode()).decode()


@given(messages())
def test_a_message_whose_texts_stay_is_the_same_object(message):
    assert rewrite_message(message, TextVisitor()) is message
    assert rewrite_message(message, TextMapper(lambda text: "".join(list(text)))) is message


def test_every_place_of_every_record_is_visited():
    parts = (
        TextPart(text="a"),
        ImagePart(data=encoded("b"), mime_type=SVG),
        ResourcePart(resource=Resource(uri="c", text="d", mime_type="text/plain")),
        ResourcePart(resource=Resource(uri="e", blob=encoded("f"), mime_type="text/csv")),
    )
    response = ToolResponse(
        content=parts, structured={"g": ["h", 1]}, parameters={"i": "j"}, error_type="k"
    )
    call = ToolCall(id="ID", name="NAME", arguments={"l": "m"}, raw="n")
    told = {
        SystemMessage(id="ID", content="x", metadata={"o": "p"}): "x o p",
        UserMessage(id="ID", content="x"): "x",
        UserMessage(id="ID", content=parts): "a d b c e f",
        AssistantMessage(id="ID", content="x", reasoning="q", tool_calls=(call,)): "x q l m n",
        ToolMessage(id="ID", tool_call_id="ID", tool_name="NAME", tool_response=response): (
            "a d b c e f g h i j k"
        ),
    }

    for message, expected in told.items():
        visitor = Marking()
        rewritten = rewrite_message(message, visitor)
        visited = [text for texts, _ in visitor.visited for text in texts]
        assert sorted(visited) == sorted(expected.split())
        assert len(visited) == msgspec.json.encode(_plain(msgspec.to_builtins(rewritten))).count(
            b"<"
        )


def _plain(value):
    """Return *value*, plain JSON, with its base64 data as the text that it holds."""
    match value:
        case dict():
            return {
                key: text_in(item).text if key in {"data", "blob"} else _plain(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


def test_texts_that_follow_each_other_come_together():
    resource = ResourcePart(resource=Resource(uri="u", text="b"))
    sound = AudioPart(data="AAAA", mime_type="audio/wav")
    parts = (TextPart(text="a"), sound, resource, TextPart(text="c"))
    visitor = Marking()

    rewrite_message(UserMessage(id="1", content=parts, metadata={"k": ["x", "y"]}), visitor)

    assert (("a", "b", "c"), "") in visitor.visited
    assert (("x", "y"), "k") in visitor.visited


def test_a_response_that_is_to_stay_stays():
    response = ToolResponse.from_text("a")
    message = ToolMessage(
        id="1", content="b", tool_call_id="2", tool_name="t", tool_response=response
    )

    rewritten = rewrite_message(message, Marking(), leave=response)

    assert (rewritten.tool_response is response, rewritten.content) == (True, "<b>")


@pytest.mark.parametrize(
    ("mime_type", "is_text"),
    [
        (SVG, True),
        ("text/csv; charset=utf-8", True),
        ("Application/JSON", True),
        ("application/vnd.api+json", True),
        ("application/x-sh", True),
        ("application/x-shockwave-flash", False),
        ("image/png", False),
        ("application/pdf", False),
        ("", False),
        (None, False),
    ],
)
def test_types_of_text_are_known(mime_type, is_text):
    assert is_text_type(mime_type) is is_text


def test_many_names_that_become_one_stay_apart():
    response = ToolResponse(structured={str(number): number for number in range(10_000)})

    mapped = response.map_text(lambda _: "name").structured

    assert list(mapped.values()) == list(range(10_000))
    assert "name (10000)" in mapped


def test_reasoning_that_changes_loses_its_seal():
    parts = (ReasoningPart("why", signature="s"), ReasoningPart("", data="d"))
    message = AssistantMessage(id="ID", reasoning=parts)

    shouted = rewrite_message(message, TextMapper(str.upper))

    assert shouted.reasoning == (ReasoningPart("WHY"), parts[1])
    assert shouted.reasoning[1] is parts[1]
    assert rewrite_message(message, TextMapper(str)) is message
