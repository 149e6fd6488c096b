"""Members and items of JSON texts with comments, put in and taken out by position."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus.errors import ConfigurationError
from toolbus.hosts.install.json_edits import (
    add_values,
    added_lines,
    present_parts,
    remove_values,
)
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
def texts(draw, values=VALUES):
    """Draw a JSON text of one of *values*, with blanks and comments wherever they may stand."""

    def write(value):
        if isinstance(value, dict):
            children = [f"{json.dumps(k)}{gap()}:{gap()}{write(v)}" for k, v in value.items()]
            return "{" + gap() + f"{gap()},{gap()}".join(children) + gap() + "}"
        if isinstance(value, list):
            return "[" + gap() + f"{gap()},{gap()}".join(map(write, value)) + gap() + "]"
        return json.dumps(value)

    def gap():
        return draw(BLANKS)

    return gap() + write(draw(values)) + gap()


def comments(text):
    """Return the comments of a text whose strings have no slashes."""
    return [each.strip() for each in re.findall(r"//[^\n]*|/\*.*?\*/", text)]


def containers(node):
    if node.keys is not None or isinstance(node.value, list):
        yield node
    for child in node.children:
        yield from containers(child)


@given(texts())
def test_positions_say_what_json_says(text):
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text)

    node = locate(FILE, text)

    assert json.dumps(node.value) == json.dumps(json.loads(plain))
    for each in containers(node):
        for child in each.children:
            assert locate(FILE, text[child.start : child.end]).value == child.value


OBJECTS = st.dictionaries(WORDS.filter(lambda name: name != "env"), VALUES, max_size=3)
ADDED = {"hooks": {"Before": [NEW], "After": [NEW]}, "env": {"A": "1"}}


def is_added(path, value):
    """Return whether a value at *path* is one of `ADDED`."""
    match path:
        case ("hooks", _, _):
            return value == NEW
        case ("env", "A"):
            return value == "1"
    return False


def added_and_removed(text, change=lambda text: text):
    root = locate(FILE, text)
    parts = dict(present_parts(text, root, ADDED))
    longer = change(add_values(text, root, ADDED))
    return longer, remove_values(longer, locate(FILE, longer), is_added, parts)


@settings(max_examples=5 * settings.default.max_examples)
@given(texts(OBJECTS))
def test_all_bytes_come_back(text):
    longer, restored = added_and_removed(text)

    value = locate(FILE, text).value
    assert locate(FILE, longer).value == {**value, **ADDED}
    assert comments(longer) == comments(text)
    assert restored == text


@settings(max_examples=5 * settings.default.max_examples)
@given(texts(OBJECTS), st.sampled_from(["", " ", "\n\n", "// mine\n"]), st.data())
def test_all_bytes_of_an_edited_text_come_back(value, blanks, data):
    inner = data.draw(texts(st.fixed_dictionaries({"Before": st.just([1]), "x": VALUES})))
    separator = "," if locate(FILE, value).children else ""
    end = value.rindex("}")
    text = f'{value[:end]}\n{separator}"hooks": {inner} // end\n{value[end:]}'
    longer, restored = added_and_removed(text, lambda longer: f"{blanks}{longer}{blanks}")

    assert longer != text
    assert restored == f"{blanks}{text}{blanks}"


@given(texts(), st.data())
def test_any_children_are_taken_out_alone(text, data):
    places = [each for each in containers(locate(FILE, text)) if each.children]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    indices = range(len(place.children))
    gone = data.draw(st.sets(st.sampled_from(indices), min_size=1))
    path = next(path for path, each in paths(locate(FILE, text)) if each == place)
    names = [str(index) if place.keys is None else place.keys[index][0] for index in indices]
    taken = {(*path, names[index]) for index in gone}
    kept = {"".join([f"/{name}" for name in path]): "{ kept }"}
    shorter = remove_values(text, locate(FILE, text), lambda at, _: at in taken, kept)

    spans = [(place.child_start(index), place.children[index].end) for index in sorted(gone)]
    begins, ends = [0, *[end for _, end in spans]], [*[start for start, _ in spans], len(text)]
    outside = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
    assert comments(shorter) == [each for part in outside for each in comments(part)]
    after = dict(paths(locate(FILE, shorter)))[path].value
    left = [place.children[index].value for index in indices if index not in gone]
    assert (list(after.values()) if isinstance(after, dict) else after) == left


def paths(node, path=()):
    """Yield the containers below *node* by their paths."""
    if node.keys is not None or isinstance(node.value, list):
        yield path, node
    for index, child in enumerate(node.children):
        yield from paths(child, (*path, str(index) if node.keys is None else node.keys[index][0]))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        "{\n}\n",
        '{"hooks": {}}',
        '{\n  "a": 1\n}\n',
        '{\n\t"a": 1, // one\n\t"b": [2]\n}',
        '{\r\n    "a": {"b": 1},\r\n    /* why */ "c": 2\r\n}\r\n',
        '{"a": 1, "b": 2}',
        '{\n  "a": 1 // the last\n}\n',
        '{\n  "a": 1 }',
        '{\n  "hooks": { "Before": [ ], "After": [\n  ] } }',
        '\ufeff{"env": {"A": "1"}}',
    ],
)
def test_common_layouts_are_restored_byte_for_byte(text):
    assert added_and_removed(text)[1] == text


def test_what_is_put_in_has_the_layout_of_the_rest():
    text = '{\n\t"a": 1 // of us\n}\n'

    longer = add_values(text, locate(FILE, text), {"hooks": [1]})

    assert longer == '{\n\t"a": 1, // of us\n\t"hooks": [\n\t\t1\n\t]\n}\n'


def test_lines_that_are_added_hold_nothing_else():
    text = '{"key": "made-up", "hooks": {"Before": ["mine"]}}'

    lines = added_lines(text, locate(FILE, text), ADDED)

    assert all("run us" in line or '"env"' in line for line in lines)
    assert not any("made-up" in line or "mine" in line for line in lines)


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
