"""An immutable-message event bus for AI agents.

To understand it in an hour, read, from the records up to what people write:
`events/kinds`, `events/catalogue` - what happens, and what passes there;
`events/verdicts` - what handlers may say;
`messages/records` - what passes, and never changes;
`bus/dispatch/contexts`, `bus/dispatch/loop`, `bus/dispatch/results` - one dispatch, step by step;
`bus/bus` - the verbs, and how a handler is subscribed;
`components/adapters`, `components/components` - what is installed on an agent as one.

Examples in docstrings have these names, `asyncio`, `ScriptedModel` of `toolbus.models`, and a
function `greet(name: str) -> str` that says hello.

The face is lazy: a name is imported from its room when it is first asked for, so importing a
low room loads no higher one.
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
