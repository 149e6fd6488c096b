"""The wall between a call and approvals: what a runner without a gate never enters."""

import sys
from pathlib import Path

import pytest

import toolbus
from toolbus.agent.agent import Agent
from toolbus.bus.bus import EventBus
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Ask
from toolbus.messages.records import AssistantMessage, ToolCall
from toolbus.models import ScriptedModel
from toolbus.tools import tool
from toolbus.tools.calls.gate import CallGate
from toolbus.tools.calls.runner import ToolRunner
from toolbus.tools.toolset import Toolset

ROOT = Path(toolbus.__file__).parent
WALLED = (
    "approvals/",
    "tools/calls/approver.py",
    "tools/calls/gated_call.py",
    "tools/calls/order.py",
)
NO_TERMINAL = "approval is needed, and no approver is available"


@tool
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


class Entered(list):
    """The functions of the gate's side that are entered while it is open."""

    def __enter__(self):
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _note(self, frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            place = path.relative_to(ROOT).as_posix()
            is_gate = (
                place == "tools/calls/gate.py" and frame.f_code.co_name != "deny_without_approver"
            )
            if place.startswith(WALLED) or is_gate:
                self.append(f"{place}: {frame.f_code.co_name}")


class UntouchedGate(CallGate):
    """A gate of which nobody may want anything."""

    async def ask(self, asked):
        raise AssertionError(asked)

    async def hold(self, session_id, call_id):
        raise AssertionError(call_id)


@pytest.mark.parametrize("asks", [False, True])
async def test_a_call_without_a_gate_enters_nothing_of_one(asks):
    bus = EventBus()
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("sure?") if asks else None)
    runner = ToolRunner(bus, Toolset([double]))

    with Entered() as entered:
        outcome = await runner.call("double", {"number": 2})
        calls = [ToolCall(id=f"c{i}", name="double", arguments={"number": i}) for i in range(3)]
        await runner.call_all(calls)

    assert entered == []
    assert outcome.response.text == (NO_TERMINAL if asks else "4")


async def test_an_agent_without_an_approver_enters_nothing_of_a_gate():
    calls = tuple(ToolCall(id=f"c{i}", name="double", arguments={"number": i}) for i in range(2))
    model = ScriptedModel([AssistantMessage(id="m", tool_calls=calls), "done"])
    async with Agent(model, tools=[double]) as agent:
        with Entered() as entered:
            result = await agent.run("go")

    assert entered == []
    assert result.text == "done"


async def test_a_gate_is_not_asked_where_no_guard_asks():
    runner = ToolRunner(EventBus(), Toolset([double]), approver=UntouchedGate())

    outcome = await runner.call("double", {"number": 2})

    assert outcome.status == "ok"
