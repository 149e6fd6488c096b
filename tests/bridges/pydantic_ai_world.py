"""Pydantic AI plays the world: with our bridge, or with a capability of its own hooks."""

import json
import traceback
from contextlib import contextmanager
from dataclasses import replace

from opentelemetry import trace
from pydantic import ValidationError
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    ToolDenied,
    ToolOutput,
    UserPromptNode,
)
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.exceptions import CallDeferred, ToolFailed
from pydantic_ai.messages import (
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.usage import UsageLimits
from world import IDEMPOTENT, World

from toolbus.bridges.pydantic_ai import PydanticAIBridge

CONTROL_FLOW = (ModelRetry, ToolFailed, CallDeferred)


def model_of(script):
    """Return the framework's test model, which plays *script* and tells it what a request shows."""

    def complete(messages, info):
        parts = [part for message in messages for part in message.parts]
        prompts = [part.content for part in parts if isinstance(part, UserPromptPart)]
        turn = script.next(
            prompt=prompts[-1],
            results=dict(map(result_of, filter(is_result, parts))),
            offered={tool.name: tool.description for tool in info.function_tools},
            parameters={
                tool.name: [*tool.parameters_json_schema.get("properties", {})]
                for tool in info.function_tools
            },
        )
        calls = [ToolCallPart(name, arguments, id_) for id_, name, arguments in turn.calls]
        return ModelResponse(parts=calls or [TextPart(turn.text)])

    async def stream(messages, info):
        for place, part in enumerate(complete(messages, info).parts):
            if isinstance(part, ToolCallPart):
                text = json.dumps(part.args)
                yield {place: DeltaToolCall(part.tool_name, text, tool_call_id=part.tool_call_id)}
            else:
                # Cut anywhere, as a provider does.
                for start in range(0, len(part.content), 5):
                    yield part.content[start : start + 5]

    return FunctionModel(complete, stream_function=stream)


def is_result(part):
    return isinstance(part, ToolReturnPart | RetryPromptPart)


def result_of(part):
    """Return the call's id and the text that a provider with a flag for errors gets."""
    if isinstance(part, RetryPromptPart):
        return part.tool_call_id, part.model_response()
    return part.tool_call_id, part.model_response_str(wrap_if_error=False)


class OwnHooks(AbstractCapability):
    """The hooks of an author who knows the framework."""

    def __init__(self, hooks):
        self.hooks, self.replies = hooks, {}

    async def prepare_tools(self, ctx, tool_defs):
        shown = []
        for tool in tool_defs:
            text = self.hooks.description(tool.name, tool.description)
            if text is not None:
                shown.append(replace(tool, description=text, **self.without_filled(tool)))
        return shown

    def without_filled(self, tool):
        schema, filled = tool.parameters_json_schema, self.hooks.filled(tool.name)
        if not filled:
            return {}
        kept = {name: each for name, each in schema["properties"].items() if name not in filled}
        required = [name for name in schema.get("required", ()) if name not in filled]
        schema = {**schema, "properties": kept, "required": required}
        return {"parameters_json_schema": schema}

    async def before_node_run(self, ctx, *, node):
        if isinstance(node, UserPromptNode):
            return replace(node, user_prompt=self.hooks.prompt(node.user_prompt))
        return node

    async def after_model_request(self, ctx, *, request_context, response):
        parts = [
            replace(part, content=self.hooks.answer(part.content))
            if isinstance(part, TextPart)
            else part
            for part in response.parts
        ]
        return replace(response, parts=parts)

    async def wrap_tool_validate(self, ctx, *, call, tool_def, args, handler):
        before = await self.hooks.before_async(
            call.tool_name, call.args_as_dict(), call.tool_call_id
        )
        if before.reply is not None:
            reply = ToolDenied(before.reply) if before.is_denied else before.reply
            self.replies[call.tool_call_id] = reply
            return before.arguments
        try:
            return await handler(before.arguments)
        except ValidationError as error:
            text = self.after(call, str(error), is_error=True)
            raise ModelRetry(text) from None

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        if call.tool_call_id in self.replies:
            return self.replies.pop(call.tool_call_id)
        is_tried_again = self.hooks.retries(call.tool_name)
        while True:
            try:
                result = await handler(args)
                break
            except CONTROL_FLOW:
                raise
            except Exception as error:  # noqa: BLE001 - the model reads it
                if is_tried_again:
                    is_tried_again = False
                    continue
                text = self.after(call, str(error), is_error=True)
                raise ToolFailed(text) from None
            except BaseException:
                self.after(call, "cancelled", is_error=True)
                raise
        return self.after(call, result)

    def after(self, call, result, *, is_error=False):
        arguments = call.args_as_dict()
        return self.hooks.after(
            call.tool_name, arguments, result, call.tool_call_id, is_error=is_error
        )


class TracedSpan(trace.NonRecordingSpan):
    """A span that gives all its texts to *world*."""

    def __init__(self, world):
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.trace = world.trace

    def is_recording(self):
        return True

    def set_attribute(self, key, value):
        self.trace(key, value)

    def set_attributes(self, attributes):
        self.trace(attributes)

    def add_event(self, name, attributes=None, timestamp=None):
        self.trace(name, attributes)

    def record_exception(self, exception, attributes=None, **more):
        self.trace(*traceback.format_exception(exception), attributes)

    def set_status(self, status, description=None):
        self.trace(status, description)


class TracedProvider(trace.NoOpTracerProvider):
    """Tracers whose spans give all to *world*, as an exporter does."""

    def __init__(self, world):
        self.world = world

    def get_tracer(self, *args, **more):
        tracer = trace.NoOpTracer()
        tracer.start_span = self.start
        tracer.start_as_current_span = self.start_as_current
        return tracer

    def start(self, name, *args, attributes=None, **more):
        self.world.trace(name, attributes)
        return TracedSpan(self.world)

    @contextmanager
    def start_as_current(self, name, *args, attributes=None, **more):
        span = self.start(name, attributes=attributes)
        with trace.use_span(span, record_exception=True):
            yield span


class Agents:
    """The agents of *world*, with our bridge or the hooks of the framework."""

    def __init__(self, world):
        self.world, self.bridge, self.capabilities = world, None, []
        if world.mode == "own":
            self.capabilities = [OwnHooks(world.hooks)]
        elif world.mode == "bridge":
            options = {**world.options, "idempotent": [*IDEMPOTENT]}
            self.bridge = PydanticAIBridge(world.components, **options)
            self.capabilities = [self.bridge]
        settings = InstrumentationSettings(tracer_provider=TracedProvider(world))
        self.traced = [Instrumentation(settings)] if self.needs("clean_traces") else []
        self.histories = {}
        world.sub_agent = self.delegate

    def needs(self, ability):
        return ability in self.world.scenario.needs

    def sub_agent(self):
        """Return the agent that a tool makes."""
        world = self.world
        tools = [function for name, function in world.tools.items() if name != "delegate"]
        model = model_of(world.sub_script)
        if world.scenario.unwrapped:
            return Agent(model, tools=tools)
        if self.bridge:
            return self.bridge.wrap(Agent(model, tools=tools))
        return Agent(model, tools=tools, capabilities=self.capabilities)

    async def delegate(self, task):
        return (await self.sub_agent().run(task)).output

    def agent(self, conversation):
        """Return the agent of *conversation*; an output function is its handoff."""

        async def handoff(task: str) -> str:
            """Hand the task over."""
            return await self.delegate(task)

        handed = ToolOutput(handoff, name="handoff")
        return Agent(
            model_of(conversation.script),
            tools=[*self.world.tools.values()],
            output_type=[*self.outputs(), *([handed] if self.needs("handoffs") else [])],
            capabilities=[*self.capabilities, *self.traced],
        )

    def outputs(self):
        """Return the types of answers; with a pause the bridge asks by the framework itself."""
        can_pause = self.bridge and self.world.scenario.person is not None
        return [str, DeferredToolRequests] if can_pause else [str]

    async def run(self, conversation):
        agent, history = self.agent(conversation), self.histories.get(conversation.session)
        options = {
            "conversation_id": conversation.session,
            "event_stream_handler": self.show if self.world.streamed else None,
            "usage_limits": UsageLimits(request_limit=None),
        }
        result = await agent.run(conversation.prompt, message_history=history, **options)
        while isinstance(result.output, DeferredToolRequests):
            answers = {
                call.tool_call_id: self.world.approve(call.tool_name)
                for call in result.output.approvals
            }
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=DeferredToolResults(approvals=answers),
                **options,
            )
        self.histories[conversation.session] = result.all_messages()
        return result.output

    def run_sync(self, conversation):
        agent = self.agent(conversation)
        return agent.run_sync(conversation.prompt, conversation_id=conversation.session).output

    async def show(self, ctx, events):
        async for event in events:
            self.world.show(shown_text(event))


async def play(world: World) -> None:
    """Play *world* with agents of Pydantic AI."""
    agents = Agents(world)
    await world.run(agents.run_sync if world.sync else agents.run)
    if agents.bridge:
        await agents.bridge.aclose()


def shown_text(event):
    """Return the text of an event of a streamed run."""
    if event.event_kind == "part_end":
        return ""
    for place, name in (("part", "content"), ("delta", "content_delta"), ("result", "content")):
        content = getattr(getattr(event, place, None), name, None)
        if content is not None:
            return str(content)
    return ""
