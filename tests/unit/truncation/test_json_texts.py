"""JSON that is shorter and still JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import format as formatted

from toolbus.truncation.json_texts import is_json, shorten_json


def compact(raw):
    return formatted(raw, indent=-1)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(), inner, max_size=30),
    max_leaves=60,
).filter(lambda value: isinstance(value, list | dict | str))


@given(JSON, st.integers(0, 400), st.sampled_from([None, "[Shortened]"]))
def test_whatever_is_shortened_is_json_of_its_kind(value, room, notice):
    text = json.dumps(value, allow_nan=False)
    if not is_json(text):  # an integer or a float that is out of range
        return

    shortened = shorten_json(compact(text.encode()), room, notice)

    read = json.loads(shortened)
    assert type(read) is type(value)
    assert notice is None or notice in shortened
    assert len(shortened.encode()) <= max(room, 400) + 100


@given(st.text())
def test_only_json_is_taken_for_it(text):
    def parses():
        try:
            return isinstance(json.loads(text), list | dict | str)
        except ValueError:
            return False

    assert not is_json(text) or parses()


def test_what_is_too_deep_is_no_json():
    assert not is_json("[" * 100_000 + "]" * 100_000)


def test_without_a_notice_there_are_no_marks():
    raw = compact(json.dumps({"items": list(range(1000)), "name": "x"}).encode())

    read = json.loads(shorten_json(raw, 200, None))

    assert set(read) == {"items", "name"}
    assert all(type(one) is int for one in read["items"])
    assert (read["items"][0], read["items"][-1]) == (0, 999)


def test_too_many_values_are_no_json():
    assert is_json("[" + ",".join(["1"] * 400_000) + "]")
    assert not is_json("[" + ",".join(["1"] * 600_000) + "]")
    assert is_json(f'"{"," * 600_000}"')


def test_a_key_that_is_too_long_takes_its_member_along():
    raw = compact(json.dumps({"k" * 5000: None}).encode())

    assert json.loads(shorten_json(raw, 300, "[Shortened]")) == {
        "…": "[… 1 of 1 members left out …]",
        "toolbus:shortened": "[Shortened]",
    }
    assert json.loads(shorten_json(raw, 300, None)) == {}
