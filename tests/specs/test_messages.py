"""The scenarios of `specs/messages.md`."""

import copy
import json
import math
import pickle
import subprocess
import sys
import threading
from base64 import b64decode, b64encode
from enum import Enum, IntEnum
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.errors import DecodeError, FreezeError, RegistrationError
from toolbus.events import (
    ModelReply,
    ModelRequest,
    RunResult,
    RunStart,
    ToolCallOutcome,
    ToolSpec,
)
from toolbus.messages.immutable import FrozenDict, freeze, thaw
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    ReasoningPart,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    changed,
    decode,
    decode_msgpack,
    decoder,
    encode,
    encode_msgpack,
)
from toolbus.testing.strategies import json_values, messages, tool_responses

SYSTEM = SystemMessage(id="s", content="be brief", metadata={"tenant": "a"})
USER = UserMessage(id="u", content="hello")
ASSISTANT = AssistantMessage(
    id="a", tool_calls=(ToolCall(id="c", name="read", arguments={"path": "x"}),)
)
TOOL = ToolMessage(
    id="t",
    content="as it was",
    tool_call_id="c",
    tool_name="read",
    tool_response=ToolResponse.from_text("old"),
    metadata={"trace": [1]},
)
TALKING = AssistantMessage(id="a2", content="hm", reasoning="why", metadata={"k": 1})
LOOKING = UserMessage(
    id="u2", content=[TextPart("look"), ImagePart(data="AAAA", mime_type="image/png")]
)
EVERY_ROLE = (SYSTEM, USER, ASSISTANT, TOOL)


def call(arguments):
    return ToolCall(id="c", name="edit", arguments=arguments)


def is_frozen(value):
    if isinstance(value, dict):
        return type(value) is FrozenDict and all(map(is_frozen, value.values()))
    return not isinstance(value, list) and (
        not isinstance(value, tuple) or all(map(is_frozen, value))
    )


def refusal(decoding, data):
    with pytest.raises(DecodeError) as caught:
        decoding(data)
    return caught.value


def test_assigning_anywhere_in_a_record_raises():
    edit = call({"lines": [1, 2], "options": {"deep": {"er": 1}}})
    attempts = (
        lambda: setattr(edit, "name", "delete"),
        lambda: delattr(edit, "arguments"),
        lambda: TOOL.metadata.__setitem__("trace", 2),
        lambda: edit.arguments["lines"].__setitem__(0, 9),
        lambda: edit.arguments["lines"].append(3),
        lambda: edit.arguments["options"]["deep"].__setitem__("er", 2),
    )

    for attempt in attempts:
        with pytest.raises((TypeError, AttributeError)):
            attempt()

    assert edit == call({"lines": [1, 2], "options": {"deep": {"er": 1}}})
    assert TOOL.metadata == {"trace": (1,)}


def test_every_mutator_of_a_frozen_dict_raises():
    frozen = FrozenDict({"a": 1})
    attempts = (
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.__ior__({"a": 2}),
        lambda: frozen.update(a=2),
        lambda: frozen.pop("a"),
        frozen.popitem,
        frozen.clear,
        lambda: frozen.setdefault("b", 2),
        lambda: setattr(frozen, "a", 2),
        lambda: delattr(frozen, "a"),
    )

    for attempt in attempts:
        with pytest.raises(TypeError, match=r"take a private copy with `thaw\(\)`"):
            attempt()
    frozen.__init__({"a": 2})

    assert frozen == {"a": 1}


def test_a_caller_s_later_changes_have_no_effect():
    arguments = {"paths": ["a"], "options": {"force": False}}
    parts = [TextPart(text="one")]
    edit, message = call(arguments), UserMessage(id="u", content=parts)

    arguments["paths"].append("b")
    arguments["options"]["force"] = True
    arguments["new"] = 1
    parts.clear()

    assert edit.arguments == {"paths": ("a",), "options": {"force": False}}
    assert message.content == (TextPart(text="one"),)


def test_decoded_records_are_frozen_as_well():
    data = encode(UserMessage(id="u", content="", metadata={"a": [{"b": [[1], {}]}]}))

    message = decode(data)

    assert message.metadata == {"a": ({"b": ((1,), {})},)}
    assert is_frozen(message.metadata)


