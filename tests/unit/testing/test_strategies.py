"""What `specs` should not mention of `toolbus.testing.strategies`."""

import importlib
import sys

import pytest
from hypothesis import Phase, find, given, settings

from toolbus.messages.records import TextPart, encode
from toolbus.testing.strategies import json_objects, json_values, messages, parts


def first(strategy, wanted):
    """Return the first example that is *wanted*, without looking for a simpler one."""
    return find(strategy, wanted, settings=settings(phases=[Phase.generate], max_examples=500))


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_messages_of_every_role_are_drawn(role):
    assert first(messages(), lambda message: message.role == role).role == role


@pytest.mark.parametrize("kind", ["text", "image", "audio", "resource"])
def test_parts_of_every_type_are_drawn(kind):
    assert first(parts(), lambda part: part.type == kind).type == kind


def test_what_is_drawn_shrinks_to_the_simplest():
    assert find(json_values(), lambda _: True) is None
    assert find(parts(), lambda _: True) == TextPart(text="")


@given(json_objects(max_size=1))
def test_objects_are_as_large_as_asked(value):
    assert len(value) <= 1
    assert encode(value)


def test_without_hypothesis_the_error_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("toolbus.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    with pytest.raises(ImportError, match=r"`pip install '\.\[testing\]'`"):
        importlib.import_module("toolbus.testing.strategies")
