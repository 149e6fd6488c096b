"""The differences of two JSON values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from toolbus.settings.differences import differences

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [("b", 2, 3)]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3, 4]}}, [("a.b[1]", 2, 3), ("a.b[2]", UNSET, 4)]),
        ({"a": (1, 2)}, {"a": [1]}, [("a[1]", 2, UNSET)]),
        ({"a": 1}, {"c": 1}, [("a", 1, UNSET), ("c", UNSET, 1)]),
        (1, True, [("the value", 1, True)]),
        ([], {}, [("the value", [], {})]),
        ({"a": None}, {"a": None}, []),
    ],
)
def test_differences_have_paths(before, after, told):
    assert [(one.path, one.before, one.after) for one in differences(before, after)] == told


@given(VALUES, VALUES)
def test_there_is_a_difference_if_the_json_differs(before, after):
    same = json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)

    assert (not list(differences(before, after))) == same


@given(VALUES, VALUES)
def test_differences_turn_around(before, after):
    there = {(one.path, repr(one.before), repr(one.after)) for one in differences(before, after)}
    back = {(one.path, repr(one.after), repr(one.before)) for one in differences(after, before)}

    assert there == back
    assert list(differences(before, before)) == []
