"""The check of requests, whose records cost time: only with handlers that may change them."""

from msgspec.structs import replace

from toolbus import Agent, AssistantMessage, Deny, ToolCall, UserMessage, events, tool
from toolbus.flow import FlowGuard
from toolbus.models.scripted import ScriptedModel

ASKING = AssistantMessage(tool_calls=(ToolCall(name="notes"),))


@tool
async def notes() -> str:
    """Read notes."""
    return "milk and bread"


def remember(ctx):
    """Add a message to a request."""
    added = UserMessage(content="an earlier note")
    return replace(ctx.value, messages=(*ctx.value.messages, added))


def agent_with(flow, script, **options):
    """Return an agent with trusted notes."""
    return Agent(ScriptedModel([*script, "done"]), tools=[notes], components=[flow], **options)


async def test_requests_without_other_handlers_are_not_recorded():
    agent = agent_with(FlowGuard(trusted_tools=["notes"]), [ASKING])

    async with agent:
        await agent.run("go on")

    assert events.MODEL_CALL_BEFORE.name not in {record.event for record in agent.ledger}


async def test_a_later_handler_is_noticed():
    flow = FlowGuard(trusted_tools=["notes"])
    agent = agent_with(flow, [ASKING])

    @agent.on(events.TOOL_CALL_BEFORE)
    def subscribe(ctx):
        agent.on(events.MODEL_CALL_BEFORE, remember)

    async with agent:
        await agent.run("go on")
        view = await flow.view(agent.scope)

    assert view.label.text == "unknown · model"


async def test_a_handler_of_an_agent_above_is_noticed():
    flow = FlowGuard()
    below = agent_with(flow, [], agent_id="below")
    asking = AssistantMessage(tool_calls=(ToolCall(name="helper", arguments={"prompt": "go"}),))
    above = Agent(ScriptedModel([asking, "done"]), tools=[below.as_tool("helper")])
    above.on(events.MODEL_CALL_BEFORE, remember)

    async with above, below:
        await above.run("go on")

    (view,) = [each for each in flow.views.values() if each.texts]
    assert "a message that was added to a request" in [text.source for text in view.texts]


async def test_a_refused_result_is_no_reason_to_read_a_session_again():
    flow = FlowGuard()
    agent = agent_with(flow, [ASKING, "done"])
    agent.guard(events.MESSAGE_APPEND_BEFORE, lambda _: Deny("it is withheld"), roles="tool")

    async with agent:
        await agent.run("go on")
        view = await flow.view(agent.scope)
        await agent.run("go on")

        assert await flow.view(agent.scope) is view
        assert view.label.is_trusted


async def test_a_prompt_after_a_refused_result_is_the_person_s():
    flow = FlowGuard()
    page = ToolCall(name="page")
    agent = agent_with(flow, [AssistantMessage(tool_calls=(page,)), ASKING, "done"])
    agent.tools.add(tool(page_of_strangers, name="page"))
    agent.guard(events.MESSAGE_APPEND_BEFORE, refuse_notes, roles="tool")

    async with agent:
        await agent.run("go on")
        await agent.run("is it harbourmaster Petersen of Rotterdam?")
        view = await flow.view(agent.scope)

    assert [text.label.text for text in view.texts if text.role == "user"] == [
        "trusted · person",
        "trusted · person",
    ]


async def page_of_strangers() -> str:
    """Read a page."""
    return "so says harbourmaster Petersen of Rotterdam"


def refuse_notes(ctx):
    """Refuse the results of one tool."""
    return Deny("it is withheld") if ctx.value.tool_name == "notes" else None
