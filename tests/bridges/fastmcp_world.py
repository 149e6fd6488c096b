"""FastMCP plays the world: a server with the tools; a client in memory is the model's side.

The model's program is outside of a server: it has no runs, prompts, answers and sub-agents. A
person answers in the client, by a form of the protocol.
"""

import asyncio
import json
import logging
import re
import traceback
from contextlib import suppress
from contextvars import ContextVar

from fastmcp import Client, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import FastMCPError, NotFoundError, ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.tools.base import ToolResult
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN_CONTEXT, Span, Tracer, TracerProvider
from world import IDEMPOTENT, UndeliveredError, World

from toolbus.bridges.fastmcp import FastMCPBridge

CALL_ID: ContextVar[str] = ContextVar("call_id", default="")
"""The id of the model's call, which a client in memory shares with its server."""


# --- what the framework's traces, logs and outermost middleware see -------------------------------


class SeenSpan(Span):
    """A span whose values go to the world that is played."""

    def set_attribute(self, key, value):
        TRACES.trace(key, value)

    def set_attributes(self, attributes):
        TRACES.trace(dict(attributes))

    def add_event(self, name, attributes=None, timestamp=None):
        TRACES.trace(name, attributes)

    def record_exception(self, exception, *args, **options):
        TRACES.trace(*traceback.format_exception(exception))

    def set_status(self, status, description=None):
        TRACES.trace(getattr(status, "description", None), description)

    def update_name(self, name):
        TRACES.trace(name)

    def get_span_context(self):
        return INVALID_SPAN_CONTEXT

    def is_recording(self):
        return True

    def end(self, end_time=None):
        """Do nothing."""


class SeenTracer(Tracer):
    """A tracer of such spans."""

    def start_span(self, name, *args, attributes=None, **options):
        TRACES.trace(name, attributes)
        return SeenSpan()

    def start_as_current_span(self, name, *args, **options):
        kept = {key: options[key] for key in ("attributes",) if key in options}
        return trace.use_span(
            self.start_span(name, **kept),
            record_exception=options.get("record_exception", True),
            set_status_on_exception=options.get("set_status_on_exception", True),
        )


class Traces(TracerProvider, logging.Handler):
    """The traces and logs of the framework, for the *world* that is played."""

    world = None

    def get_tracer(self, *args, **options):
        return SeenTracer()

    def emit(self, record):
        self.trace(logging.Formatter().format(record))

    def trace(self, *values):
        if self.world is not None:
            self.world.trace(*values)


TRACES = Traces()
trace.set_tracer_provider(TRACES)
logging.getLogger("fastmcp").addHandler(TRACES)


class OutermostMiddleware(Middleware):
    """A middleware that sees what other middleware may log, and sets the id of the call."""

    async def on_call_tool(self, context, call_next):
        meta = context.fastmcp_context.request_context.meta or {}
        CALL_ID.set(meta.get("call"))
        try:
            result = await call_next(context)
        except Exception as error:
            TRACES.trace(*traceback.format_exception(error))
            raise
        TRACES.trace(result)
        return result


# --- the framework's own hooks --------------------------------------------------------------------


class OwnMiddleware(Middleware):
    """The middleware that an expert of FastMCP writes with the world's *hooks*."""

    def __init__(self, hooks):
        self._hooks = hooks

    async def on_call_tool(self, context, call_next):
        name, given = context.message.name, context.message.arguments or {}
        if self._hooks.description(name, "") is None:
            raise NotFoundError(name)
        try:
            before = await self._hooks.before_async(name, given, CALL_ID.get())
        except Exception as error:  # A guard that crashes denies.
            raise ToolError("the guard failed") from error
        if before.reply is not None:
            structured = None if before.is_denied else {"result": before.reply}
            return ToolResult(before.reply, structured, is_error=before.is_denied)
        message = context.message.model_copy(update={"arguments": before.arguments})
        try:
            result = await self._run(context.copy(message=message), call_next)
        except (FastMCPError, NotFoundError) as error:
            text = self._hooks.after(name, given, str(error), CALL_ID.get(), is_error=True)
            if text == str(error):
                raise
            return ToolResult(text, is_error=True)
        return self._changed(name, given, result)

    async def on_list_tools(self, context, call_next):
        shown = []
        for tool in await call_next(context):
            description = self._hooks.description(tool.name, tool.description)
            if description is not None:
                filled = self._hooks.filled(tool.name)
                shown.append(_with_signature(tool, description, filled))
        return shown

    async def _run(self, context, call_next):
        try:
            return await call_next(context)
        except ToolError:
            if not self._hooks.retries(context.message.name):
                raise
            return await call_next(context)

    def _changed(self, name, given, result):
        structured = result.structured_content
        text = self._hooks.after(name, given, text_of(result.content), CALL_ID.get())
        if structured is not None and structured.keys() == {"result"}:
            structured = {"result": text}
        elif structured is not None:
            structured = self._hooks.after(name, given, structured)
        if not isinstance(structured, dict | None):
            return ToolResult(text, is_error=True)
        return ToolResult(text, structured, meta=result.meta, is_error=result.is_error)


