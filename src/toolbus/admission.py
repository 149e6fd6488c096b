"""What a message passes before it may enter a session: transformers, guards and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus import schemas
from toolbus.errors import MessageDenied
from toolbus.events import MESSAGE_APPEND_BEFORE
from toolbus.messages import Message, ToolMessage, ToolResponse

if TYPE_CHECKING:
    from toolbus.bus import EventBus
    from toolbus.dispatch import EventContext
    from toolbus.events import Scope, ToolSpec


async def admit(
    bus: EventBus, message: Message, scope: Scope, tool: ToolSpec | None = None
) -> Message:
    """Return *message* as it may be appended.

    A refused tool message comes back as an error response that carries the reason, so that its
    call has an answer; of another role it raises `MessageDenied`.
    """
    message = without_stale_content(message)
    context = await bus.apply(
        MESSAGE_APPEND_BEFORE,
        message,
        scope=scope,
        tool=tool,
        check=None if tool is None or tool.output_schema is None else _check_structured,
    )
    if context.rejected:
        reason = f"handler {context.rejected.handler!r} broke the result: {context.rejected.reason}"
        return refused(message, reason, "invalid_result")
    if context.denied:
        return refused(message, context.denied.reason, "denied")
    return without_stale_content(context.value)


def refused(message: Message, reason: str, error_type: str) -> Message:
    """Return the error that stands for the tool message *message*; raises for another role.

    Only the facts of the call are kept: whatever the refused message said is in none of them.
    """
    if not isinstance(message, ToolMessage):
        raise MessageDenied(message.role, message.id, reason)
    response = ToolResponse.from_text(reason, is_error=True, error_type=error_type)
    if message.tool_response is not None:
        response = replace(
            response,
            tool_name=message.tool_response.tool_name,
            tool_call_id=message.tool_response.tool_call_id,
            parameters=message.tool_response.parameters,
            duration_ns=message.tool_response.duration_ns,
        )
    return ToolMessage(
        id=message.id,
        tool_call_id=message.tool_call_id,
        tool_name=message.tool_name,
        tool_response=response,
    )


def without_stale_content(message: Message) -> Message:
    """Return *message* with its text in one place: the response of a tool message, if it has one."""
    if isinstance(message, ToolMessage) and message.tool_response is not None and message.content:
        return replace(message, content="")
    return message


def _check_structured(turn: EventContext[Any], after: Message) -> str | None:
    """Return how a handler broke a structured result that fitted the tool's output schema."""
    if turn.tool is None or turn.tool.output_schema is None or not isinstance(after, ToolMessage):
        return None
    response = after.tool_response
    if response is None or response.is_error or response.structured is None:
        return None
    problem = schemas.problem(turn.tool.output_schema, response.structured)
    before = turn.value.tool_response
    fitted = before is None or not schemas.problem(turn.tool.output_schema, before.structured)
    return problem if fitted else None
