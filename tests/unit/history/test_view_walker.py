"""The walk through a view reaches every text, however deep."""

import types
import typing
from collections.abc import Mapping

import pytest
from msgspec import Struct

from toolbus.history.message_history import MessageHistory, ValueView
from toolbus.history.timeline import MessageEntry, Timeline
from toolbus.history.view_walker import rewrite_view
from toolbus.messages.parts import Part, TextPart
from toolbus.messages.records import (
    AssistantMessage,
    ReasoningPart,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
)
from toolbus.messages.text_walker import TextVisitor
from toolbus.store.store_reader import SessionRow

CANARY = "canary"


class Hiding(TextVisitor):
    """Removes the canary from each text, and notes adjoining texts."""

    def __init__(self):
        self.seen = []

    def texts(self, texts, _key="", /):
        self.seen.append(texts)
        return tuple([text.replace(CANARY, "gone") for text in texts])


def built(hint, role, path=()):
    """Return a value of the type *hint* with the canary in each text; *role* is of all messages."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is str:
        return CANARY
    if hint in {int, float, bool, type(None)}:
        return hint()
    if hint is typing.Any:
        return {CANARY: [CANARY, 7, None, {"a": CANARY}], "role": CANARY}
    if origin is typing.Literal:
        return inner[0]
    if SystemMessage in inner:
        return built(role, role, path)
    if hint == Part:
        return built(TextPart, role, path)
    if origin in {typing.Union, types.UnionType}:
        return built(next(each for each in inner if each is not type(None)), role, path)
    if origin is tuple:
        is_inside = inner[0] in path
        return () if is_inside else tuple([built(inner[0], role, path)] * 2)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {CANARY: {CANARY: CANARY}}
    fields = {
        name: None
        if each == MessageEntry | None and MessageEntry in path
        else built(each, role, (*path, hint))
        for name, each in typing.get_type_hints(hint).items()
        if typing.get_origin(each) is not typing.ClassVar
    }
    return hint(**fields)


@pytest.mark.parametrize("role", [SystemMessage, UserMessage, AssistantMessage, ToolMessage])
@pytest.mark.parametrize("kind", [Timeline, MessageHistory, ToolCall])
def test_no_text_of_a_view_is_missed(kind, role):
    view = built(kind, role)

    rewritten = rewrite_view(view, Hiding())

    assert encode(view).count(CANARY.encode()) > 3
    assert CANARY.encode() not in encode(rewritten)
    assert type(rewritten) is kind


def test_numbers_and_fields_stay():
    row = SessionRow(1, CANARY, 2, 3, 4, 5, has_originals=True)

    assert rewrite_view(row, Hiding()) == row._replace(id="gone")


def test_a_message_inside_a_value_is_rewritten_as_a_message():
    parts = [{"type": "text", "text": text} for text in ("can", "ary")]
    value = {"role": "user", "id": "u", "content": parts}
    visitor = Hiding()

    rewrite_view(ValueView(digest="d", size=1, has_value=True, value=value), visitor)

    assert ("can", "ary") in visitor.seen


def test_data_for_the_provider_alone_is_dropped():
    part = ReasoningPart("a thought", signature=CANARY, data=CANARY, item_id=CANARY)

    rewritten = rewrite_view(AssistantMessage(id="a", reasoning=(part,)), Hiding())

    assert rewritten.reasoning == (ReasoningPart("a thought"),)


def test_an_unknown_object_is_refused():
    class Other(Struct):
        value: object

    with pytest.raises(TypeError, match="bytes"):
        rewrite_view(Other(b"secret"), Hiding())