def _with_signature(tool, description, filled):
    schema = {
        keyword: [each for each in value if each not in filled]
        if keyword == "required"
        else {each: kind for each, kind in value.items() if each not in filled}
        if keyword == "properties"
        else value
        for keyword, value in tool.parameters.items()
    }
    return tool.model_copy(update={"description": description, "parameters": schema})


# --- the play -------------------------------------------------------------------------------------


def text_of(blocks) -> str:
    """Return the text of a result."""
    return "\n".join(block.text for block in blocks)


def read_of(result) -> str:
    """Return all that a model may read of a result; structure that says no more is left out."""
    text, structured = text_of(result.content), result.structured_content
    same = [{"result": text}]
    with suppress(ValueError):
        same.append(json.loads(text))
    if structured is None or structured in same:
        return text
    return f"{text}\n{json.dumps(structured)}"


def make_server(world, bridge):
    """Return the server with the tools of *world*."""
    server = FastMCP("world")
    server.add_middleware(OutermostMiddleware())
    if bridge is not None:
        server.add_middleware(bridge)
    if world.mode == "own":
        server.add_middleware(OwnMiddleware(world.hooks))
    for name, function in world.tools.items():
        server.tool(function, annotations={"idempotentHint": name in IDEMPOTENT})
    return server


def make_client(world, server):
    """Return a client, in which the person of *world* answers, if there is one."""

    async def show(message, response_type, params, context):
        tool = re.search(r"the model calls (\S+)", message)[1]
        (field,) = params.requested_schema["properties"]
        return ElicitResult(action="accept", content={field: world.approve(tool)})

    asks = world.scenario.person is not None and world.mode == "bridge"
    # A client of the newer protocol has no session, and shows no form of a running call.
    mode = "legacy" if asks or world.scenario.sessions > 1 else "auto"
    return Client(server, elicitation_handler=show if asks else None, mode=mode)


async def converse(client, conversation):
    """Return the final text of the model, which is played here beside the *client*."""
    read = {}
    while True:
        tools = await client.list_tools()
        turn = conversation.script.next(
            prompt=conversation.prompt,
            results=read,
            offered={tool.name: tool.description for tool in tools},
            parameters={tool.name: [*tool.input_schema["properties"]] for tool in tools},
        )
        if not turn.calls:
            return turn.text
        work = [
            client.call_tool(name, given, raise_on_error=False, meta={"call": call_id})
            for call_id, name, given in turn.calls
        ]
        ended = await asyncio.gather(*work)
        read |= {call.id: read_of(result) for call, result in zip(turn.calls, ended, strict=True)}


async def play(world: World) -> None:
    """Play *world* with a server, and one client for each conversation."""
    TRACES.world, bridge = world, None
    if world.mode == "bridge":
        # Without an approver the client's user is asked.
        options = {**world.options, "approver": None, "ids": CALL_ID.get}
        bridge = FastMCPBridge(world.components, **options)
    server = make_server(world, bridge)
    clients = {}

    async def run(conversation):
        if world.streamed or world.scenario.sub:
            raise UndeliveredError("the model's program is outside of a server")
        if conversation.session not in clients:
            clients[conversation.session] = make_client(world, server)
        async with clients[conversation.session] as client:
            return await converse(client, conversation)

    await world.run(run)
    if bridge is not None:
        await bridge.aclose()
    TRACES.world = None
