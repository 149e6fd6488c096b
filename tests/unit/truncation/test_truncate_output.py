"""What the spec does not mention of the component."""

import pytest

from toolbus import Agent, EventBus
from toolbus.models.scripted import ScriptedModel
from toolbus.testing.checks import check_handler
from toolbus.truncation.truncate_output import TruncateOutput


def test_two_components_have_two_readers():
    components = [TruncateOutput(), TruncateOutput(reader="read_on").restrict(tools="bash")]

    agent = Agent(ScriptedModel([]), components=components, bus=EventBus())

    specs = {one.name: one for one in agent.tools.specs}
    assert list(specs) == ["read_more", "read_on"]
    assert specs["read_on"].input_schema == specs["read_more"].input_schema
    assert specs["read_on"].annotations == {"readOnlyHint": True}


@pytest.mark.full
def test_it_keeps_the_laws_of_handlers():
    for settings in ({"characters": 300}, {"tokens": 100, "part_bytes": 10}):
        check_handler(TruncateOutput(**settings), roles=["tool"], idempotent=True)
