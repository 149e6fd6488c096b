"""The subject of a value: the ids for the ledger, its tool, its role; and selectors by these."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from toolbus.events.catalogue import ModelReply, ToolCallFailure, ToolCallOutcome, ToolCallPersist
from toolbus.events.kinds import classes_of
from toolbus.messages.records import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from toolbus.events.kinds import Event

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)

_MESSAGES: tuple[type, ...] = get_args(Message)
_fits = lru_cache(1_024)(fnmatchcase)
_TOOL_VALUES = (ToolCall, ToolCallFailure, ToolCallOutcome, ToolCallPersist, ToolMessage)


def ids_of(value: object) -> tuple[str, str]:
    """Return the id of the message or call in *value*, and the tool call's id."""
    match value:
        case ToolMessage():
            return value.id, value.tool_call_id
        case ToolCall():
            return value.id, value.id
        case SystemMessage() | UserMessage() | AssistantMessage():
            return value.id, ""
        case ToolCallOutcome(requested=call) | ToolCallFailure(call=call):
            return call.id, call.id
        case ToolCallPersist():
            return value.tool_message_id, value.tool_call_id
        case ModelReply(message=message):
            return message.id, ""
    return "", ""


def tool_of(value: object) -> str | None:
    """Return the current name of the tool in *value*, None without a tool or with several."""
    match value:
        case ToolCall(name=name) | ToolCallFailure(call=ToolCall(name=name)):
            return name
        case ToolMessage(tool_name=name) | ToolCallPersist(tool_name=name):
            return name
        case ToolCallOutcome():
            return (value.executed or value.requested).name
    return None


def has_tools(event: Event) -> bool:
    """Return whether values of *event* may have a tool, in the sense of `tool_of`."""
    return _may_be(event, _TOOL_VALUES)


def has_messages(event: Event) -> bool:
    """Return whether values of *event* may be messages."""
    return _may_be(event, _MESSAGES)


def _may_be(event: Event, kinds: tuple[type, ...]) -> bool:
    """Return whether a value of *event* may be of *kinds*; True if that cannot be decided."""
    for wanted in classes_of(event.value):
        if not isinstance(wanted, type) or issubclass(wanted, kinds):
            return True
        if any(issubclass(kind, wanted) for kind in kinds):
            return True
    return False


class ToolSelector:
    """A choice of tools by glob patterns of their names, case-sensitive."""

    __slots__ = ("patterns",)

    def __init__(self, patterns: Iterable[str] | str = "*") -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)

    def matches(self, tool_name: str) -> bool:
        """Return whether the tool *tool_name* is chosen."""
        return matches(self.patterns, tool_name)

    def admits(self, value: object) -> bool:
        """Return whether *value* has a chosen tool, or no single tool at all."""
        name = tool_of(value)
        return name is None or matches(self.patterns, name)

    def selects(self, value: object) -> bool:
        """Return whether *value* has exactly one tool, a chosen one."""
        name = tool_of(value)
        return name is not None and matches(self.patterns, name)

    @property
    def is_everything(self) -> bool:
        """Whether all tools are chosen."""
        return "*" in self.patterns

    @property
    def problem(self) -> str | None:
        """The reason why the patterns are invalid, or None."""
        if self.patterns and all(isinstance(pattern, str) and pattern for pattern in self.patterns):
            return None
        return f"tools must be names or glob patterns, not {self.patterns!r}"


class RoleSelector:
    """A choice of messages by their roles."""

    __slots__ = ("roles",)

    def __init__(self, roles: Collection[str] | str) -> None:
        self.roles = (roles,) if isinstance(roles, str) else tuple(roles)

    def selects(self, value: object) -> bool:
        """Return whether *value* is a message of a chosen role."""
        return isinstance(value, Message) and value.role in self.roles

    @property
    def problem(self) -> str | None:
        """The reason why the roles are invalid, or None."""
        known = ", ".join(ROLES)
        if not self.roles or not all(isinstance(role, str) for role in self.roles):
            return f"roles must be some of {known}, not {self.roles!r}"
        for role in self.roles:
            if role not in ROLES:
                return f"unknown role {role!r}{hint(role, ROLES)}"
        return None


def matches(patterns: Iterable[str] | str, tool_name: str) -> bool:
    """Return whether one of *patterns*, glob patterns of names, matches *tool_name*."""
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        if _fits(tool_name, pattern):
            return True
    return False
