"""Calls and their answers: what a provider would refuse a history for does not enter one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from toolbus.messages.records import AssistantMessage, Message, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from toolbus.messages.records import ToolCall


def flaw(
    message: Message,
    has: Callable[[str], bool],
    asked: Container[str],
    unanswered: Container[str],
) -> str | None:
    """Return why *message* cannot be the next one, or None.

    *has* tells of ids of messages whether they are taken; *asked* and *unanswered* are ids of
    calls.
    """
    if has(message.id):
        return known(message)
    match message:
        case AssistantMessage(tool_calls=calls) if calls:
            return indistinct(calls, asked)
        case ToolMessage(tool_call_id=call_id) if call_id not in unanswered:
            fate = "has its answer already" if call_id in asked else "was never made"
            return f"call {call_id!r} {fate}"
    return None


def known(message: Message) -> str:
    """Return why *message* is refused by a session that has its id already."""
    return f"it has a message {message.id!r} already; give each message an id of its own"


def indistinct(calls: Sequence[ToolCall], asked: Container[str] = ()) -> str | None:
    """Return why the answers of *calls* could not be told apart, or None.

    Nor could one from that of an earlier call; *asked* are the ids of those.
    """
    ids = Counter(call.id for call in calls)
    if "" in ids:
        return f"the call of tool {next(call.name for call in calls if not call.id)!r} has no id"
    call_id, times = ids.most_common(1)[0]
    if times > 1:
        return f"{times} calls have the id {call_id!r}"
    again = next((call_id for call_id in ids if call_id in asked), None)
    return again and f"call {again!r} was made already; give each call an id of its own"
