"""The labels of results that no tool has made."""

import pytest

from toolbus import Scope, ToolMessage, ToolResponse
from toolbus.components.call_facts import FactSources
from toolbus.components.participants import ComponentHost
from toolbus.flow.message_labels import MessageLabeller
from toolbus.flow.session_views import SessionView
from toolbus.flow.sources import FlowSettings


@pytest.mark.parametrize("status", ["denied", "pending", "unknown_tool"])
async def test_a_call_that_has_not_run_has_a_trusted_answer(status):
    host = ComponentHost()
    labeller = MessageLabeller(FlowSettings(), host, host.bus.shared(FactSources))
    view, response = SessionView(), ToolResponse("wait", is_error=True, error_type=status)
    message = ToolMessage(tool_call_id="c", tool_name="fetch", tool_response=response)
    view.outcomes["c"] = status

    label = await labeller.add(message, view, Scope())

    assert label.text == "trusted · system"
