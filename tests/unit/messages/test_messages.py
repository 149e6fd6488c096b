"""What `specs` should not mention of `toolbus.messages.records`, `parts`, `fields` and `codec`."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.errors import DecodeError, FreezeError
from toolbus.messages import codec, parts
from toolbus.messages import records as messages
from toolbus.messages.codec import decoder, msgpack_decoder
from toolbus.messages.fields import all_ascii, replace_unchecked
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
    decode,
    encode,
    encode_msgpack,
)
from toolbus.testing.strategies import tool_calls, tool_responses

CALL = ToolCall(id="c", name="read", arguments={"a": 1})


class Text(str):
    """Text of a subclass."""

    __slots__ = ()


class Odd(msgspec.Struct):
    """A record whose own check finds fault without a `FreezeError`."""

    size: int

    def __post_init__(self):
        if self.size < 0:
            raise ValueError("Odd size")


def test_messages_offer_what_lower_floors_define():
    for name in messages.__all__:
        home = next((floor for floor in (parts, codec) if name in vars(floor)), messages)
        assert getattr(messages, name) is getattr(home, name)


@given(tool_calls(), st.dictionaries(st.text(), st.integers(0, 9), max_size=3))
def test_merging_is_replacing_by_the_union(call, patch):
    merged = call.merge_arguments(patch)

    assert merged == call.with_arguments({**call.arguments, **patch})
    assert merged.merge_arguments(patch) == merged


@given(tool_calls(), st.dictionaries(st.text(), st.integers(0, 9), max_size=3))
def test_deleting_takes_back_what_was_merged(call, patch):
    without = call.without_arguments(*patch)

    assert call.merge_arguments(patch).without_arguments(*patch) == without
    assert not set(without.arguments) & set(patch)


@given(tool_responses())
def test_mapping_twice_is_mapping_once_by_both(response):
    def double(text):
        return text + text

    def mark(text):
        return f"<{text}>"

    both = response.map_text(lambda text: mark(double(text)))

    assert response.map_text(double).map_text(mark) == both


@given(tool_responses())
def test_mapping_touches_texts_only(response):
    mapped = response.map_text(lambda _: "x")

    fields = set(response.__struct_fields__) - {"content", "structured"}
    assert all(getattr(mapped, field) is getattr(response, field) for field in fields)
    assert len(mapped.content) == len(response.content)


@given(tool_calls(), tool_responses())
def test_records_inside_messages_survive_alone(call, response):
    for record in (call, response):
        kind = type(record)
        assert decoder(kind)(encode(record)) == record
        assert msgpack_decoder(kind)(encode_msgpack(record)) == record


def test_parts_that_do_not_change_are_kept():
    kept, image = TextPart(text="kept"), ImagePart(data="aGk=", mime_type="image/png")
    blob = ResourcePart(resource=Resource(uri="file:///a", blob="aGk="))
    text = ResourcePart(resource=Resource(uri="file:///b", text="kept"))
    response = ToolResponse(content=[kept, image, blob, text, TextPart(text="old")])

    mapped = response.map_text(lambda text: text.replace("old", "new"))

    assert all(map(lambda a, b: a is b, mapped.content[:4], response.content[:4]))
    assert mapped.content[4] == TextPart(text="new")


def test_structured_that_does_not_change_is_kept():
    response = ToolResponse(content=[TextPart(text="old")], structured={"a": ["kept", {"b": 1}]})

    mapped = response.map_text(lambda text: text.replace("old", "new"))

    assert mapped.structured is response.structured


def test_a_mapped_key_keeps_its_place():
    response = ToolResponse(structured={"a": 1, "old": 2, "c": 3})

    mapped = response.map_text(lambda text: text.replace("old", "new"))

    assert list(mapped.structured.items()) == [("a", 1), ("new", 2), ("c", 3)]


def test_plain_text_can_be_structured():
    assert ToolResponse(structured="old").map_text(str.upper).structured == "OLD"


def test_a_bad_result_of_mapping_is_refused():
    response = ToolResponse(structured=["a"])

    with pytest.raises(FreezeError, match="lone surrogate"):
        response.map_text(lambda _: "\ud800")


def test_an_error_has_a_type():
    response = ToolResponse.from_text("no", is_error=True, error_type="KeyError")

    assert (response.text, response.is_error, response.error_type) == ("no", True, "KeyError")


def test_system_and_assistant_say_their_content():
    said = SystemMessage(id="s", content="be brief"), AssistantMessage(id="a", content="done")

    assert [message.text for message in said] == ["be brief", "done"]


def test_tool_calls_are_made_a_tuple():
    assert AssistantMessage(id="a", tool_calls=[CALL]).tool_calls == (CALL,)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: AssistantMessage(id="a", tool_calls=[CALL, "x"]), "$.tool_calls[1]"),
        (lambda: AssistantMessage(id="a", reasoning=1), "$.reasoning"),
        (lambda: AssistantMessage(id="a", usage={"n": float("nan")}), "$.usage.n"),
        (lambda: ToolMessage(id="t", tool_call_id=None, tool_name="n"), "$.tool_call_id"),
        (lambda: ToolResponse(parameters=[]), "$.parameters"),
        (lambda: ToolResponse(structured={"a": [object()]}), "$.structured.a[0]"),
        (lambda: ToolResponse(metadata=None), "$.metadata"),
        (lambda: ToolResponse(error_type=7), "$.error_type"),
        (lambda: ImagePart(data=b"x", mime_type="image/png"), "$.data"),
        (lambda: UserMessage(id="u", content="\udfff"), "$.content"),
    ],
)
def test_every_field_is_named(make, path):
    with pytest.raises(FreezeError) as caught:
        make()

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("data", "reason", "path"),
    [
        (b'{"size":"1"}', "expected `int`, got `str`", "$.size"),
        (b'{"size":-1}', "odd size", "$"),
    ],
)
def test_any_record_has_a_decoder(data, reason, path):
    with pytest.raises(DecodeError) as caught:
        decoder(Odd)(data)

    assert (caught.value.reason, caught.value.path) == (reason, path)


def test_a_freeze_error_at_the_root_keeps_its_path():
    with pytest.raises(DecodeError) as caught:
        decoder(ToolCall)(b'{"id":"c","name":"n","arguments":{"a":100000000000000000000}}')

    assert caught.value.path == "$.arguments.a"


def test_a_number_out_of_range_is_located_as_far_as_msgspec_tells():
    with pytest.raises(DecodeError) as caught:
        decode(b'{"role":"user","id":"u","content":"","metadata":{"a":[0,1e999]}}')

    assert str(caught.value) == "number out of range - at `$.metadata[...][1]`"


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_buffers_are_read_as_bytes_are(kind):
    data = encode(UserMessage(id="u", content="hello"))

    assert decode(kind(data)).text == "hello"
    with pytest.raises(DecodeError) as caught:
        decode(kind(data[:-1]))
    assert caught.value.offset == len(data) - 1


def test_text_of_a_subclass_becomes_plain_text():
    class Name(str):
        __slots__ = ()

    message = UserMessage(id=Name("u"), content=Name("hello"))

    assert type(message.id) is type(message.content) is str
    assert decode(encode(message)) == message


def test_a_response_is_set_without_other_checks():
    message = ToolMessage(id="m", tool_call_id="c", tool_name="read", metadata={"a": [1]})
    response = ToolResponse.from_text("x")

    changed = message.with_tool_response(response)

    assert message.tool_response is None
    assert changed.metadata is message.metadata
    whole = ToolMessage(
        id="m", tool_call_id="c", tool_name="read", metadata={"a": [1]}, tool_response=response
    )
    assert (changed, hash(changed), encode(changed)) == (whole, hash(whole), encode(whole))
    assert changed.with_tool_response(None) == message
    with pytest.raises(
        FreezeError, match=r"expected `ToolResponse`, got `str` - at `\$\.tool_resp"
    ):
        message.with_tool_response("x")


@pytest.mark.parametrize(
    ("values", "plain"),
    [((), True), (("a", ""), True), (("a", "é"), False), ((None,), False), ((Text("a"),), False)],
)
def test_plain_is_ascii_text_of_no_subclass(values, plain):
    assert all_ascii(*values) is plain


def test_a_record_with_sound_fields_is_another_one():
    response = ToolResponse.from_text("x")

    stamped = replace_unchecked(response, tool_name="read", duration_ns=3)

    assert stamped == msgspec.structs.replace(response, tool_name="read", duration_ns=3)
    assert response.tool_name is None
    assert replace_unchecked(response) == response