def test_thawing_gives_a_private_copy():
    edit = call({"lines": [1, {"deep": []}]})

    copied = thaw(edit.arguments)
    copied["lines"][1]["deep"].append("changed")

    assert (type(copied), type(copied["lines"])) == (dict, list)
    assert edit.arguments == {"lines": (1, {"deep": ()})}


def test_freezing_a_frozen_value_costs_nothing():
    frozen_object, frozen_array = freeze({"a": [1]}), freeze([{"a": 1}, "text", 2.5])

    again = freeze(frozen_object), freeze(frozen_array)

    assert again[0] is frozen_object
    assert again[1] is frozen_array


@given(json_values())
def test_freezing_and_thawing_undo_each_other(value):
    frozen = freeze(value)

    thawed = thaw(frozen)

    assert encode(thawed) == encode(frozen) == encode(value)
    assert is_frozen(frozen)
    assert hash(frozen) == hash(freeze(thawed))


def test_a_mutable_subclass_is_copied():
    class Open(FrozenDict):
        __slots__ = ()
        __setitem__ = dict.__setitem__

    shallow, inner = Open({"a": 1}), Open({"b": 2})
    flat, deep = call(shallow), call({"x": [inner]})
    shallow["a"] = inner["b"] = 666

    assert (flat.arguments, deep.arguments) == ({"a": 1}, {"x": ({"b": 2},)})
    assert type(flat.arguments) is type(deep.arguments["x"][0]) is FrozenDict


def test_a_record_cannot_be_subclassed():
    kinds = [
        *(SystemMessage, UserMessage, AssistantMessage, ToolMessage, ToolCall, ToolResponse),
        *(TextPart, ImagePart, AudioPart, ResourcePart),
        *(ToolSpec, RunStart, RunResult, ModelRequest, ModelReply, ToolCallOutcome),
    ]

    for kind in kinds:
        for options in ({}, {"dict": True}):
            with pytest.raises(RegistrationError) as refused:
                type(kind)("Mine", (kind,), {}, **options)
            assert str(refused.value) == (
                f"class 'Mine': no codec knows the fields of a subclass of {kind.__name__}; "
                "wrap the record instead"
            )


@given(messages())
def test_equal_records_have_equal_hashes(message):
    data = encode(message)

    second = decode(data)

    assert second == message
    assert hash(second) == hash(message)


def test_the_order_of_keys_makes_no_difference():
    one, other = call({"a": 1, "b": {"c": 2, "d": 3}}), call({"b": {"d": 3, "c": 2}, "a": 1})

    equal = one == other

    assert equal
    assert hash(one) == hash(other)


@given(messages())
def test_a_record_survives_copy_and_pickle(message):
    ways = (copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record)))

    results = [way(message) for way in ways]

    assert results == [message] * 3
    assert [hash(result) for result in results] == [hash(message)] * 3
    assert all(type(result.metadata) is FrozenDict for result in results)


def test_a_role_can_be_read_not_assigned():
    given_roles = ("system", "user", "assistant", "tool")

    roles = [message.role for message in EVERY_ROLE]

    assert roles == [json.loads(encode(message))["role"] for message in EVERY_ROLE]
    assert tuple(roles) == given_roles
    with pytest.raises(AttributeError):
        USER.role = "system"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_are_refused(number):
    arguments = {"rows": [{"x": 1.0}, {"x": number}]}

    with pytest.raises(FreezeError) as caught:
        call(arguments)

    assert caught.value.path == "$.arguments.rows[1].x"
    assert str(caught.value) == f"{number!r} is not a JSON number - at `$.arguments.rows[1].x`"


@pytest.mark.parametrize(("number", "bits"), [(2**64, 65), (-(2**63) - 1, 64), (10**30, 100)])
def test_integers_beyond_64_bits_are_refused(number, bits):
    arguments = {"a b": [number]}

    with pytest.raises(FreezeError) as caught:
        call(arguments)

    assert caught.value.path == "$.arguments['a b'][0]"
    assert caught.value.reason == f"an integer of {bits} bits does not fit into 64"


