"""Which call a result belongs to, of hosts that give their calls no ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.messages.codec import changed
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.messages.records import Message, ToolCall

RECENT = 200
"""How many messages of a session are looked through for a call without an answer."""


def match_call(ran: ToolCall, recent: Sequence[Message], message_id: str) -> str | None:
    """Return the id of the call that *ran*, by its name and arguments, None if there is none.

    Of several the oldest that has no answer in *recent* and was made after the latest prompt, or
    else before: a host goes on when it has the results, unless it was killed. One whose answer is
    the message *message_id* has it from the same event, which is handled once more.
    """
    answers = {each.tool_call_id: each.id for each in recent if isinstance(each, ToolMessage)}
    for call_id, answer_id in answers.items():
        if answer_id == message_id:
            return call_id
    prompts = [place for place, each in enumerate(recent) if isinstance(each, UserMessage)]
    turn = prompts[-1] if prompts else 0
    waiting = [
        call
        for message in (*recent[turn:], *recent[:turn])
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
        if call.id not in answers and call.name == ran.name
    ]
    # The arguments of one that was rewritten, or redacted, are others.
    alike = [call for call in waiting if not changed(call.arguments, ran.arguments)]
    return next((call.id for call in (*alike, *waiting)), None)
