"""The reference: our own agent plays the world; its only hooks are the components."""

from world import IDEMPOTENT, World

from toolbus import Agent, AssistantMessage, ToolCall, ToolContext, ToolMessage, tool
from toolbus.events import ModelDelta
from toolbus.models import ScriptedModel


class WorldModel(ScriptedModel):
    """A model that plays *script*, and tells it what each request shows."""

    def __init__(self, script):
        super().__init__([])
        self._script = script

    async def complete(self, request):
        results = {
            message.tool_call_id: message.text
            for message in request.messages
            if isinstance(message, ToolMessage)
        }
        prompts = [message.text for message in request.messages if message.role == "user"]
        turn = self._script.next(
            prompt=prompts[-1],
            results=results,
            offered={spec.name: spec.description for spec in request.tools},
            parameters={
                spec.name: [*spec.input_schema.get("properties", {})] for spec in request.tools
            },
        )
        calls = [ToolCall(id=id_, name=name, arguments=given) for id_, name, given in turn.calls]
        return AssistantMessage(content=turn.text, tool_calls=tuple(calls))


def tools_of(world):
    """Return the tools; those that need a sub-agent run it below their own call."""

    async def delegate(task: str, context: ToolContext) -> str:
        """Give a task to another agent."""
        world.seen["ran"].append(["delegate", {"task": task}])
        helper = Agent(WorldModel(world.sub_script), tools=plain)
        return (await helper.run_below(task, context)).text

    async def handoff(task: str, context: ToolContext) -> str:
        """Hand the task over."""
        return await Agent(WorldModel(world.sub_script), tools=plain).run_below(task, context)

    plain = [
        tool(function, idempotent=name in IDEMPOTENT, timeout=world.scenario.timeout)
        for name, function in world.tools.items()
        if name != "delegate"
    ]
    return [*plain, delegate, handoff]


async def stream(world, agent, prompt):
    """Return the final text of a streamed run, and show its pieces."""
    text = ""
    async for piece in agent.stream(prompt):
        if isinstance(piece, ModelDelta | ToolMessage):
            world.show(piece.text)
        text = getattr(piece, "text", text)
    return text


async def play(world: World) -> None:
    """Play *world* with our agent: one agent for each session."""
    agents, store = {}, world.open_store()

    def agent_for(conversation):
        agents[conversation.session] = agent = Agent(
            WorldModel(conversation.script),
            tools=tools_of(world),
            components=world.components,
            store=store,
            session_id=conversation.session,
            agent_id="agent",
            approver=world.approver,
        )
        return agent

    async def run(conversation):
        agent = agents.get(conversation.session) or agent_for(conversation)
        if world.streamed:
            return await stream(world, agent, conversation.prompt)
        result = await agent.run(conversation.prompt)
        world.trace(*(message.text for message in agent.messages))
        return result.text

    def run_sync(conversation):
        return agent_for(conversation).run_sync(conversation.prompt).text

    await world.run(run_sync if world.sync else run)
    for agent in agents.values():
        await agent.aclose()
