"""The paths of filled arguments."""

import pytest

from toolbus.approvals.bound_calls import changed_paths
from toolbus.messages.immutable import freeze


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": "[1]", "b": 2}, {"a": "key", "b": 2}, ["$.a"]),
        ({"a": [{"b": 1}, 2]}, {"a": [{"b": 2}, 3]}, ["$.a[0].b", "$.a[1]"]),
        ({"a": [1]}, {"a": [1, 2]}, ["$.a"]),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, ["$.a"]),
        ({"a": 1}, {"a": 1.0}, ["$.a"]),
        ({"a": 1}, {"a": True}, ["$.a"]),
        ({}, {"a": None}, ["$"]),
    ],
)
def test_paths_name_the_filled_values(before, after, paths):
    assert [*changed_paths(freeze(before), freeze(after))] == paths
