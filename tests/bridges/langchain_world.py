"""LangChain plays the world: with the bridge as its middleware, or with a middleware of its own."""

import asyncio
import inspect

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from world import IDEMPOTENT, World
from world_handlers import PromptRefusedError


class WorldModel(BaseChatModel):
    """A model that plays *script*, and tells it what each request shows."""

    script: object

    @property
    def _llm_type(self):
        return "world"

    def bind_tools(self, tools, **options):
        functions = [convert_to_openai_tool(each)["function"] for each in tools]
        return self.bind(functions=functions)

    def _generate(self, messages, stop=None, run_manager=None, functions=(), **options):
        results = {
            message.tool_call_id: message.text
            for message in messages
            if isinstance(message, ToolMessage)
        }
        prompts = [message.text for message in messages if isinstance(message, HumanMessage)]
        turn = self.script.next(
            prompt=prompts[-1],
            results=results,
            offered={each["name"]: each["description"] for each in functions},
            parameters={
                each["name"]: [*each["parameters"].get("properties", {})] for each in functions
            },
        )
        calls = [{"id": id_, "name": name, "args": given} for id_, name, given in turn.calls]
        message = AIMessage(turn.text, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Traces(BaseCallbackHandler):
    """The callbacks of tools and of the graph's nodes, which feed tracing."""

    def __init__(self, world):
        self.on_tool_start = lambda *values, **named: world.trace(values, named.get("inputs"))
        self.on_tool_end = lambda output, **_: world.trace(output)
        self.on_tool_error = lambda error, **_: world.trace(repr(error))
        self.on_chain_end = lambda outputs, **_: world.trace(outputs)
        self.on_chain_error = lambda error, **_: world.trace(repr(error))


class OwnHooks(AgentMiddleware):
    """The middleware that an expert of LangChain would write for the handlers of *world*."""

    def __init__(self, world):
        super().__init__()
        self.world, self.hooks = world, world.hooks

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state, runtime):
        message = state["messages"][-1]
        try:
            text = self.hooks.prompt(message.text)
        except PromptRefusedError as refusal:
            messages = [RemoveMessage(id=message.id), AIMessage(str(refusal))]
            return {"messages": messages, "jump_to": "end"}
        return {"messages": [message.model_copy(update={"content": text})]}

    def _shown(self, request):
        shown = []
        for each in request.tools:
            text = self.hooks.description(each.name, each.description)
            if text is not None:
                shown.append(without(each, text, self.hooks.filled(each.name)))
        return request.override(tools=shown)

    def _answered(self, response):
        *earlier, message = response.result
        if not message.tool_calls:
            message = message.model_copy(update={"content": self.hooks.answer(message.text)})
        response.result = [*earlier, message]
        return response

    def wrap_model_call(self, request, handler):
        return self._answered(handler(self._shown(request)))

    async def awrap_model_call(self, request, handler):
        return self._answered(await handler(self._shown(request)))

    def _before(self, request, before):
        """Return the changed request, and the reply in its place or None."""
        call = request.tool_call
        if self.hooks.description(call["name"], "") is None:
            return request, self._message(call, f"there is no tool {call['name']}", "error")
        changed = request.override(tool_call={**call, "args": before.arguments})
        if before.reply is None:
            return changed, None
        status = "error" if before.is_denied else "success"
        return changed, self._message(call, before.reply, status)

    def _after(self, call, message):
        if isinstance(message, Command):
            return message
        is_error = message.status == "error"
        text = self.hooks.after(
            call["name"], call["args"], message.text, call["id"], is_error=is_error
        )
        return self._message(call, text, message.status)

    def _message(self, call, text, status):
        return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status)

    def _failed(self, call, error):
        return self._message(call, f"{type(error).__name__}: {error}", "error")

    def wrap_tool_call(self, request, handler):
        call = request.tool_call
        decision = self.hooks.before(call["name"], call["args"], call["id"])
        request, reply = self._before(request, decision)
        if reply is not None:
            return reply
        try:
            message = handler(request)
        except Exception as error:  # noqa: BLE001 - the model reads it
            message = self._failed(call, error)
        return self._after(call, message)

    async def awrap_tool_call(self, request, handler):
        call = request.tool_call
        decision = await self.hooks.before_async(call["name"], call["args"], call["id"])
        request, reply = self._before(request, decision)
        if reply is not None:
            return reply
        message = await self._tried(request, handler)
        if self.hooks.retries(call["name"]) and message.status == "error":
            message = await self._tried(request, handler)
        return self._after(call, message)

    async def _tried(self, request, handler):
        try:
            return await handler(request)
        except asyncio.CancelledError:
            self.hooks.after(request.tool_call["name"], {}, "", request.tool_call["id"])
            raise
        except Exception as error:  # noqa: BLE001 - the model reads it
            return self._failed(request.tool_call, error)