def test_the_outermost_integers_of_64_bits_survive():
    outermost = AssistantMessage(id="a", tool_calls=[call({"range": [-(2**63), 2**64 - 1]})])

    decoded = decode(encode(outermost)), decode_msgpack(encode_msgpack(outermost))

    for message in decoded:
        assert message.tool_calls[0].arguments["range"] == (-(2**63), 2**64 - 1)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda bad: call({"texts": ["fine", bad]}), "$.arguments.texts[1]"),
        (lambda bad: call({bad: 1}), r"$.arguments['x\ud800'] (key)"),
        (lambda bad: ToolCall(id=bad, name="edit"), "$.id"),
        (lambda bad: TextPart(text=bad), "$.text"),
    ],
)
def test_lone_surrogates_are_refused(make, path):
    bad = "x\ud800"

    with pytest.raises(FreezeError) as caught:
        make(bad)

    assert caught.value.reason == "lone surrogate U+D800 at character 1"
    assert caught.value.path == path
    assert str(caught.value).encode()


def test_keys_other_than_text_are_refused():
    value = {"": {1: "one"}}

    with pytest.raises(FreezeError) as caught:
        freeze(value)

    assert str(caught.value) == "expected text, got `int` - at `$[''][1] (key)`"


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object()])
def test_objects_other_than_json_are_refused(value):
    arguments = {"a": [value]}

    with pytest.raises(FreezeError) as caught:
        call(arguments)

    assert caught.value.reason == f"expected a JSON value, got `{type(value).__name__}`"
    assert caught.value.path == "$.arguments.a[0]"


def test_recursive_nesting_is_refused():
    endless = []
    endless.append(endless)

    with pytest.raises(FreezeError) as caught:
        freeze(endless)

    assert caught.value.reason == "nested deeper than 200"


def test_depth_includes_frozen_values():
    deepest = freeze({})
    for _ in range(199):
        deepest = freeze({"in": deepest})
    message = UserMessage(id="u", content="", metadata=deepest)

    with pytest.raises(FreezeError) as caught:
        freeze([deepest])

    assert str(caught.value) == "nested deeper than 200 - at `$[0]`"
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: SystemMessage(id=None, content=""), "expected text, got `NoneType` - at `$.id`"),
        (lambda: UserMessage(id="u", content=7), "expected array, got `int` - at `$.content`"),
        (lambda: UserMessage(id="u", content=["x"]), "`str` does not belong here - at `$.content["),
        (lambda: call([1]), "expected object, got `list` - at `$.arguments`"),
        (lambda: ToolResponse(is_error=1), "expected `bool`, got `int` - at `$.is_error`"),
        (lambda: ToolResponse(duration_ns=0.5), "expected `int`, got `float` - at `$.duration_ns`"),
        (lambda: TOOL.with_tool_response("x"), "expected `ToolResponse`, got `str` - at `$.tool_r"),
        (lambda: ResourcePart(resource={}), "expected `Resource`, got `dict` - at `$.resource`"),
        (lambda: Resource(uri="x:y", text=1), "expected text, got `int` - at `$.text`"),
    ],
)
def test_fields_of_a_wrong_type_are_refused(make, error):
    wrong = make

    with pytest.raises(FreezeError) as caught:
        wrong()

    assert str(caught.value).startswith(error)


def test_subclasses_become_plain_values():
    colour = Enum("colour", {"RED": "red"}, type=str)
    level = IntEnum("level", {"HIGH": 3})

    frozen = freeze({colour.RED: [colour.RED, level.HIGH]})

    assert frozen == {"red": ("red", 3)}
    assert [type(item) for item in (*frozen, *frozen["red"])] == [str, str, int]


def test_a_new_response_makes_a_new_message():
    response = ToolResponse.from_text("new")

    message = TOOL.with_tool_response(response)

    assert message is not TOOL
    assert message.tool_response is response


