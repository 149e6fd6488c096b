"""Members and items of JSON texts with comments, put in and taken out by position."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus.errors import ConfigurationError
from toolbus.hosts.install.json_edits import insert_last, remove_child
from toolbus.hosts.install.json_positions import locate

FILE = Path("settings.json")
NEW = {"command": "run us"}
BLANKS = st.sampled_from(["", " ", "\n", "\n  ", ' // one, "two"\n', "/* [ */", "\r\n\t", " "])
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="/*"), max_size=3)
LEAVES = st.one_of(st.integers(), st.booleans(), st.none(), WORDS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def texts(draw, value=None):
    """Draw a JSON text of a value, with blanks and comments wherever they may stand."""

    def write(value):
        if isinstance(value, dict):
            children = [f"{json.dumps(k)}{gap()}:{gap()}{write(v)}" for k, v in value.items()]
            return "{" + gap() + f"{gap()},{gap()}".join(children) + gap() + "}"
        if isinstance(value, list):
            return "[" + gap() + f"{gap()},{gap()}".join(map(write, value)) + gap() + "]"
        return json.dumps(value)

    def gap():
        return draw(BLANKS)

    return gap() + write(draw(VALUES) if value is None else value) + gap()


def comments(text):
    """Return the comments of a text whose strings have no slashes."""
    return [each.strip() for each in re.findall(r"//[^\n]*|/\*.*?\*/", text)]


def containers(node):
    if node.keys is not None or isinstance(node.value, list):
        yield node
    for child in node.children:
        yield from containers(child)


@settings(max_examples=60)
@given(texts())
def test_positions_say_what_json_says(text):
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text)

    node = locate(FILE, text)

    assert json.dumps(node.value) == json.dumps(json.loads(plain))
    for each in containers(node):
        for child in each.children:
            assert locate(FILE, text[child.start : child.end]).value == child.value


@settings(max_examples=60)
@given(texts(), st.data())
def test_what_is_put_in_comes_out_again(text, data):
    places = list(containers(locate(FILE, text)))
    if not places:
        return
    index = data.draw(st.integers(0, len(places) - 1))
    place = places[index]
    name = "new-name" if place.keys is not None else ""

    longer = insert_last(text, place, NEW, name)
    changed = list(containers(locate(FILE, longer)))[index]
    restored = remove_child(longer, changed, len(changed.children) - 1)

    expected = {**place.value, name: NEW} if name else [*place.value, NEW]
    assert changed.value == expected
    assert comments(longer) == comments(text)
    assert locate(FILE, restored).value == locate(FILE, text).value
    assert comments(restored) == comments(text)


@settings(max_examples=60)
@given(texts(), st.data())
def test_any_child_is_taken_out_alone(text, data):
    places = [each for each in containers(locate(FILE, text)) if each.children]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    index = data.draw(st.integers(0, len(place.children) - 1))
    child = place.children[index]

    shorter = remove_child(text, place, index)

    outside = text[: place.child_start(index)], text[child.end :]
    assert comments(shorter) == [each for part in outside for each in comments(part)]
    assert len(json.dumps(locate(FILE, shorter).value)) < len(json.dumps(locate(FILE, text).value))


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": 1\n}\n',
        '{\n\t"a": 1, // one\n\t"b": [2]\n}',
        '{\r\n    "a": {"b": 1},\r\n    /* why */ "c": 2\r\n}\r\n',
        '{"a": 1, "b": 2}',
        '{\n  "a": 1 // the last\n}\n',
    ],
)
def test_common_layouts_are_restored_byte_for_byte(text):
    longer = insert_last(text, locate(FILE, text), [NEW], "hooks")
    root = locate(FILE, longer)

    assert remove_child(longer, root, len(root.children) - 1) == text


def test_what_is_put_in_has_the_layout_of_the_rest():
    text = '{\n\t"a": 1 // of us\n}\n'

    longer = insert_last(text, locate(FILE, text), [1], "hooks")

    assert longer == '{\n\t"a": 1, // of us\n\t"hooks": [\n\t\t1\n\t]\n}\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1,}', 1),
        ('{\n"a": 1\n"b": 2}', 3),
        ('{"a": 1, "a": 2}', 1),
        ("[1, 2", 1),
        ("{'a': 1}", 1),
        ("/* open", 1),
        ("", 1),
        ("[01]", 1),
        ("NaN", 1),
        ("{}\n{}", 2),
        ("[" * 100_000, None),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text, line):
    with pytest.raises(ConfigurationError) as caught:
        locate(FILE, text)

    assert caught.value.line == line
