"""Readings of calls that are kept from the verdict until other components ask for effects."""

from toolbus import Agent, ToolCall, events, tool
from toolbus.components.call_facts import FactSources
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy


@tool
async def shell(command: str) -> str:
    """Run a command."""
    return "done"


async def test_the_effects_of_a_call_are_those_of_its_verdict(tmp_path):
    (tmp_path / "src").mkdir()
    declared = {"shell": {"folder": str(tmp_path), "keeps_folder": True}}
    policy = Policy(tools=declared, default="allow")
    agent, read = Agent(ScriptedModel([]), tools=[shell], components=[policy]), []
    (reader,) = agent.bus.shared(FactSources).effects

    @agent.guard(events.MESSAGE_APPEND_BEFORE, roles="tool", priority=-1_000)
    async def read_effects(ctx):
        answer = ctx.value.tool_response
        call = ToolCall(id=answer.tool_call_id, name="shell", arguments=answer.parameters)
        read.append(await reader.effects_of(call, ctx.tool, ctx.scope))
        other = ToolCall(id=call.id, name="shell", arguments={"command": "cat b.txt"})
        read.append(await reader.effects_of(other, ctx.tool, ctx.scope))

    async with agent:
        await agent.call_tool("shell", command="cd src && cat a.txt")

    assert str(tmp_path / "src/a.txt") in read[0].reads
    # Another call of this id is read anew, when the shell may be in any folder.
    assert not read[1].is_known