def test_all_other_fields_stay_the_same_objects():
    before = encode(TOOL)

    message = TOOL.with_tool_response(ToolResponse.from_text("new"))

    for field in ("id", "content", "tool_call_id", "tool_name", "metadata"):
        assert getattr(message, field) is getattr(TOOL, field)
    assert encode(TOOL) == before


def test_the_model_reads_the_new_response():
    response = ToolResponse.from_text("new")

    message = TOOL.with_tool_response(response)

    assert TOOL.text == "old"
    assert message.text == "new"


def test_without_a_response_the_model_reads_content():
    message = ToolMessage(id="t", content="plain", tool_call_id="c", tool_name="read")

    text = message.text

    assert text == "plain"


@pytest.mark.parametrize("message", [*EVERY_ROLE, TALKING, LOOKING])
def test_every_message_takes_a_new_text(message):
    before = encode(message)

    said = message.with_text("Grüße")

    assert (type(said), said.text, said.id) == (type(message), "Grüße", message.id)
    assert said.metadata is message.metadata
    assert getattr(said, "tool_calls", ()) is getattr(message, "tool_calls", ())
    assert b"image" not in encode(said)
    assert encode(message) == before
    assert decode(encode(said)) == said


def test_a_tool_message_s_text_is_its_response_s():
    parts = (TextPart("one"), TextPart("two"))
    response = ToolResponse(parts, structured={"a": 1}, is_error=True, duration_ns=7)
    full = TOOL.with_tool_response(response)
    bare = ToolMessage(tool_call_id="c", tool_name="read", content="old")

    answered, plain = full.with_text("new"), bare.with_text("new")

    expected = ToolResponse("new", is_error=True, duration_ns=7)
    assert (answered.tool_response, answered.content) == (expected, full.content)
    assert (plain.content, plain.tool_response) == ("new", None)


MAKERS = [
    lambda: SystemMessage(content="x"),
    lambda: UserMessage(content="x"),
    lambda: UserMessage(content=[TextPart("ü")]),
    AssistantMessage,
    lambda: ToolMessage(tool_call_id="c", tool_name="read"),
]


def test_reasoning_given_as_text_is_one_part():
    parts = (ReasoningPart("why"), ReasoningPart(data="sealed"), ReasoningPart("so"))
    made = [AssistantMessage(id="a", reasoning=given) for given in ("why", None, parts)]
    written = [b'{"role":"assistant","id":"a","reasoning":%s}' % old for old in (b'"why"', b"null")]

    decoded = [decode(data) for data in written]

    assert [message.reasoning for message in made] == [(ReasoningPart("why"),), (), parts]
    assert [message.reasoning_text for message in made] == ["why", "", "why\nso"]
    assert decoded == made[:2]


def test_changed_reasoning_loses_its_seal():
    sealed = ReasoningPart("why", signature="s", data="d", item_id="i", format="f", is_summary=True)
    bare = ReasoningPart("so")

    shouted = [part.with_text(part.text.upper()) for part in (sealed, bare)]

    assert shouted == [ReasoningPart("WHY", format="f", is_summary=True), ReasoningPart("SO")]
    assert [part.is_sealed for part in (sealed, bare, *shouted)] == [True, False, False, False]
    assert sealed.with_text("why") is sealed


def test_messages_and_calls_get_fresh_ids():
    calls = [ToolCall(name="read"), ToolCall(name="read")]
    made = [make() for make in (*MAKERS, *MAKERS)]

    ids = [record.id for record in (*calls, *made)]

    assert len(set(ids)) == len(ids) == 12
    assert {type(each) for each in ids} == {str}
    assert all(ids)
    for message in made:
        copies = copy.copy(message), message.with_text("y"), decode(encode(message))
        assert [each.id for each in copies] == [message.id] * 3
    assert calls[0].with_arguments({"a": 1}).id == calls[0].id


def test_a_given_id_stays():
    for own in ("mine", "meiner, größer", ""):
        assert UserMessage(id=own, content="x").id == own

    with pytest.raises(FreezeError, match="expected text, got `NoneType`"):
        UserMessage(id=None, content="x")


