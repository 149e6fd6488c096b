"""The walker that rewrites all texts of messages, responses and calls, by `text_walker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.messages.text_walker import rewrite_parts, rewrite_text, unless_same, updated

if TYPE_CHECKING:
    from toolbus.messages.reasoning import ReasoningPart
    from toolbus.messages.records import Message, ToolCall, ToolResponse
    from toolbus.messages.text_walker import TextVisitor


def rewrite_message(
    message: Message, visitor: TextVisitor, *, leave: ToolResponse | None = None
) -> Message:
    """Return *message* rewritten; the response *leave* stays as it is."""
    content = message.content
    rewrite: Any = rewrite_text if isinstance(content, str) else rewrite_parts
    fields = {"content": rewrite(content, visitor), "metadata": visitor.json(message.metadata)}
    if isinstance(message, AssistantMessage):
        calls = [
            rewrite_call(call, visitor) if visitor.covers(call.name) else call
            for call in message.tool_calls
        ]
        fields["tool_calls"] = unless_same(calls, message.tool_calls)
        fields["reasoning"] = _rewrite_reasoning(message.reasoning, visitor)
    elif isinstance(message, ToolMessage):
        response = message.tool_response
        if response is not None and response is not leave:
            fields["tool_response"] = rewrite_response(response, visitor)
    return updated(message, **fields)


def rewrite_response(
    response: ToolResponse, visitor: TextVisitor, *, parameters: bool = True
) -> ToolResponse:
    """Return *response* rewritten, with or without the *parameters* of its execution."""
    fields = {"parameters": visitor.json(response.parameters)} if parameters else {}
    return updated(
        response,
        content=rewrite_parts(response.content, visitor),
        structured=visitor.json(response.structured),
        metadata=visitor.json(response.metadata),
        error_type=rewrite_text(response.error_type, visitor),
        **fields,
    )


def rewrite_call(call: ToolCall, visitor: TextVisitor) -> ToolCall:
    """Return *call* with its arguments rewritten; its name and id are identifiers, not texts."""
    arguments, raw = visitor.json(call.arguments), rewrite_text(call.raw, visitor)
    return updated(call, arguments=arguments, raw=raw)


def _rewrite_reasoning(
    parts: tuple[ReasoningPart, ...], visitor: TextVisitor
) -> tuple[ReasoningPart, ...]:
    """Return *parts* rewritten; a changed part loses its provider's seal."""
    if not parts:
        return parts
    texts = visitor.texts(tuple([part.text for part in parts]))
    changed = [part.with_text(text) for part, text in zip(parts, texts, strict=True)]
    return unless_same(changed, parts)
