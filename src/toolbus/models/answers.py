"""A model's answer on its way in: ids that were given twice, or not at all, are made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.messages import AssistantMessage, ToolCall


def with_own_ids(
    message: AssistantMessage, is_taken: Callable[[str], bool], ids: Callable[[], str]
) -> AssistantMessage:
    """Return *message* with an id that nobody has taken, and calls that can be told apart.

    Local models give all calls of a message one id, or an empty one, and each answer the same.
    """
    if not message.id or is_taken(message.id):
        message = replace(message, id=ids())
    calls = message.tool_calls
    if len(calls) == len({call.id for call in calls if call.id}):
        return message
    return replace(message, tool_calls=tuple(_told_apart(calls, ids)))


def _told_apart(calls: Iterable[ToolCall], ids: Callable[[], str]) -> Iterable[ToolCall]:
    known = {""}
    for call in calls:
        own = replace(call, id=ids()) if call.id in known else call
        known.add(own.id)
        yield own