def test_arguments_are_replaced():
    edit = call({"a": 1, "b": 2})

    other = edit.with_arguments({"c": 3})

    assert other.arguments == {"c": 3}
    assert edit.arguments == {"a": 1, "b": 2}


def test_arguments_are_merged():
    edit = call({"a": 1, "b": 2})

    other = edit.merge_arguments({"b": 9, "c": 3})

    assert other == call({"a": 1, "b": 9, "c": 3})


def test_arguments_are_deleted():
    edit = call({"a": 1, "b": 2})

    other = edit.without_arguments("a", "unknown")

    assert other == call({"b": 2})


def test_an_empty_mapping_is_a_change():
    edit = call({"a": 1})

    other = edit.with_arguments({})

    assert other.arguments == {}
    assert changed(edit, other)


def test_new_arguments_drop_the_raw_text():
    broken = ToolCall(id="c", name="edit", raw="{path:")

    mended = broken.merge_arguments({"path": "a.txt"})

    assert mended == call({"path": "a.txt"})
    assert mended.raw is None


def test_text_alone_makes_a_response():
    text = "42 files"

    response = ToolResponse.from_text(text)

    assert response.content == (TextPart(text="42 files"),)
    assert (response.text, response.is_error, response.error_type) == ("42 files", False, None)


def test_a_text_may_replace_parts():
    text = "42 files"

    part, placed, named = TextPart(text), ToolResponse(text), ToolResponse(content=text)

    assert part == TextPart(text="42 files")
    assert placed == named == ToolResponse.from_text(text)
    assert ToolResponse("").content == (TextPart(""),)
    assert ToolResponse().content == ()
    with pytest.raises(TypeError, match="positional"):
        ToolResponse(text, None)
    with pytest.raises(FreezeError, match=r"at `\$\.content`"):
        ToolResponse("\ud800")
    with pytest.raises(DecodeError, match=r"expected `array`, got `str`"):
        decode(encode(TOOL).replace(b'[{"type":"text","text":"old"}]', b'"old"'))


def test_parts_are_joined_by_newlines():
    response = ToolResponse(
        content=(
            TextPart(text="one"),
            ImagePart(data="aGk=", mime_type="image/png"),
            AudioPart(data="aGk=", mime_type="audio/wav"),
            ResourcePart(resource=Resource(uri="file:///a", text="two")),
            ResourcePart(resource=Resource(uri="file:///b", blob="aGk=")),
            TextPart(text="three"),
        )
    )

    text = response.text

    assert text == "one\ntwo\nthree"


def test_structured_replaces_missing_parts():
    bare = ToolResponse(structured={"rows": [1, "é"]})
    full = ToolResponse(structured={"rows": [1]}, content=[TextPart(text="one row")])

    texts = bare.text, full.text, ToolResponse().text

    assert texts == ('{"rows":[1,"é"]}', "one row", "")


def test_a_user_s_parts_have_a_text():
    resource = ResourcePart(resource=Resource(uri="file:///a", text="file"))
    parts = UserMessage(id="u", content=[TextPart(text="look"), resource])

    texts = USER.text, parts.text

    assert texts == ("hello", "look\nfile")


def test_new_text_replaces_parts_and_structured():
    response = ToolResponse(
        content=[TextPart(text="one"), TextPart(text="two")],
        structured={"a": 1},
        is_error=True,
        parameters={"path": "x"},
        duration_ns=7,
    )

    other = response.with_text("short")

    assert other == ToolResponse(
        content=[TextPart(text="short")], is_error=True, parameters={"path": "x"}, duration_ns=7
    )


def test_mapping_reaches_every_text():
    image = ImagePart(data="aGk=", mime_type="image/png")
    resource = Resource(uri="file:///a", mime_type="text/plain", text="a s3cret")
    response = ToolResponse(
        content=[TextPart(text="s3cret"), image, ResourcePart(resource=resource)],
        structured={"s3cret": [1, {"deep": ["its s3cret", None]}], "kept": [2.5]},
        tool_name="read",
    )

    other = response.map_text(lambda text: text.replace("s3cret", "***"))

    assert b"s3cret" not in encode(other)
    assert other.text == "***\na ***"
    assert other.structured == {"***": (1, {"deep": ("its ***", None)}), "kept": (2.5,)}
    assert (other.content[1], other.tool_name) == (image, "read")


