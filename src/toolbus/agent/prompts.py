"""Prompts of a program for an agent: text, text and other parts, or a complete message."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, get_args

from msgspec.structs import replace

from toolbus.errors import AppendError
from toolbus.messages.records import Message, Part, SystemMessage, TextPart, UserMessage

if TYPE_CHECKING:
    from toolbus.events.catalogue import RunStart

Prompt: TypeAlias = str | Sequence[str | Part] | UserMessage
"""A user's text, texts and parts (`["what is this?", ImagePart(…)]`), or complete message."""

_PARTS = get_args(Part)
logger = logging.getLogger("toolbus")


def content_of(prompt: Prompt, session_id: str) -> str | tuple[Part, ...]:
    """Return the content of a message for *prompt*; raises `AppendError` for an invalid one."""
    match prompt:
        case str():
            return prompt
        case UserMessage(content=content):
            return content
        case list() | tuple() if prompt and all(
            isinstance(part, (str, *_PARTS)) for part in prompt
        ):
            return tuple(
                [TextPart(text=part) if isinstance(part, str) else part for part in prompt]
            )
    wanted = "text, a list of texts and parts, or a message"
    raise AppendError(session_id, f"expected {wanted}, {_problem(prompt)}")


def _problem(prompt: object) -> str:
    if isinstance(prompt, Message):
        return f"not a message of role {prompt.role!r}; `agent.append(message)` takes any role"
    if not isinstance(prompt, list | tuple):
        return f"not `{type(prompt).__name__}`"
    unfit = [part for part in prompt if not isinstance(part, (str, *_PARTS))]
    return f"but one item is `{type(unfit[0]).__name__}`" if unfit else "not an empty list"


def message_of(prompt: Prompt, start: RunStart, new_id: Callable[[], str]) -> UserMessage:
    """Return the first message of the run *start*, with the content that handlers left."""
    if not isinstance(prompt, UserMessage):
        return UserMessage(id=new_id(), content=start.prompt)
    is_unchanged = start.prompt is prompt.content
    return prompt if is_unchanged else replace(prompt, content=start.prompt)


def as_message(message: Message | Prompt, session_id: str, new_id: Callable[[], str]) -> Message:
    """Return *message*, a prompt as a user message; raises `AppendError` for an invalid one."""
    if isinstance(message, Message):
        return message
    return UserMessage(id=new_id(), content=content_of(message, session_id))


def compare_system(system: str | None, messages: Sequence[Message], session_id: str) -> None:
    """Log a warning if a resumed session has another *system* message than the agent."""
    if system is None or not messages:
        return
    first = messages[0]
    if not isinstance(first, SystemMessage) or first.content != system:
        has = "another" if isinstance(first, SystemMessage) else "no"
        text = "session %r keeps %s system message: `system=` applies to new sessions only"
        logger.warning(text, session_id, has)