def without(shown, description, names):
    """Return the tool *shown* with *description* and without the parameters *names*."""
    function = convert_to_openai_tool(shown)["function"]
    parameters = function["parameters"]
    kept = {name: each for name, each in parameters["properties"].items() if name not in names}
    required = [name for name in parameters.get("required", ()) if name not in names]
    schema = {**parameters, "properties": kept, "required": required}
    return {
        "type": "function",
        "function": {**function, "description": description, "parameters": schema},
    }


def tools_of(world):
    """Return the tools of LangChain."""
    return [
        StructuredTool.from_function(
            **{"coroutine" if inspect.iscoroutinefunction(function) else "func": function}
        )
        for function in world.tools.values()
    ]


@tool
def handoff(task: str, runtime: ToolRuntime) -> Command:
    """Hand the task over."""
    reply = ToolMessage(f"handed over: {task}", tool_call_id=runtime.tool_call_id)
    update = {"messages": [runtime.state["messages"][-1], reply]}
    return Command(goto="helper", graph=Command.PARENT, update=update)


class Player:
    """The agents of one play; *middleware* is the bridge's or the expert's."""

    def __init__(self, world, middleware):
        self.world, self._middleware = world, middleware
        self._agents = {}

    def agent(self, conversation):
        """Return the agent of the session of *conversation*."""
        agent = self._agents.get(conversation.session)
        if agent is None:
            make = self._team if self._hands_over() else self._single
            agent = self._agents[conversation.session] = make(conversation)
        return agent

    def _hands_over(self):
        turns = [turn for turn in self.world.scenario.script if not isinstance(turn, str)]
        return any(name == "handoff" for turn in turns for name, _ in turn)

    def _single(self, conversation):
        return create_agent(
            WorldModel(script=conversation.script),
            tools_of(self.world),
            middleware=self._middleware,
            checkpointer=self._saver(),
        )

    def _team(self, conversation):
        """Return a graph of two agents, of which the first hands over to the second."""
        graph = StateGraph(MessagesState)
        model = WorldModel(script=conversation.script)
        graph.add_node("agent", create_agent(model, [handoff], middleware=self._middleware))
        graph.add_node("helper", self._helper())
        graph.add_edge(START, "agent")
        return graph.compile()

    def _helper(self):
        middleware = () if self.world.scenario.unwrapped else self._middleware
        model = WorldModel(script=self.world.sub_script)
        return create_agent(model, tools_of(self.world), middleware=middleware, name="helper")

    def _saver(self):
        # Without a checkpointer a question cannot pause the run.
        is_needed = self.world.scenario.person is not None or len(self.world.scenario.prompts) > 1
        return InMemorySaver() if is_needed else None

    async def sub_agent(self, task):
        """Run the sub-agent, made here, in the tool."""
        state = await self._helper().ainvoke({"messages": [HumanMessage(task)]})
        return state["messages"][-1].text

    def _input(self, conversation):
        config = {"configurable": {"thread_id": conversation.session}}
        # Callbacks that write everything down would hide what a handler costs.
        if any(check.path == "traces" for check in self.world.scenario.expect):
            config["callbacks"] = [Traces(self.world)]
        return {"messages": [HumanMessage(conversation.prompt)]}, config

    async def run(self, conversation):
        """Run the agent; a pause is a question for the person."""
        agent, (given, config) = self.agent(conversation), self._input(conversation)
        if self.world.streamed:
            return await self._stream(agent, given, config)
        state = await agent.ainvoke(given, config)
        while paused := state.get("__interrupt__"):
            state = await agent.ainvoke(Command(resume=self._decisions(paused)), config)
        return state["messages"][-1].text

    def _decisions(self, paused):
        decisions = {}
        for each in paused:
            (action,) = each.value["action_requests"]
            kind = "approve" if self.world.approve(action["name"]) else "reject"
            decisions[each.id] = {"decisions": [{"type": kind}]}
        return decisions

    async def _stream(self, agent, given, config):
        text = ""
        async for mode, piece in agent.astream(given, config, stream_mode=["messages", "updates"]):
            self.world.show(piece)
            if mode == "messages" and isinstance(piece[0], AIMessage):
                text = piece[0].text
        return text

    def run_sync(self, conversation):
        """Run the agent in a thread without an event loop."""
        given, config = self._input(conversation)
        return self.agent(conversation).invoke(given, config)["messages"][-1].text


async def play(world: World) -> None:
    """Play *world* in LangChain."""
    bridge = None
    if world.mode == "bridge":
        from toolbus.bridges.langchain import LangChainBridge

        # A question pauses the run, as in a program whose person answers later.
        options = {**world.options, "approver": None, "idempotent": [*IDEMPOTENT]}
        bridge = LangChainBridge(world.components, **options)
    middleware = {"bridge": [bridge], "own": [OwnHooks(world)], "plain": []}[world.mode]
    player = Player(world, middleware)
    world.sub_agent = player.sub_agent
    await world.run(player.run_sync if world.sync else player.run)
    if bridge is not None:
        await bridge.aclose()
