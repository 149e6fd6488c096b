"""Microsoft's agent-framework, a host of agent-hooks, plays the world: with our interceptor, or one
written by hand.
"""

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    ResponseStream,
    create_agent_hooks_middleware_from_emitter,
)
from agent_framework.observability import ChatTelemetryLayer, enable_sensitive_telemetry
from agent_hooks import AgentContextBuilder, InterceptionEmitter
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from world import UndeliveredError, World
from world_handlers import PromptRefusedError

from toolbus.bridges.agent_hooks import AgentHooksInterceptor
from toolbus.events import ToolSpec

SPANS = InMemorySpanExporter()


def keep_traces():
    """Export the framework's spans to `SPANS`, with the texts of calls."""
    SPANS.clear()
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(SPANS))
        trace.set_tracer_provider(provider)
        enable_sensitive_telemetry()


class ScriptedClient(BaseChatClient):
    """A client that plays *script*, and tells it what each request shows."""

    def __init__(self, *, script, **options):
        super().__init__(**options)
        self._script = script

    def _inner_get_response(self, *, messages, stream, options, **_):
        contents = self._answer(messages, options)
        if not stream:

            async def respond():
                return ChatResponse(messages=[Message("assistant", contents)])

            return respond()

        async def updates():
            for content in contents:
                yield ChatResponseUpdate(role="assistant", contents=[content])

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

    def _answer(self, messages, options):
        results, prompt = {}, None
        for message in messages:
            prompt = message.text if message.role == "user" else prompt
            for content in message.contents:
                if content.type == "function_result":
                    results[content.call_id] = str(content.result)
        tools = {tool.name: tool for tool in options.get("tools") or ()}
        turn = self._script.next(
            prompt=prompt,
            results=results,
            offered={name: tool.description for name, tool in tools.items()},
            parameters={name: [*tool.parameters()["properties"]] for name, tool in tools.items()},
        )
        if turn.calls:
            return [
                Content.from_function_call(id_, name, arguments=given)
                for id_, name, given in turn.calls
            ]
        return [Content.from_text(turn.text)]


class WorldClient(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, ScriptedClient):
    """The same with the layers that every client of the framework has."""


def client_for(script):
    return WorldClient(
        script=script, function_invocation_configuration={"include_detailed_errors": True}
    )


class OwnInterceptor:
    """What an expert writes as an interceptor of the contract."""

    def __init__(self, hooks):
        self._hooks = hooks

    async def intercept(self, context):
        judge = getattr(self, context["interception_point"], None)
        return {"decision": "allow"} if judge is None else await judge(context)

    async def input(self, context):
        content = context["input"]["content"]
        try:
            return transform("$target.content", content, self._hooks.prompt(content))
        except PromptRefusedError as error:
            return {"decision": "deny", "reason": str(error)}

    async def pre_tool_call(self, context):
        call = context["tool_call"]
        before = await self._hooks.before_async(call["name"], call["args"], call["id"])
        if before.reply is not None:
            return {"decision": "deny", "reason": "own:hook", "message": before.reply}
        return transform("$target", call["args"], before.arguments)

    async def post_tool_call(self, context):
        call, result = context["tool_call"], context["tool_result"]
        value, is_error = result["value"], result["is_error"]
        after = self._hooks.after(call["name"], call["args"], value, call["id"], is_error=is_error)
        return transform("$target", value, after)

    async def output(self, context):
        content = context["output"]["content"]
        if isinstance(content, str):
            return transform("$target.content", content, self._hooks.answer(content))
        last = content[-1]["content"]
        path = f"$target.content[{len(content) - 1}].content"
        return transform(path, last, self._hooks.answer(last))


def transform(path, before, after):
    if before == after:
        return {"decision": "allow"}
    return {"decision": "transform", "transform": {"path": path, "value": after}}


class HooksOfSession:
    """The emitter and the builder of one session of agent-hooks, owned by the program."""

    def __init__(self, interceptor, session):
        self.emitter = InterceptionEmitter(timeout=None).register(interceptor, "toolbus")
        self.builder = AgentContextBuilder(
            agent_id="agent", framework="agent-framework", session_id=session
        )

    @property
    def middleware(self):
        return [create_agent_hooks_middleware_from_emitter(self.emitter, self.builder)]

    async def end(self, reason):
        await self.emitter.emit_unchecked(self.builder.agent_shutdown(reason=reason))


class Player:
    """The agents of one play: one session of agent-hooks for each conversation."""

    def __init__(self, world):
        self._world, self._sessions = world, {}
        functions = world.tools.items()
        self._tools = [FunctionTool(name=name, func=function) for name, function in functions]
        self._interceptor = OwnInterceptor(world.hooks) if world.mode == "own" else None
        if world.mode == "bridge":
            options = {name: value for name, value in world.options.items() if name != "timeout"}
            specs = [ToolSpec(name=one.name, input_schema=one.parameters()) for one in self._tools]
            self._interceptor = AgentHooksInterceptor(world.components, tools=specs, **options)

    def agent_for(self, script, session):
        client = client_for(script)
        return Agent(client, tools=self._tools, middleware=self._middleware_for(session))

    def _middleware_for(self, session):
        if self._interceptor is None:
            return []
        if session not in self._sessions:
            self._sessions[session] = HooksOfSession(self._interceptor, session)
        return self._sessions[session].middleware

    async def run_below(self, task):
        script = self._world.sub_script
        agent = self.agent_for(script, "sub")
        if self._world.scenario.unwrapped:
            agent = Agent(client_for(script), tools=self._tools)
        return (await agent.run(task)).text

    async def run(self, conversation):
        if self._world.scenario.timeout is not None:
            raise UndeliveredError("no verdict stops a tool that runs")
        if "handoffs" in self._world.scenario.needs:
            raise UndeliveredError("an agent of agent-framework has no handoff outside a workflow")
        agent = self.agent_for(conversation.script, conversation.session)
        if not self._world.streamed:
            return (await agent.run(conversation.prompt)).messages[-1].text
        stream = agent.run(conversation.prompt, stream=True)
        async for update in stream:
            self._world.show(update.text)
            for content in update.contents:
                self._world.show(content.result if content.type == "function_result" else "")
        return (await stream.get_final_response()).messages[-1].text

    async def close(self):
        reason = "error" if self._world.seen["error"] else "completed"
        reason = "cancelled" if self._world.scenario.cancelled else reason
        for session in self._sessions.values():
            await session.end(reason)
        if isinstance(self._interceptor, AgentHooksInterceptor):
            await self._interceptor.aclose()


async def play(world: World) -> None:
    """Play *world* with agents of the framework."""
    player = Player(world)
    world.sub_agent = player.run_below
    if "clean_traces" in world.scenario.needs:
        keep_traces()
    try:
        await world.run(player.run)
        world.trace(*[span.to_json() for span in SPANS.get_finished_spans()])
    finally:
        await player.close()
