"""An immutable-message event bus for AI agents.

The face is lazy: a name is imported from its module when it is first asked for, so importing a
low floor loads no higher one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus import events as events
    from toolbus.agent.agent import Agent as Agent
    from toolbus.bus.bus import EventBus as EventBus
    from toolbus.bus.dispatch.contexts import EventContext as EventContext
    from toolbus.components.adapters import ToolAdapter as ToolAdapter
    from toolbus.components.components import AgentComponent as AgentComponent
    from toolbus.components.marks import guard as guard
    from toolbus.components.marks import on as on
    from toolbus.errors import ToolbusError as ToolbusError
    from toolbus.events.catalogue import Ask as Ask
    from toolbus.events.catalogue import Deny as Deny
    from toolbus.events.catalogue import Retry as Retry
    from toolbus.events.catalogue import Scope as Scope
    from toolbus.events.catalogue import ToolSpec as ToolSpec
    from toolbus.messages.records import AssistantMessage as AssistantMessage
    from toolbus.messages.records import SystemMessage as SystemMessage
    from toolbus.messages.records import TextPart as TextPart
    from toolbus.messages.records import ToolCall as ToolCall
    from toolbus.messages.records import ToolMessage as ToolMessage
    from toolbus.messages.records import ToolResponse as ToolResponse
    from toolbus.messages.records import UserMessage as UserMessage
    from toolbus.tools.calls.runner import ToolRunner as ToolRunner
    from toolbus.tools.toolset import Tool as Tool
    from toolbus.tools.toolset import tool as tool

_FACE = {
    "Agent": "agent",
    "AgentComponent": "components",
    "Ask": "events",
    "AssistantMessage": "messages",
    "Deny": "events",
    "EventBus": "bus",
    "EventContext": "bus",
    "Retry": "events",
    "Scope": "events",
    "SystemMessage": "messages",
    "TextPart": "messages",
    "Tool": "tools",
    "ToolAdapter": "components",
    "ToolCall": "messages",
    "ToolMessage": "messages",
    "ToolResponse": "messages",
    "ToolRunner": "tools.calls",
    "ToolSpec": "events",
    "ToolbusError": "errors",
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
    "Retry",
    "Scope",
    "SystemMessage",
    "TextPart",
    "Tool",
    "ToolAdapter",
    "ToolCall",
    "ToolMessage",
    "ToolResponse",
    "ToolRunner",
    "ToolSpec",
    "ToolbusError",
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
