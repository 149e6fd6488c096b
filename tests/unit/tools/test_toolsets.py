import pytest

from toolbus import Agent, EventBus
from toolbus.errors import RegistrationError
from toolbus.models.scripted import ScriptedModel
from toolbus.tools.toolset import Toolset


def test_a_sub_agent_of_another_bus_is_found_in_an_included_toolset():
    below = Agent(ScriptedModel([]), bus=EventBus())
    tools = Toolset([below.as_tool("below")])

    with pytest.raises(RegistrationError, match="a sub-agent shares its caller's bus"):
        Agent(ScriptedModel([]), tools=[tools])
