"""Microsoft's agent-framework plays the world: our interceptor, or middleware of its own."""

from agent_framework import (
    Agent,
    AgentMiddleware,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionMiddleware,
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

from toolbus.bridges.agent_hooks import AgentHooksInterceptor

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


class OwnCalls(FunctionMiddleware):
    """What an expert writes for calls."""

    def __init__(self, hooks):
        self._hooks = hooks

    async def process(self, context, call_next):
        name, call_id = context.function.name, context.metadata.get("call_id", "")
        arguments = dict(context.arguments)
        before = await self._hooks.before_async(name, arguments, call_id)
        if before.reply is not None:
            context.result = before.reply
            return
        context.arguments = before.arguments
        is_error = False
        try:
            await call_next()
            result = context.result
        except Exception as error:  # noqa: BLE001 - the model may read another text
            result, is_error = str(error), True
        if isinstance(result, list):
            result = "".join(content.text for content in result)
        context.result = self._hooks.after(name, arguments, result, call_id, is_error=is_error)


class OwnRun(AgentMiddleware):
    """What an expert writes for prompts and answers."""

    def __init__(self, hooks):
        self._hooks = hooks

    async def process(self, context, call_next):
        for message in context.messages:
            message.contents = [Content.from_text(self._hooks.prompt(message.text))]
        await call_next()
        if not context.stream:
            for content in context.result.messages[-1].contents:
                content.text = self._hooks.answer(content.text)


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
        self._interceptor = None
        if world.mode == "bridge":
            self._interceptor = AgentHooksInterceptor(world.components, **world.options)
        functions = world.tools.items()
        self._tools = [FunctionTool(name=name, func=function) for name, function in functions]

    def agent_for(self, script, session):
        client = client_for(script)
        return Agent(client, tools=self._tools, middleware=self._middleware_for(session))

    def _middleware_for(self, session):
        hooks = self._world.hooks
        if self._interceptor is None:
            return [OwnRun(hooks), OwnCalls(hooks)] if self._world.mode == "own" else []
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
        if self._interceptor is not None:
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
