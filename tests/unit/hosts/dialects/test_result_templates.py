"""Texts out of frames and back: places, keys, media, and what has no place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.result_templates import (
    BLOCKS,
    WITHHELD_NAME,
    ResultTemplate,
    parts_in,
    put_back,
    put_whole,
)
from toolbus.messages.records import AudioPart, ImagePart, TextPart, ToolResponse

SHELL = ResultTemplate(
    names=frozenset({"stdout", "stderr", "interrupted", "type"}),
    words={"type": frozenset({"text"})},
    main=(("stdout",),),
)
FILE = ResultTemplate(
    names=frozenset({"type", "file", "filePath", "content", "base64"}),
    words={"type": frozenset({"text", "image"})},
    main=(("file", "content"),),
)
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def changed(value, frame, change):
    """Return *value* with *change* applied to each text, as a redactor does it."""
    before = ToolResponse(content=parts_in(value, frame))
    return put_back(value, frame, before, before.map_text(change))


def test_each_text_goes_back_to_its_place_and_the_frame_stays():
    value = {"stdout": "key", "stderr": "a key", "interrupted": False, "type": "text"}

    new = changed(value, SHELL, lambda text: text.replace("key", "***"))

    assert parts_in(value, SHELL) == (TextPart("key"), TextPart("a key"))
    assert new == {"stdout": "***", "stderr": "a ***", "interrupted": False, "type": "text"}
    assert list(new) == list(value)


def test_a_whole_new_text_goes_to_the_main_place_and_all_others_are_emptied():
    value = {"type": "text", "file": {"filePath": "/a", "content": "long", "numLines": 3}}

    new = put_back(value, FILE, ToolResponse(content=parts_in(value, FILE)), ToolResponse("short"))

    assert new == {"type": "text", "file": {"filePath": "", "content": "short"}}


def test_a_word_of_the_frame_elsewhere_is_a_text():
    assert parts_in({"stdout": "text", "type": "text"}, SHELL) == (TextPart("text"),)
    assert parts_in({"type": "a secret"}, SHELL) == (TextPart("a secret"),)


def test_a_result_whose_names_would_change_is_withheld():
    value = {"stdout": "", "the key": 1, "stderr": "a key"}

    assert parts_in(value, SHELL) == (TextPart("the key"), TextPart("a key"))
    assert changed(value, SHELL, lambda text: text.replace("a key", "-")) == {
        "stdout": "",
        "the key": 1,
        "stderr": "-",
    }
    assert changed(value, SHELL, lambda text: text.replace("the key", "-")) == {
        "stdout": WITHHELD_NAME,
        "stderr": "",
    }


@pytest.mark.parametrize(
    ("value", "new"),
    [
        ("a text", "new"),
        ([], [{"type": "text", "text": "new"}]),
        ([{"type": "text", "text": "a"}, IMAGE], [{"type": "text", "text": "new"}]),
        ({"stdout": "", "stderr": "a"}, {"stdout": "new", "stderr": ""}),
        ({"stdout": None}, None),
        ({"stdout": "a", "image": IMAGE}, None),
        ([1, 2], None),
        (None, None),
        (3, None),
    ],
)
def test_a_whole_text_stands_where_the_host_reads_it(value, new):
    assert put_whole(value, SHELL, "new") == new


def test_a_whole_text_stands_alone_in_the_result_of_a_server():
    value = {"content": [IMAGE], "structuredContent": {"a": "b"}, "isError": True, "_meta": {}}

    assert put_whole(value, BLOCKS, "new") == {
        "content": [{"type": "text", "text": "new"}],
        "isError": True,
    }


def test_a_program_s_names_and_its_own_words_are_no_texts():
    frame = ResultTemplate(identifiers=True, fixed=frozenset({"id"}), main=(("text",),))
    value = {"id": "a1", "text": "b", "otherText": "c", "A question": "d", "key9": "e"}

    assert [part.text for part in parts_in(value, frame)] == [
        "b",
        "c",
        "A question",
        "d",
        "key9",
        "e",
    ]
    assert put_whole(value, frame, "new") == {"id": "a1", "text": "new", "otherText": ""}


def test_data_of_an_unknown_type_is_no_text():
    frame = ResultTemplate(identifiers=True, media=frozenset({"base64"}))

    (part,) = parts_in({"base64": "aGk="}, frame)

    assert part.resource.mime_type == "application/octet-stream"
    assert part.resource.blob == "aGk="


def test_media_are_parts_of_their_kind():
    audio = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
    api = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}

    assert parts_in([IMAGE, audio, api], BLOCKS) == (
        ImagePart(data="aGk=", mime_type="image/png"),
        AudioPart(data="aGk=", mime_type="audio/wav"),
        ImagePart(data="x", mime_type="image/png"),
    )
    assert parts_in({"data": "a text"}, BLOCKS) == (TextPart("a text"),)


@pytest.mark.parametrize(
    "value",
    [
        {"type": "text/plain", "data": "aKey"},
        {"mimeType": "application/json", "data": '{"a": 1}'},
        {"uri": "a://b", "mimeType": "text/plain", "blob": "a_key"},
        {**IMAGE, "data": "no data"},
        {"base64": "no data"},
    ],
)
def test_what_is_called_data_and_is_a_text_is_a_text(value):
    frame = ResultTemplate(identifiers=True, media=frozenset({"base64"}), fixed=frozenset({"uri"}))
    text = next(item for key, item in value.items() if key in {"data", "blob", "base64"})

    assert TextPart(text) in parts_in(value, frame)


def test_an_id_that_is_longer_than_ids_are_is_a_text():
    frame = ResultTemplate(identifiers=True, fixed=frozenset({"id", "status"}))
    value = {"id": "ae0b5b71550317b9b", "status": "done", "below": {"id": "a text of some length"}}

    assert parts_in(value, frame) == (TextPart("a text of some length"),)


def test_text_in_a_resource_is_rewritten_in_its_base64():
    svg = {"type": "image", "data": "PHN2Zz5rZXk8L3N2Zz4=", "mimeType": "image/svg+xml"}
    blob = {"uri": "a://b", "mimeType": "text/plain", "blob": "YSBrZXk="}
    value = [svg, {"type": "resource", "resource": blob}]

    new = changed(value, BLOCKS, lambda text: text.replace("key", "***"))

    assert new == [
        {**svg, "data": "PHN2Zz4qKio8L3N2Zz4="},
        {"type": "resource", "resource": {**blob, "blob": "YSAqKio="}},
    ]


def test_half_a_character_is_mended_only_where_its_text_changes():
    value = {"stdout": "key \ud800", "stderr": "\ud800"}

    assert parts_in(value, SHELL) == (TextPart("key \ufffd"), TextPart("\ufffd"))
    assert changed(value, SHELL, lambda text: text.replace("key", "***")) == {
        "stdout": "*** \ufffd",
        "stderr": "\ud800",
    }


def test_what_is_nested_too_deeply_is_refused():
    value = "text"
    for _ in range(202):
        value = [value]

    with pytest.raises(DecodeError, match="nested deeper than 200 levels"):
        parts_in(value, SHELL)


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner)
)


@given(value=VALUES)
def test_texts_that_did_not_change_leave_any_value_as_it_is(value):
    before = ToolResponse(content=parts_in(value, BLOCKS))

    same = put_back(value, BLOCKS, before, ToolResponse(content=tuple(before.content)))

    assert same is value


@given(value=st.recursive(LEAVES, st.lists))
def test_all_texts_of_any_value_can_be_changed(value):
    new = changed(value, BLOCKS, lambda text: f"<{text}>")

    assert parts_in(new, BLOCKS) == tuple(
        [TextPart(f"<{part.text}>") for part in parts_in(value, BLOCKS)]
    )
