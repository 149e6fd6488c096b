"""An immutable-message event bus for AI agents.

Reading order for the first hour, from the records up to the public API:
`events/kinds`, `events/catalogue` - the kinds of events, and the events themselves;
`events/verdicts` - the verdicts of a handler: deny, ask, retry;
`messages/records` - the immutable records that events carry;
`bus/dispatch/contexts`, `bus/dispatch/loop`, `bus/dispatch/results` - one dispatch, step by step;
`bus/bus` - the verbs, and the subscription of handlers;
`components/adapters`, `components/components` - the units that are installed on an agent.

Examples in docstrings have these names, `asyncio`, `ScriptedModel` of `toolbus.models`, and a
function `greet(name: str) -> str` that returns a greeting.

Names are imported from their rooms on first access, so importing a low room loads no higher one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus import events as events
    from toolbus.agent import Agent as Agent
    from toolbus.bus import EventBus as EventBus
    from toolbus.bus import EventContext as EventContext
    from toolbus.components import AgentComponent as AgentComponent
    from toolbus.components import ToolAdapter as ToolAdapter
    from toolbus.components import guard as guard
    from toolbus.components import on as on
    from toolbus.errors import ToolbusError as ToolbusError
    from toolbus.events import Ask as Ask
    from toolbus.events import Deny as Deny
    from toolbus.events import Retry as Retry
    from toolbus.events import Scope as Scope
    from toolbus.events import ToolSpec as ToolSpec
    from toolbus.messages import AssistantMessage as AssistantMessage
    from toolbus.messages import ImagePart as ImagePart
    from toolbus.messages import SystemMessage as SystemMessage
    from toolbus.messages import TextPart as TextPart
    from toolbus.messages import ToolCall as ToolCall
    from toolbus.messages import ToolMessage as ToolMessage
    from toolbus.messages import ToolResponse as ToolResponse
    from toolbus.messages import UserMessage as UserMessage
    from toolbus.tools import Tool as Tool
    from toolbus.tools import ToolContext as ToolContext
    from toolbus.tools import Toolset as Toolset
    from toolbus.tools import tool as tool
    from toolbus.tools.calls import ToolRunner as ToolRunner

_FACE = {
    "Agent": "agent",
    "AgentComponent": "components",
    "Ask": "events",
    "AssistantMessage": "messages",
    "Deny": "events",
    "EventBus": "bus",
    "EventContext": "bus",
    "ImagePart": "messages",
    "Retry": "events",
    "Scope": "events",
    "SystemMessage": "messages",
    "TextPart": "messages",
    "Tool": "tools",
    "ToolAdapter": "components",
    "ToolCall": "messages",
    "ToolContext": "tools",
    "ToolMessage": "messages",
    "ToolResponse": "messages",
    "ToolRunner": "tools.calls",
    "ToolSpec": "events",
    "ToolbusError": "errors",
    "Toolset": "tools",
    "UserMessage": "messages",
    "events": "",
    "guard": "components",
    "on": "components",
    "tool": "tools",
}

__all__ = [
    "Agent",
    "AgentComponent",
    "Ask",
    "AssistantMessage",
    "Deny",
    "EventBus",
    "EventContext",
    "ImagePart",
    "Retry",
    "Scope",
    "SystemMessage",
    "TextPart",
    "Tool",
    "ToolAdapter",
    "ToolCall",
    "ToolContext",
    "ToolMessage",
    "ToolResponse",
    "ToolRunner",
    "ToolSpec",
    "ToolbusError",
    "Toolset",
    "UserMessage",
    "events",
    "guard",
    "on",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        msg = f"module 'toolbus' has no attribute {name!r}"
        raise AttributeError(msg)
    module = import_module(f"toolbus.{_FACE[name] or name}")
    value = globals()[name] = getattr(module, name) if _FACE[name] else module
    return value


def __dir__() -> list[str]:
    return __all__
