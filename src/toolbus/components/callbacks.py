"""The before_tool_callback: a function of a call's name and arguments, as a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.bus.dispatch.callables import takes
from toolbus.errors import RegistrationError
from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.messages.records import ToolCall

Changed: TypeAlias = Mapping[str, Any] | None
BeforeToolCallback: TypeAlias = Callable[[str, dict[str, Any]], Changed | Awaitable[Changed]]
"""Gets a tool's name and a copy of the arguments; what it returns is laid over them."""


def before_tool(
    callback: BeforeToolCallback,
) -> Callable[[EventContext[ToolCall]], Coroutine[Any, Any, ToolCall | None]]:
    """Return *callback* as a handler of `TOOL_CALL_BEFORE`.

    Raises `RegistrationError` for what cannot take a name and arguments.
    """
    if not callable(callback) or isinstance(callback, type) or not takes(callback, 2):
        reason = (
            "it must be callable with the tool's name and the arguments, `callback(name, args)`"
        )
        raise RegistrationError(f"before_tool_callback {callback!r}", reason)

    async def before_tool_callback(ctx: EventContext[ToolCall]) -> ToolCall | None:
        changed = callback(ctx.value.name, thaw(ctx.value.arguments))
        if isawaitable(changed):
            changed = await changed
        return None if changed is None else ctx.value.merge_arguments(changed)

    return before_tool_callback
