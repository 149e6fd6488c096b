"""The driver of the OpenAI Agents SDK."""

import json
from dataclasses import replace
from functools import partial

from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.tracing import TracingProcessor, set_trace_processors
from pydantic import BaseModel
from world import World
from world_handlers import PromptRefusedError

from toolbus.bridges.openai_agents import OpenAIAgentsBridge


class Task(BaseModel):
    task: str


class WorldModel(ScriptedModel):
    """A model that plays *script*, and tells it what each request shows."""

    def __init__(self, script):
        super().__init__([ModelStep.respond(self._respond)] * 64, emit_traces=True)
        self._script = script

    def _respond(self, call):
        items = (
            call.input
            if isinstance(call.input, list)
            else [{"role": "user", "content": call.input}]
        )
        turn = self._script.next(
            prompt=[item["content"] for item in items if item.get("role") == "user"][-1],
            results={
                item["call_id"]: item["output"]
                for item in items
                if item.get("type") == "function_call_output"
            },
            offered={
                each.name: each.description for each in call.tools if isinstance(each, FunctionTool)
            },
            parameters={
                each.name: [*each.params_json_schema.get("properties", {})]
                for each in call.tools
                if isinstance(each, FunctionTool)
            },
        )
        if turn.calls:
            return [function_call(name, given, call_id=id_) for id_, name, given in turn.calls]
        return [assistant_message(turn.text)]


class Traces(TracingProcessor):
    """A processor that keeps all spans."""

    def __init__(self, world):
        self.world = world

    def on_span_end(self, span):
        self.world.trace(json.dumps(span.export(), default=str))

    def on_span_start(self, span): ...
    def on_trace_start(self, trace): ...
    def on_trace_end(self, trace): ...
    def shutdown(self): ...
    def force_flush(self): ...


class Callbacks(RunHooks):
    """Hooks that keep all that they are told."""

    def __init__(self, world):
        self.world = world

    async def on_llm_start(self, context, agent, system_prompt, input_items):
        self.world.trace(input_items)

    async def on_llm_end(self, context, agent, response):
        self.world.trace(response.output)

    async def on_tool_end(self, context, agent, tool, result):
        self.world.trace(result)

    async def on_agent_end(self, context, agent, output):
        self.world.trace(output)


async def approve(world, run, agent, result):
    """Answer the questions of *result*, and go on with *run*, until nothing is asked.

    The state of *agent* is restored from JSON, as another process would do.
    """
    while result.interruptions:
        state = await RunState.from_json(agent, result.to_state().to_json())
        for item in state.get_interruptions():
            if world.scenario.person is not None and world.approve(item.tool_name):
                state.approve(item)
            else:
                state.reject(item)
        result = await run(state)
    return result


async def show(world, result):
    """Show all events of the streamed *result*."""
    async for event in result.stream_events():
        world.show(event)


async def play(world: World) -> None:
    """Play *world*."""
    set_trace_processors([Traces(world)])
    await (play_bridge if world.mode == "bridge" else play_own)(world)


def agents_of(world, script, tools):
    below = Agent(name="below", model=WorldModel(world.sub_script), tools=tools)
    to_below = handoff(below, tool_name_override="handoff", input_type=Task, on_handoff=noop)
    return below, Agent(name="above", model=WorldModel(script), tools=tools, handoffs=[to_below])


async def noop(_context, _input): ...


async def play_bridge(world):
    options = {**world.options, "approver": None, "idempotent": ["flaky"]}
    bridge = OpenAIAgentsBridge(world.components, **options)
    tools = [function_tool(each) for each in world.tools.values()]

    async def run(conversation):
        session = SQLiteSession(conversation.session)
        _, agent = agents_of(world, conversation.script, tools)
        options = {"session": session, "hooks": Callbacks(world), "max_turns": None}
        if world.streamed:
            result = await bridge.run_streamed(agent, conversation.prompt, **options)
            await show(world, result)
            return result.final_output
        again = partial(bridge.run, agent, **options)
        result = await approve(world, again, agent, await again(conversation.prompt))
        return result.final_output

    def run_sync(conversation):
        _, agent = agents_of(world, conversation.script, tools)
        return bridge.run_sync(agent, conversation.prompt).final_output

    async def sub_agent(task):
        agent = Agent(name="below", model=WorldModel(world.sub_script), tools=tools)
        agent = agent if world.scenario.unwrapped else bridge.wrap(agent)
        return (await Runner.run(agent, task)).final_output

    world.sub_agent = sub_agent
    await world.run(run_sync if world.sync else run)
    await bridge.aclose()


