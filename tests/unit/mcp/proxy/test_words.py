"""The words in handshakes and lists: all of them, and nothing that a program lives on."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from toolbus.mcp.proxy.words import Name, Slot, find_words

texts = st.sampled_from(["", "word", "name", "type", "properties", "items"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def words(method, body):
    return [slot.value for slot in find_words(method, body)]


def test_a_tools_words_are_all_but_its_name_and_the_structure_of_its_schema():
    schema = {
        "type": "object",
        "required": ["n"],
        "$defs": {"d": {"const": "in a definition"}},
        "properties": {"n": {"type": "string", "enum": ["one"], "minimum": 1}},
        "items": [{"title": "in a list"}, True],
        "not": {"x-new": {"any": "thing"}},
    }
    tool = {"name": "t", "title": "T", "annotations": {"a": 1}, "inputSchema": schema}

    found = words("tools/list", {"tools": [tool, "odd"], "nextCursor": "c", "_meta": {"m": 1}})

    assert found == [
        "T", {"a": 1}, "in a definition", ["one"], "in a list", {"any": "thing"}, "odd", {"m": 1},
    ]  # fmt: skip


def test_what_is_no_list_of_tools_is_all_words():
    assert words("tools/list", {"tools": "text", "more": {"a": 1}}) == ["text", {"a": 1}]
    assert words("tools/list", {"tools": [{"name": ["odd"], "inputSchema": "odd"}]}) == [
        ["odd"], "odd",
    ]  # fmt: skip


def test_a_handshakes_words_are_what_the_server_says_of_itself():
    body = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}, "experimental": {"x": "y"}},
        "serverInfo": {"name": "n", "version": "1", "icons": [{"src": "u"}]},
        "instructions": "shown apart",
        "new": "thing",
    }

    assert words("initialize", body) == ["thing", "n", "1", [{"src": "u"}], {"x": "y"}]
    assert words("initialize", {"serverInfo": "odd", "capabilities": "bad"}) == ["odd", "bad"]


def test_what_is_not_as_the_protocol_wants_it_is_words():
    body = {
        "protocolVersion": "2025-11-25 and more",
        "supportedVersions": ["2026-07-28", "a text", 5],
        "resultType": "complete",
        "cacheScope": "a scope",
        "ttlMs": "soon",
        "capabilities": {
            "tools": {"listChanged": True},
            "resources": {"subscribe": "a word"},
            "logging": {"a sentence": True},
            "a new one": True,
            "tasks": {"list": {}, "requests": {"tools": {"call": {}}}},
        },
        "a name of words": 1,
    }

    assert words("initialize", body) == [
        "a scope", "soon", "2025-11-25 and more", "a text", {"subscribe": "a word"},
        {"a sentence": True}, "a name of words", "a new one",
    ]  # fmt: skip
    assert words("tools/list", {"nextCursor": ["odd"], "resultType": "odd"}) == [["odd"], "odd"]


def test_of_a_schema_only_what_is_structure_is_no_word():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/Sum",
        "$defs": {"Sum": {"type": ["integer", "null"]}, "A sum": {"$schema": "told"}},
        "properties": {
            "n": {"$ref": "#/$defs/A sum", "type": "told too"},
            "told name": {"required": ["n", "told need"], "$ref": "#/properties/m"},
            "deep": {"properties": {"o": {"type": ["string", "odd"]}}, "required": ["o"]},
        },
        "required": ["n", "o", "told need", 5],
        "dependentRequired": {"n": ["o", "told"], "told more": ["n"]},
        "$anchor": "told_anchor",
        "$id": "told:id",
        "$vocabulary": {"told:vocabulary": True},
        "told keyword": True,
    }

    assert words("tools/list", {"tools": [{"name": "a tool", "inputSchema": schema}]}) == [
        "a tool", "told", "#/$defs/A sum", "told too", "told need", "#/properties/m",
        ["string", "odd"], "told need", "told", "told_anchor", "told:id",
        {"told:vocabulary": True}, "told keyword", "A sum", "told name", "told more",
    ]  # fmt: skip


def test_a_name_that_is_reworded_keeps_its_place():
    body = {"a": 1, "b c": 2, "d": 3}
    (slot,) = [one for one in find_words("initialize", body) if isinstance(one, Name)]

    slot.put("b")
    assert list(body.items()) == [("a", 1), ("b", 2), ("d", 3)]
    slot.put("gone")
    Name(body, "d").put(None)
    Name(body, "a").clear()
    assert body == {"b": 2}


@given(st.dictionaries(texts | st.sampled_from(["tools", "serverInfo"]), plain, max_size=4))
def test_what_is_put_back_is_what_was_there(body):
    for method in ("tools/list", "initialize"):
        same = deepcopy(body)
        slots = find_words(method, same)
        for slot in slots:
            slot.put(slot.value)

        assert same == body
        assert all(isinstance(slot.value, str | list | dict) for slot in slots)


def test_a_place_that_is_cleared_is_gone_but_where_it_is_needed():
    tool, about, items = {"title": "T"}, {"name": "n"}, ["a"]

    Slot(tool, "title").clear()
    Slot(about, "name").clear()
    Slot(items, 0).clear()

    assert (tool, about, items) == ({}, {"name": ""}, [""])
