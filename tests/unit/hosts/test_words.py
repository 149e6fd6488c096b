"""The words in handshakes and lists: all of them, and nothing that a program lives on."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from toolbus.hosts.mcp.words import Slot, find_words

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
    assert words("initialize", {"serverInfo": "odd", "capabilities": "odd"}) == ["odd"]


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
