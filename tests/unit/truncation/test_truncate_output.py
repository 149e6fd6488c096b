"""What the spec does not mention of the component."""

import sys

import pytest

from toolbus import Agent, EventBus
from toolbus.errors import RegistrationError
from toolbus.models.scripted import ScriptedModel
from toolbus.testing.checks import check_handler
from toolbus.truncation.truncate_output import TruncateOutput


def count(text):
    return len(text)


def test_two_components_have_two_readers():
    components = [TruncateOutput(), TruncateOutput(reader="read_on").restrict(tools="bash")]

    agent = Agent(ScriptedModel([]), components=components, bus=EventBus())

    specs = {one.name: one for one in agent.tools.specs}
    assert list(specs) == ["read_more", "read_on"]
    assert specs["read_on"].input_schema == specs["read_more"].input_schema
    assert specs["read_on"].annotations == {"readOnlyHint": True}


def test_a_pattern_without_the_extra_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)

    with pytest.raises(RegistrationError, match=r"pip install '\.\[patterns\]'"):
        TruncateOutput(pattern="a+")


def test_a_tokenizer_may_be_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "counting", sys.modules[__name__])

    component = TruncateOutput(tokens=100, tokenizer="counting:count")

    assert component._budget.count is count


@pytest.mark.full
def test_it_keeps_the_laws_of_handlers():
    for settings in ({"characters": 300}, {"tokens": 100, "part_bytes": 10}):
        check_handler(TruncateOutput(**settings), roles=["tool"], idempotent=True)
