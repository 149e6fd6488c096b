"""Requests to the model and its answers, as handlers leave them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM

from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse

    from toolbus.bridges.langchain.bridge import LangChainBridge
    from toolbus.bridges.session import BridgeSession
    from toolbus.events.catalogue import ToolSpec


async def adapted_request(
    bridge: LangChainBridge, session: BridgeSession, request: ModelRequest[Any]
) -> ModelRequest[Any]:
    """Return *request* with the tools that handlers show; hosted tools, which are dicts, stay."""
    tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
    specs = {name: bridge.guard_tool(tool).spec for name, tool in tools.items()}
    shown = await bridge.adapt_tools(session, tools.values())
    if shown == tuple(specs.values()):
        return request
    hosted = [tool for tool in request.tools if not isinstance(tool, BaseTool)]
    offered = [
        tools[spec.name] if spec == specs.get(spec.name) else _function(spec) for spec in shown
    ]
    return request.override(tools=[*offered, *hosted])


def respond(handler: Callable[[Any], Any], request: Any, *, late: bool) -> Any:
    """Return what *handler* returns for *request*.

    langgraph 1.2: the stream "messages" shows a model's tokens at once, unless the request has a
    tag. With *late* it has it, and the stream shows the message that leaves the node.
    """
    if not late:
        return handler(request)
    with set_config_context(_tagged()) as context:
        return context.run(handler, request)


async def respond_async(
    handler: Callable[[Any], Awaitable[Any]], request: Any, *, late: bool
) -> Any:
    """Do as `respond`."""

    async def work() -> Any:
        return await handler(request)

    if not late:
        return await work()
    with set_config_context(_tagged()) as context:
        return await asyncio.create_task(work(), context=context)


def _tagged() -> Any:
    config = get_config()
    return {**config, "tags": [*(config.get("tags") or ()), TAG_NOSTREAM]}


async def judged_response(
    session: BridgeSession, response: ModelResponse[Any]
) -> ModelResponse[Any]:
    """Return *response* with the texts that handlers left."""
    messages = [await _judged(session, message) for message in response.result]
    return replace(response, result=messages)


async def _judged(session: BridgeSession, message: Any) -> Any:
    if not isinstance(message, AIMessage) or (message.tool_calls and not message.text):
        return message
    text = await session.answer(message.text)
    return message if text == message.text else with_text(message, text)


def with_text(message: Any, text: str) -> Any:
    """Return *message* with *text* in place of its texts; other blocks, such as images, stay."""
    content: Any = text
    if not isinstance(message.content, str):
        others = [each for each in message.content if not _is_text(each)]
        content = [{"type": "text", "text": text}, *others]
    return message.model_copy(update={"content": content})


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type") == "text"


def _function(spec: ToolSpec) -> dict[str, Any]:
    """Return *spec* in the form that `bind_tools` of every model takes."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": thaw(spec.input_schema),
    }
    return {"type": "function", "function": function}
