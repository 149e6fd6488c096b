from toolbus import Agent, Ask
from toolbus.approvals import StoredApprovals
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models import ScriptedModel


def pay(amount: int) -> str:
    return f"paid {amount}"


async def test_a_pending_call_of_an_agent_names_resume():
    agent = Agent(ScriptedModel(["done"]), tools=[pay], approver=StoredApprovals())
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("really?"))

    outcome = await agent.call_tool("pay", amount=3)

    assert outcome.status == "pending"
    assert outcome.response.text.endswith("waits, and `resume` continues")
