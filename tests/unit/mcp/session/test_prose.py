"""The prose in handshakes and lists: all of them, and nothing that a program lives on."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from toolbus.mcp.session.prose import OMITTED, rewrite_prose

texts = st.sampled_from(["", "word", "name", "type", "properties", "items"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def words(method, body):
    found = []

    def show(prose):
        found.append(prose)
        return prose

    assert rewrite_prose(method, body, show) == body
    return found


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

    assert words("initialize", body) == [{"x": "y"}, "n", "1", [{"src": "u"}], "thing"]
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
        "2025-11-25 and more", "a text", "a scope", "soon", {"subscribe": "a word"},
        {"a sentence": True}, "a new one", "a name of words",
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
        "a tool", "A sum", "told", "#/$defs/A sum", "told too", "told name", "told need",
        "#/properties/m", ["string", "odd"], "told need", "told", "told more", "told_anchor",
        "told:id", {"told:vocabulary": True}, "told keyword",
    ]  # fmt: skip


def test_a_name_that_is_reworded_keeps_its_place():
    body = {"a": 1, "b c": 2, "d": 3}

    assert list(rewrite_prose("initialize", body, lambda _: "b").items()) == [
        ("a", 1), ("b", 2), ("d", 3),
    ]  # fmt: skip
    assert rewrite_prose("initialize", body, lambda _: None) == {"a": 1, "d": 3}
    assert rewrite_prose("initialize", body, lambda _: OMITTED) == {"a": 1, "d": 3}


@given(st.dictionaries(texts | st.sampled_from(["tools", "serverInfo"]), plain, max_size=4))
def test_what_is_put_back_is_what_was_there(body):
    for method in ("tools/list", "initialize"):
        same = deepcopy(body)

        assert all(isinstance(prose, str | list | dict) for prose in words(method, same))
        assert same == body


def test_prose_that_is_gone_leaves_empty_what_is_needed():
    tools = {"tools": [{"name": "t", "title": "T"}, "odd"]}
    handshake = {"serverInfo": {"name": "n", "title": "T"}, "supportedVersions": ["a"]}

    assert rewrite_prose("tools/list", tools, lambda _: OMITTED) == {"tools": [{"name": "t"}, ""]}
    assert rewrite_prose("initialize", handshake, lambda _: OMITTED) == {
        "serverInfo": {"name": ""},
        "supportedVersions": [""],
    }
