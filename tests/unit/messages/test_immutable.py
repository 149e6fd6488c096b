"""What `specs` should not mention of `toolbus.messages.immutable`."""

import copy
import pickle
from collections import ChainMap, OrderedDict
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.errors import FreezeError
from toolbus.messages.immutable import (
    EMPTY,
    FrozenDict,
    check_text,
    escape_surrogates,
    freeze,
    freeze_object,
    replace_surrogates,
    thaw,
)
from toolbus.testing.strategies import json_objects, json_values


def plain(value):
    """Freeze *value* in the plainest way, to compare with."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return tuple(map(plain, value)) if isinstance(value, list) else value


@given(json_values())
def test_freezing_changes_types_and_nothing_else(value):
    assert freeze(value) == plain(value)


@given(json_values())
def test_thawing_is_the_way_back(value):
    assert thaw(freeze(value)) == value


@given(json_values())
def test_freezing_again_changes_nothing(value):
    frozen = freeze(value)

    assert freeze(frozen) is frozen


@given(json_objects(), json_objects())
def test_frozen_dicts_are_equal_as_dicts_are(one, other):
    frozen, another = FrozenDict(one), FrozenDict(other)

    assert (frozen == another) == (plain(one) == plain(other))
    assert frozen != another or hash(frozen) == hash(another)


@given(json_objects())
def test_a_frozen_dict_is_made_of_pairs_as_well(value):
    assert FrozenDict(value.items()) == FrozenDict(value) == freeze_object(value, "$")


@pytest.mark.parametrize(
    "mapping", [MappingProxyType({"a": [1]}), ChainMap({"a": [1]}), OrderedDict(a=[1])]
)
def test_any_mapping_freezes(mapping):
    assert type(freeze(mapping)) is FrozenDict
    assert freeze(mapping) == {"a": (1,)}
    assert thaw(mapping) == {"a": [1]}


def test_a_frozen_dict_is_empty_by_default():
    assert FrozenDict() == EMPTY == {}


def test_a_frozen_dict_shows_what_it_is():
    assert repr(FrozenDict({"a": [1]})) == "FrozenDict({'a': (1,)})"


def test_a_copy_is_the_same_object():
    frozen = FrozenDict({"a": [1]})

    assert copy.copy(frozen) is copy.deepcopy(frozen) is frozen


def test_a_union_with_a_frozen_dict_is_a_new_dict():
    frozen = FrozenDict({"a": 1})

    assert frozen | {"b": 2} == {"a": 1, "b": 2}
    assert frozen == {"a": 1}


def test_the_deepest_value_is_usable():
    deepest: dict = {}
    for _ in range(199):
        deepest = {"in": deepest}
    frozen = freeze(deepest)

    assert thaw(frozen) == deepest
    assert hash(frozen) == hash(freeze(deepest))
    assert pickle.loads(pickle.dumps(frozen)) == frozen


def test_depth_counts_arrays_inside_frozen_objects():
    frozen = freeze({"rows": [[1], {"x": []}]})
    nested: object = frozen
    for _ in range(196):
        nested = [nested]

    assert freeze(nested) is not nested
    with pytest.raises(FreezeError, match="nested deeper than 200"):
        freeze([nested])


def test_an_array_with_something_to_freeze_is_a_new_one():
    value = ({"a": 1}, "text")

    frozen = freeze(value)

    assert frozen == value
    assert type(frozen[0]) is FrozenDict


@pytest.mark.parametrize(
    ("key", "step"),
    [
        ("plain_1", ".plain_1"),
        ("größe", ".größe"),
        ("a.b", "['a.b']"),
        ("", "['']"),
        ("line\nbreak", r"['line\nbreak']"),
        ("x" * 200, "['" + "x" * 119 + "]"),
    ],
)
def test_a_path_names_keys_so_that_they_can_be_read(key, step):
    with pytest.raises(FreezeError) as caught:
        freeze({key: {1, 2}})

    assert caught.value.path == f"${step}"


def test_a_path_starts_where_the_caller_says():
    with pytest.raises(FreezeError) as caught:
        freeze([object()], "$.arguments")

    assert caught.value.path == "$.arguments[0]"


@pytest.mark.parametrize("value", [[1], None, "text"])
def test_only_mappings_are_objects(value):
    with pytest.raises(FreezeError, match="expected object, got"):
        freeze_object(value, "$.metadata")


def test_a_frozen_object_stays_the_same():
    assert freeze_object(EMPTY, "$") is EMPTY


@given(st.text())
def test_text_without_surrogates_is_text(text):
    check_text(text, "$")

    assert escape_surrogates(text) == text


@given(st.text(st.characters(categories=["Cs", "Lu"]), min_size=1))
def test_escaped_text_can_be_encoded(text):
    escaped = escape_surrogates(text)

    assert escaped.encode()
    check_text(escaped, "$")


@given(st.text(st.characters(exclude_categories=())))
def test_mended_text_can_be_carried(text):
    mended = replace_surrogates(text)

    assert mended.encode().decode() == mended
    assert replace_surrogates(mended) is mended
