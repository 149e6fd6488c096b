"""Google ADK plays the world, with its own plugin hooks or with our bridge as its plugin."""

import json
import logging
import os
from contextvars import ContextVar
from typing import Any

# Traces hold the texts of requests and answers only if a program asks for them (google-adk 2.13).
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import AgentTool, ToolContext
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from world import IDEMPOTENT, World
from world_handlers import PromptRefusedError

APP, USER = "world", "ann"
CONFIRMATION = "adk_request_confirmation"
"""The call by which the framework asks its user to approve a call."""
CALLER: ContextVar[ToolContext] = ContextVar("caller")
"""The context of the call that runs a sub-agent."""
SPANS = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(SPANS))


def text_of(response):
    """Return what a model reads of a function's *response*."""
    if isinstance(response, dict) and len(response) == 1:
        (value,) = response.values()
        return value if isinstance(value, str) else json.dumps(value)
    return json.dumps(response)


def parts_of(contents):
    """Yield the parts of *contents* with their roles."""
    for content in contents:
        for part in content.parts or []:
            yield content.role, part


def declared(request):
    """Yield the declarations of the tools in *request*."""
    for tool in request.config.tools or []:
        yield from tool.function_declarations or []


class WorldModel(BaseLlm):
    """A model that plays *script*, and tells it what each request shows."""

    model: str = "world"
    script: Any = None

    async def generate_content_async(self, llm_request, stream=False):  # noqa: FBT002 - its name
        parts = [*parts_of(llm_request.contents)]
        responses = [part.function_response for _, part in parts if part.function_response]
        prompts = [part.text for role, part in parts if role == "user" and part.text]
        declarations = [*declared(llm_request)]
        turn = self.script.next(
            prompt=prompts[-1],
            results={response.id: text_of(response.response) for response in responses},
            offered={one.name: one.description for one in declarations},
            parameters={
                one.name: [*(one.parameters_json_schema or {}).get("properties", {})]
                for one in declarations
            },
        )
        for word in turn.text.split(" ") if stream and turn.text else ():
            yield answer_of([types.Part(text=f"{word} ")], partial=True)
        yield answer_of([part_of(call) for call in turn.calls] or [types.Part(text=turn.text)])


def answer_of(parts, **options):
    return LlmResponse(content=types.Content(role="model", parts=parts), **options)


def part_of(call):
    """Return *call* as the model makes it; a handoff is a call of the framework's own tool."""
    name, arguments = call.name, call.arguments
    if name == "handoff":
        name, arguments = "transfer_to_agent", {"agent_name": "helper"}
    return types.Part(function_call=types.FunctionCall(id=call.id, name=name, args=arguments))


class OwnHooks(BasePlugin):
    """The handlers of *world* as a plugin of the framework."""

    def __init__(self, world):
        super().__init__(name="own")
        self.hooks, self.refused = world.hooks, None
        self.holds_back = any("redact_answer" in handler for handler in world.scenario.handlers)

    async def on_user_message_callback(self, *, invocation_context, user_message):
        try:
            text = self.hooks.prompt(user_message.parts[0].text)
        except PromptRefusedError as error:
            self.refused = text = str(error)
        return types.Content(role="user", parts=[types.Part(text=text)])

    async def before_run_callback(self, *, invocation_context):
        if self.refused is not None:
            return types.Content(role="model", parts=[types.Part(text=self.refused)])
        return None

    async def before_model_callback(self, *, callback_context, llm_request):
        for tool in llm_request.config.tools or []:
            kept = []
            for one in tool.function_declarations or []:
                one.description = self.hooks.description(one.name, one.description)
                if one.description is None:
                    llm_request.tools_dict.pop(one.name)
                    continue
                for name in self.hooks.filled(one.name):
                    del one.parameters_json_schema["properties"][name]
                    one.parameters_json_schema["required"].remove(name)
                kept.append(one)
            tool.function_declarations = kept

    async def after_model_callback(self, *, callback_context, llm_response):
        parts = llm_response.content.parts if llm_response.content else []
        if not parts or not parts[0].text:
            return None
        if llm_response.partial:
            return answer_of([], partial=True) if self.holds_back else None
        return answer_of([types.Part(text=self.hooks.answer(parts[0].text))])

    async def before_tool_callback(self, *, tool, tool_args, tool_context):
        call_id = tool_context.function_call_id
        decision = await self.hooks.before_async(tool.name, tool_args, call_id)
        if decision.reply is not None:
            return {"error" if decision.is_denied else "result": decision.reply}
        tool_args.clear()
        tool_args.update(decision.arguments)
        return None

    async def after_tool_callback(self, *, tool, tool_args, tool_context, result):
        if isinstance(result, dict) and set(result) <= {"error", "result"}:
            return None  # The answer of one of the other two callbacks.
        result = self.hooks.after(tool.name, tool_args, result, tool_context.function_call_id)
        return result if isinstance(result, dict) else {"result": result}

    async def on_tool_error_callback(self, *, tool, tool_args, tool_context, error):
        call_id = tool_context.function_call_id
        if self.hooks.retries(tool.name) and isinstance(error, Exception):
            result = await tool.run_async(args=tool_args, tool_context=tool_context)
            return {"result": self.hooks.after(tool.name, tool_args, result, call_id)}
        text = self.hooks.after(tool.name, tool_args, str(error), call_id, is_error=True)
        return {"error": text}


