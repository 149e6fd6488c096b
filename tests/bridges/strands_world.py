"""Strands plays the world: a model that plays a script, with our bridge or with its own hooks."""

import json

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from strands import Agent, tool
from strands.models import Model
from strands.multiagent import Swarm
from strands_hooks import OwnHooks, add_middleware, text_of
from world import IDEMPOTENT, World

SPANS = InMemorySpanExporter()
_PROVIDER = TracerProvider()
_PROVIDER.add_span_processor(SimpleSpanProcessor(SPANS))
trace.set_tracer_provider(_PROVIDER)


class WorldModel(Model):
    """A model that plays *script*, and tells it what each request shows."""

    def __init__(self, script):
        self._script = script

    def update_config(self, **_):
        """Do nothing: there is no configuration."""

    def get_config(self):
        return {}

    def structured_output(self, *_, **__):
        raise NotImplementedError

    async def stream(self, messages, tool_specs=None, system_prompt=None, **_):
        blocks = [(message["role"], block) for message in messages for block in message["content"]]
        results = [block["toolResult"] for _, block in blocks if "toolResult" in block]
        prompts = [block["text"] for role, block in blocks if role == "user" and "text" in block]
        schemas = {spec["name"]: spec["inputSchema"]["json"] for spec in tool_specs or ()}
        turn = self._script.next(
            prompt=prompts[-1] if prompts else None,
            results={result["toolUseId"]: text_of(result) for result in results},
            offered={spec["name"]: spec["description"] for spec in tool_specs or ()},
            parameters={name: [*schema["properties"]] for name, schema in schemas.items()},
        )
        yield {"messageStart": {"role": "assistant"}}
        for call in turn.calls:
            for chunk in chunks_of(call):
                yield chunk
        if turn.text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": turn.text}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if turn.calls else "end_turn"}}


def chunks_of(call):
    """Return the chunks of one call; a handoff is the swarm's own tool."""
    name, given = call.name, call.arguments
    if name == "handoff":
        name, given = "handoff_to_agent", {"agent_name": "second", "message": given["task"]}
    start = {"toolUse": {"name": name, "toolUseId": call.id}}
    return (
        {"contentBlockStart": {"start": start}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}},
        {"contentBlockStop": {}},
    )


class Play:
    """One play: its agents, one for each session."""

    def __init__(self, world, bridge):
        self.world, self.bridge = world, bridge
        self.agents = {}

    def agent(self, script, *, is_sub=False, name="agent"):
        """Return an agent with our bridge, with the framework's own hooks, or with neither."""
        world = self.world
        mode = "plain" if is_sub and world.scenario.unwrapped else world.mode
        hooks = [self.bridge] if mode == "bridge" and not is_sub else []
        if mode == "own":
            hooks = [OwnHooks(world.hooks)]
        tools = [
            tool(function)
            for tool_name, function in world.tools.items()
            if not (is_sub and tool_name == "delegate")
        ]
        agent = Agent(
            model=WorldModel(script),
            tools=tools,
            name=name,
            agent_id=name,
            callback_handler=lambda **event: world.trace(plain(event)),
            hooks=hooks,
        )
        if mode == "own":
            add_middleware(world.hooks, agent)
        return self.bridge.wrap(agent) if mode == "bridge" else agent

    async def delegate(self, task):
        """Return the answer of an agent made inside a tool."""
        agent = self.agent(self.world.sub_script, is_sub=True, name="helper")
        return str(await agent.invoke_async(task)).strip()

    async def hand_off(self, conversation):
        """Return the answer of a swarm whose first agent hands the task to the second."""
        first = self.agent(conversation.script, name="first")
        second = self.agent(self.world.sub_script, is_sub=True, name="second")
        swarm = Swarm([first, second])
        result = await swarm.invoke_async(conversation.prompt)
        return str(result.results["second"].result).strip()

    def agent_for(self, conversation):
        """Return the agent of a session."""
        if conversation.session not in self.agents:
            self.agents[conversation.session] = self.agent(conversation.script)
        return self.agents[conversation.session]

    async def run(self, conversation):
        """Play one prompt; an interrupt asks the person."""
        if "handoffs" in self.world.scenario.needs:
            return await self.hand_off(conversation)
        agent, prompt = self.agent_for(conversation), conversation.prompt
        while prompt is not None:
            result = await (self.stream if self.world.streamed else Agent.invoke_async)(
                agent, prompt
            )
            prompt = self.answers(result)
        return str(result).removesuffix("\n")

    async def stream(self, agent, prompt):
        """Return the result of a streamed run, and show its events."""
        async for event in agent.stream_async(prompt):
            self.world.show(plain(event))
            result = event.get("result")
        return result

    def answers(self, result):
        """Return the person's answers to the interrupts of a run; None if there are none."""
        if result.stop_reason != "interrupt":
            return None
        asks = self.world.scenario.person is not None
        return [
            {
                "interruptResponse": {
                    "interruptId": each.id,
                    "response": asks and self.world.approve(each.reason["tool"]),
                }
            }
            for each in result.interrupts
        ]

    def run_sync(self, conversation):
        """Play one prompt with the framework's sync entry."""
        return str(self.agent_for(conversation)(conversation.prompt)).removesuffix("\n")


def plain(event) -> str:
    """Return the JSON values of an event, as text; its other objects have no text of their own."""
    kinds = (str, int, float, dict, list, tuple)
    return json.dumps({k: v for k, v in event.items() if isinstance(v, kinds)}, default=str)


async def play(world: World) -> None:
    """Play *world* with Strands."""
    SPANS.clear()
    bridge = None
    if world.mode == "bridge":
        from toolbus.bridges.strands import StrandsBridge

        # Without an approver the framework's own interrupt asks.
        options = {**world.options, "approver": None, "idempotent": [*IDEMPOTENT]}
        bridge = StrandsBridge(world.components, **options)
    plays = Play(world, bridge)
    world.sub_agent = plays.delegate
    await world.run(plays.run_sync if world.sync else plays.run)
    for span in SPANS.get_finished_spans():
        world.trace(span.name, dict(span.attributes), span.status.description)
        world.trace(*((event.name, dict(event.attributes)) for event in span.events))
    if bridge is not None:
        await bridge.aclose()