async def play_own(world):
    """Play *world* with tools whose `on_invoke_tool` is wrapped, and the hooks of runs.

    Tool guardrails do less: arguments that they change are ignored.
    """
    plain = [function_tool(each) for each in world.tools.values()]
    is_plain = world.mode == "plain"
    tools = plain if is_plain else [hooked(world, each) for each in world.tools.values()]
    config = (
        RunConfig()
        if is_plain
        else RunConfig(
            tool_not_found_behavior="return_error_to_model",
            tool_error_formatter=partial(format_unknown, world),
            call_model_input_filter=partial(redact_prompt, world),
            input_guardrails=[
                InputGuardrail(partial(judge_prompt, world), "own", run_in_parallel=False)
            ],
        )
    )

    async def run(conversation):
        session = SQLiteSession(conversation.session)
        _, agent = agents_of(world, conversation.script, tools)
        agent.hooks = None if is_plain else RedactAnswers(world)
        options = {
            "session": session,
            "run_config": config,
            "hooks": Callbacks(world),
            "max_turns": None,
        }
        if world.streamed:
            result = Runner.run_streamed(agent, conversation.prompt, **options)
            await show(world, result)
            return result.final_output
        return (await Runner.run(agent, conversation.prompt, **options)).final_output

    def run_sync(conversation):
        _, agent = agents_of(world, conversation.script, tools)
        return Runner.run_sync(agent, conversation.prompt, run_config=config).final_output

    async def sub_agent(task):
        of_sub = plain if world.scenario.unwrapped else tools
        agent = Agent(name="below", model=WorldModel(world.sub_script), tools=of_sub)
        return (await Runner.run(agent, task)).final_output

    world.sub_agent = sub_agent
    await world.run(run_sync if world.sync else run)


def hooked(world, function):
    """Return *function* as a tool with the hooks of *world*."""
    name, hooks = function.__name__, world.hooks
    # Otherwise the framework masks the text of a failure, or traces it.
    tool = function_tool(function, failure_error_function=None)

    async def invoke(context, given):
        before = await hooks.before_async(name, json.loads(given), context.tool_call_id)
        if before.reply is not None:
            return before.reply
        end = (name, before.arguments)
        while True:
            try:
                result = await tool.on_invoke_tool(context, json.dumps(before.arguments))
            except Exception as error:  # noqa: BLE001 - the model reads it
                if not hooks.retries(name):
                    return hooks.after(*end, str(error), context.tool_call_id, is_error=True)
            else:
                return hooks.after(*end, result, context.tool_call_id)

    description = hooks.description(name, tool.description)
    schema = tool.params_json_schema
    shown = {
        **schema,
        "properties": without(schema["properties"], hooks.filled(name)),
        "required": [each for each in schema.get("required", ()) if each not in hooks.filled(name)],
    }
    return replace(
        tool,
        on_invoke_tool=invoke,
        description=description or "",
        is_enabled=description is not None,
        params_json_schema=shown,
    )


def without(values, names):
    return {name: value for name, value in values.items() if name not in names}


def format_unknown(world, failure):
    """Return the text for a call of an unknown tool, whose arguments are not told."""
    if failure.kind != "tool_not_found":
        return None
    reply = world.hooks.before(failure.tool_name, {}, failure.call_id).reply
    if reply is None:
        end = (failure.tool_name, {}, failure.default_message, failure.call_id)
        reply = world.hooks.after(*end, is_error=True)
    return reply


def redact_prompt(world, data):
    """Return the input for the model with redacted prompts; the session keeps the originals."""
    items = [
        {**item, "content": world.hooks.prompt(item["content"])}
        if item.get("role") == "user"
        else item
        for item in data.model_data.input
    ]
    return replace(data.model_data, input=items)


def judge_prompt(world, _context, _agent, given):
    texts = [given] if isinstance(given, str) else [item.get("content") for item in given]
    try:
        world.hooks.prompt(texts[-1])
    except PromptRefusedError as error:
        return GuardrailFunctionOutput(str(error), tripwire_triggered=True)
    return GuardrailFunctionOutput(None, tripwire_triggered=False)


class RedactAnswers(AgentHooks):
    """Hooks that change the answer of the model in place, since output guardrails only refuse."""

    def __init__(self, world):
        self.world = world

    async def on_llm_end(self, context, agent, response):
        for item in response.output:
            for part in item.content if item.type == "message" else ():
                part.text = self.world.hooks.answer(part.text)