def test_mapping_reaches_text_in_base64():
    def resource(uri, mime_type, text):
        blob = b64encode(text.encode()).decode()
        return ResourcePart(resource=Resource(uri=uri, mime_type=mime_type, blob=blob))

    picture = ImagePart(data=b64encode(b"<svg>s3cret</svg>").decode(), mime_type="image/svg+xml")
    table = resource("file:///s3cret", "application/json", '{"a": "s3cret"}')
    other = resource("file:///b", None, "s3cret")
    response = ToolResponse(content=[picture, table, other])

    mapped = response.map_text(lambda text: text.replace("s3cret", "***")).content

    assert b64decode(mapped[0].data) == b"<svg>***</svg>"
    assert b64decode(mapped[1].resource.blob) == b'{"a": "***"}'
    assert mapped[1].resource.uri == "file:///s3cret"
    assert mapped[2] is other


def test_mapped_names_stay_apart():
    response = ToolResponse(structured={"a": 1, "b": 2})

    mapped = response.map_text(lambda _: "name")

    assert mapped.structured == {"name": 1, "name (2)": 2}


@given(tool_responses())
def test_mapping_without_effect_returns_the_response(response):
    def same(text):
        return "".join(list(text))

    mapped = response.map_text(same)

    assert mapped is response


def test_messages_map_their_texts():
    image = ImagePart(data="aGk=", mime_type="image/png")
    response = ToolResponse(content=[TextPart(text="s3cret")], structured={"s3cret": ["a s3cret"]})
    asked = AssistantMessage(content="s3cret", tool_calls=(call({"key": "s3cret"}),))
    holding = [
        SystemMessage(content="s3cret"),
        UserMessage(content="s3cret"),
        UserMessage(content=(TextPart(text="s3cret"), image)),
        asked,
        ToolMessage(tool_call_id="c", tool_name="read", tool_response=response),
        ToolMessage(tool_call_id="c", tool_name="read", content="s3cret"),
    ]

    mapped = [one.map_text(lambda text: text.replace("s3cret", "***")) for one in holding]

    assert [one.text for one in mapped] == ["***"] * len(holding)
    assert [one.id for one in mapped] == [one.id for one in holding]
    assert mapped[4].tool_response.structured == {"***": ("a ***",)}
    assert mapped[2].content[1] == image
    assert mapped[3].tool_calls == asked.tool_calls
    assert [one.map_text(str) is one for one in mapped] == [True] * len(mapped)


def test_one_true_and_1_0_differ():
    calls = call({"n": 1}), call({"n": True}), call({"n": 1.0})

    verdicts = [changed(one, other) for one, other in combinations(calls, 2)]

    assert calls[0] == calls[1] == calls[2]
    assert verdicts == [True, True, True]


@given(messages())
def test_an_equal_copy_is_unchanged(message):
    second = decode(encode(message))

    verdicts = changed(message, second), changed(message, message)

    assert verdicts == (False, False)


def test_values_without_an_encoding_differ():
    one, other = object(), object()

    verdicts = changed(one, other), changed(one, one)

    assert verdicts == (True, False)


@given(messages())
def test_every_message_survives_both_codecs(message):
    as_json, as_msgpack = encode(message), encode_msgpack(message)

    decoded = decode(as_json), decode(as_json.decode()), decode_msgpack(as_msgpack)

    for result in decoded:
        assert result == message
        assert type(result) is type(message)
        assert encode(result) == as_json
        assert encode_msgpack(result) == as_msgpack