class LastPlugin(BasePlugin):
    """A plugin that keeps what the framework tells its callbacks after *world*'s plugin."""

    def __init__(self, world):
        super().__init__(name="last")
        self.world = world

    async def after_tool_callback(self, *, tool, tool_args, tool_context, result):
        self.world.trace(result)

    async def on_tool_error_callback(self, *, tool, tool_args, tool_context, error):
        self.world.trace(error)

    async def on_event_callback(self, *, invocation_context, event):
        self.world.trace(event)


class LogTrace(logging.Handler):
    """A log handler that keeps what the framework logs."""

    def __init__(self, world):
        super().__init__(logging.INFO)
        self.world = world

    def emit(self, record):
        self.world.trace(logging.Formatter().format(record))


class Play:
    """One play of *world*: agents, runners and sessions."""

    def __init__(self, world, plugins):
        self.world, self.plugins = world, [*plugins, LastPlugin(world)]
        self.sessions = InMemorySessionService()

    def agent(self, script, name="agent", **options):
        """Return an agent with the tools of the world that plays *script*."""

        async def delegate(task: str, tool_context: ToolContext) -> str:
            """Give a task to another agent."""
            CALLER.set(tool_context)
            return await self.world.tools["delegate"](task)

        tools = {**self.world.tools} | ({} if self.world.sync else {"delegate": delegate})
        return LlmAgent(
            name=name,
            description="An agent.",
            model=WorldModel(script=script),
            tools=[*tools.values()],
            **options,
        )

    def runner(self, conversation):
        """Return a runner; its agent can hand over if the scenario does."""
        helpers = []
        if "handoffs" in self.world.scenario.needs:
            helpers = [self.agent(self.world.sub_script, "helper")]
        agent = self.agent(conversation.script, sub_agents=helpers)
        return Runner(
            app_name=APP, agent=agent, session_service=self.sessions, plugins=self.plugins
        )

    async def run_below(self, task):
        """Run a sub-agent in the framework's way, inside a tool."""
        agent = self.agent(self.world.sub_script, "helper")
        return await AgentTool(agent).run_async(args={"request": task}, tool_context=CALLER.get())

    async def open_session(self, conversation):
        """Return what a run needs to know of its session, made on its first run."""
        key = {"app_name": APP, "user_id": USER, "session_id": conversation.session}
        if await self.sessions.get_session(**key) is None:
            await self.sessions.create_session(**key)
        return {"user_id": USER, "session_id": conversation.session}

    async def run(self, conversation):
        """Run one prompt; return the final text."""
        options = await self.open_session(conversation)
        if self.world.streamed:
            options["run_config"] = RunConfig(streaming_mode=StreamingMode.SSE)
        message, text = types.Content(role="user", parts=[types.Part(text=conversation.prompt)]), ""
        while message is not None:
            events = self.runner(conversation).run_async(new_message=message, **options)
            message = None
            async for event in events:
                text = self.note(event) or text
                message = self.decision(event) or message
        return text

    def note(self, event):
        """Show *event*; return its text if it is complete."""
        for _, part in parts_of([event.content] if event.content else []):
            self.world.show(part.text or part.function_response or "")
        parts = event.content.parts if event.content and not event.partial else []
        return "".join(part.text or "" for part in parts or [])

    def decision(self, event):
        """Return the user's message that decides the framework's question in *event*, or None."""
        decided = [
            types.FunctionResponse(
                id=call.id,
                name=call.name,
                response={
                    "confirmed": self.world.approve(call.args["originalFunctionCall"]["name"])
                },
            )
            for call in event.get_function_calls()
            if call.name == CONFIRMATION
        ]
        parts = [types.Part(function_response=response) for response in decided]
        return types.Content(role="user", parts=parts) if parts else None

    def run_sync(self, conversation):
        """Do as `run` by the framework's sync entry, in a thread without a loop."""
        import asyncio

        options = asyncio.run(self.open_session(conversation))
        message = types.Content(role="user", parts=[types.Part(text=conversation.prompt)])
        text = ""
        for event in self.runner(conversation).run(new_message=message, **options):
            text = self.note(event) or text
        return text


async def play(world: World) -> None:
    """Play *world* with one runner for each run, as a server does."""
    bridge, plugins = None, []
    if world.mode == "bridge":
        from toolbus.bridges.google_adk import GoogleADKBridge

        # Without an approver the framework's own tool confirmation asks.
        options = {**world.options, "approver": None}
        bridge = GoogleADKBridge(world.components, **options, idempotent=[*IDEMPOTENT])
        plugins = [bridge]
    elif world.mode == "own":
        plugins = [OwnHooks(world)]
    played, log = Play(world, plugins), LogTrace(world)
    world.sub_agent = played.run_below
    logging.getLogger("google_adk").addHandler(log)
    SPANS.clear()
    try:
        await world.run(played.run_sync if world.sync else played.run)
    finally:
        logging.getLogger("google_adk").removeHandler(log)
        world.trace(*(span.to_json() for span in SPANS.get_finished_spans()))
        if bridge is not None:
            await bridge.aclose()