def test_parts_have_the_shapes_of_mcp():
    message = UserMessage(
        id="u",
        content=[
            TextPart(text="hi"),
            ImagePart(data="aGk=", mime_type="image/png"),
            AudioPart(data="aGk=", mime_type="audio/wav"),
            ResourcePart(resource=Resource(uri="file:///a", mime_type="text/plain", text="a")),
        ],
    )

    blocks = json.loads(encode(message))["content"]

    assert blocks == [
        {"type": "text", "text": "hi"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {
            "type": "resource",
            "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "a"},
        },
    ]


def test_bytes_become_base64():
    raw = b"\x89PNG\r\n"

    image = ImagePart.from_bytes(raw, "image/png")
    sound = AudioPart.from_bytes(bytearray(raw), "audio/wav")
    resource = Resource.from_bytes(raw, "image/png", uri="file:///a.png")

    assert image == ImagePart(data="iVBORw0K", mime_type="image/png")
    assert sound == AudioPart(data="iVBORw0K", mime_type="audio/wav")
    assert resource == Resource(uri="file:///a.png", mime_type="image/png", blob="iVBORw0K")
    with pytest.raises(FreezeError, match=r"base64 .* `bytes`; use `ImagePart.from_bytes` .*data`"):
        ImagePart(data=raw, mime_type="image/png")
    with pytest.raises(FreezeError, match=r"`bytearray`; use `AudioPart.from_bytes`"):
        AudioPart(data=bytearray(raw), mime_type="audio/wav")
    with pytest.raises(FreezeError, match=r"use `Resource.from_bytes` - at `\$.blob`"):
        Resource(uri="file:///a.png", blob=raw)


def test_unknown_fields_are_ignored():
    data = b'{"role":"user","id":"u","content":"hello","mood":{"of":"tomorrow"}}'

    message = decode(data)

    assert message == USER


@pytest.mark.parametrize("message", EVERY_ROLE)
def test_a_missing_id_is_refused(message):
    fields = json.loads(encode(message))
    del fields["id"]

    errors = (
        refusal(decode, json.dumps(fields)),
        refusal(decode_msgpack, msgspec.msgpack.encode(fields)),
    )

    for error in errors:
        assert str(error) == "object missing required field `id` - at `$`"


def test_missing_ids_are_refused_deep_inside():
    lacking = json.dumps(
        {
            "role": "assistant",
            "id": "ä",
            "content": "Grüße",
            "tool_calls": [{"id": "c", "name": "read"}, {"name": "read"}],
        }
    )
    result = json.dumps({"status": "ok", "messages": [json.loads(lacking)]})
    ended = threading.Event()

    def make():
        while not ended.is_set():
            UserMessage(content="x")

    makers = [threading.Thread(target=make) for _ in range(2)]
    for maker in makers:
        maker.start()
    try:
        errors = [str(refusal(decode, lacking)) for _ in range(50)]
        nested = [str(refusal(decoder(RunResult), result)) for _ in range(50)]
        whole = [decode(encode(TOOL)) for _ in range(50)]
    finally:
        ended.set()
        for maker in makers:
            maker.join()

    assert set(errors) == {"object missing required field `id` - at `$.tool_calls[1]`"}
    assert set(nested) == {"object missing required field `id` - at `$.messages[0].tool_calls[1]`"}
    assert whole == [TOOL] * 50
    assert UserMessage(content="x").id


def test_an_unknown_role_is_refused():
    unknown, missing = b'{"role":"judge","id":"j"}', b'{"id":"j"}'

    errors = refusal(decode, unknown), refusal(decode, missing)

    assert str(errors[0]) == "invalid value 'judge' - at `$.role`"
    assert str(errors[1]) == "object missing required field `role` - at `$`"


def test_a_wrong_type_is_refused():
    fields = msgspec.to_builtins(ASSISTANT)
    fields["tool_calls"] = [fields["tool_calls"][0] | {"arguments": [1]}]

    errors = (
        refusal(decode, msgspec.json.encode(fields)),
        refusal(decode_msgpack, msgspec.msgpack.encode(fields)),
    )

    for error in errors:
        assert error.reason == "expected `object`, got `array`"
        assert (error.path, error.offset) == ("$.tool_calls[0].arguments", None)


def test_the_path_includes_nested_json():
    response = {"structured": {"` - at `$.id`": [0, {"big": 2**99}]}}
    fields = msgspec.to_builtins(TOOL) | {"tool_response": response}

    error = refusal(decode, json.dumps(fields))

    assert error.reason == "an integer of 100 bits does not fit into 64"
    assert error.path == "$.tool_response.structured['` - at `$.id`'][1].big"


def test_malformed_bytes_are_refused():
    not_json, not_msgpack = b'{"role":"user",id:"u"}', encode_msgpack(USER) + b"!"

    errors = refusal(decode, not_json), refusal(decode_msgpack, not_msgpack)

    assert [error.offset for error in errors] == [15, len(not_msgpack) - 1]
    assert "malformed" in str(errors[0])
    assert str(errors[1]).endswith(f"trailing characters - at byte {len(not_msgpack) - 1}")


def test_truncated_bytes_are_refused():
    text = encode(TOOL.with_tool_response(ToolResponse.from_text("größer"))).decode()
    packed = encode_msgpack(TOOL)

    cut_json = [refusal(decode, text[:end]) for end in range(len(text))]
    cut_msgpack = [refusal(decode_msgpack, packed[:end]) for end in range(len(packed))]

    assert [error.offset for error in cut_json] == [
        len(text[:end].encode()) for end in range(len(text))
    ]
    assert [error.offset for error in cut_msgpack] == list(range(len(packed)))
    assert {error.reason for error in (*cut_json, *cut_msgpack)} == {"input data was truncated"}


def test_text_other_than_utf_8_is_refused():
    plain = b'{"role":"user","id":"u","content":"ab\xff"}'
    escaped = b'{"role":"user","id":"u","content":"\\n\xc3\xa9\\n\xff"}'
    packed = b"\x83\xa4role\xa4user\xa2id\xa1u\xa7content\xa2a\xff"

    errors = refusal(decode, plain), refusal(decode, escaped), refusal(decode_msgpack, packed)

    assert {error.reason for error in errors} == {"invalid UTF-8"}
    offsets = [plain.index(b"\xff"), escaped.index(b"\xff"), None]
    assert [error.offset for error in errors] == offsets
    assert [error.path for error in errors] == [None, None, "$"]


def test_an_escaped_lone_surrogate_is_refused():
    escaped = b'{"role":"user","id":"u","content":"\\ud800 is half"}'
    unescaped = '{"role":"user","id":"é\ud800","content":""}'

    errors = refusal(decode, escaped), refusal(decode, unescaped)

    assert "surrogate" in errors[0].reason
    assert "surrogate" in errors[1].reason
    assert [error.offset for error in errors] == [41, len('{"role":"user","id":"é'.encode())]


def test_keys_other_than_text_are_located():
    shallow, deep = {1: 2}, {"a": [{1: 2}]}

    errors = [
        refusal(
            decode_msgpack,
            msgspec.msgpack.encode({"role": "user", "id": "u", "content": "", "metadata": bad}),
        )
        for bad in (shallow, deep)
    ]

    assert errors[0].path == "$.metadata (key)"
    assert errors[1].path == "$.metadata.a[0][1] (key)"


def test_endless_nesting_is_refused():
    start = {"role": "user", "id": "u", "content": "", "metadata": {"a": None}}
    as_json = json.dumps(start).replace("null}}", "[" * 100_000).encode()
    as_msgpack = msgspec.msgpack.encode(start)[:-1] + b"\x91" * 100_000

    errors = refusal(decode, as_json), refusal(decode_msgpack, as_msgpack)

    for error in errors:
        assert "nested" in error.reason
        assert error.path is not None


@given(messages(), st.data())
def test_damaged_bytes_never_give_half_a_message(message, data):
    encoding, decoding = data.draw(
        st.sampled_from([(encode, decode), (encode_msgpack, decode_msgpack)])
    )
    damaged = bytearray(encoding(message))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at : at + 4] = data.draw(st.binary(max_size=4))

    try:
        result = decoding(bytes(damaged))
    except DecodeError as error:
        result = error

    if isinstance(result, DecodeError):
        assert (result.path is None) != (result.offset is None)
    else:
        assert decoding(encoding(result)) == result


def test_importing_messages_loads_no_event_loop():
    program = "import sys, toolbus.messages.records; print(*sorted(sys.modules))"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "logging", "blinker", "toolbus.events.catalogue", "toolbus.bus"}
