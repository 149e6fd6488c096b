"""What a program may say to an agent: text, text and other parts, or a whole message."""

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
"""What a user says: text, texts and parts (`["what is this?", ImagePart(…)]`), or the message."""

_PARTS = get_args(Part)
logger = logging.getLogger("toolbus")


def content_of(prompt: Prompt, session_id: str) -> str | tuple[Part, ...]:
    """Return the content of a message that says *prompt*; raises `AppendError` for what is none."""
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
    raise AppendError(session_id, f"expected {_WANTED}, {_problem(prompt)}")


_WANTED = "text, a list of texts and parts, or a message"


def _problem(prompt: object) -> str:
    if isinstance(prompt, Message):
        return f"not a message of role {prompt.role!r}; `agent.append(message)` takes any"
    if not isinstance(prompt, list | tuple):
        return f"not `{type(prompt).__name__}`"
    strangers = [part for part in prompt if not isinstance(part, (str, *_PARTS))]
    return f"not `{type(strangers[0]).__name__}` among them" if strangers else "not an empty list"


def message_of(prompt: Prompt, start: RunStart, new_id: Callable[[], str]) -> UserMessage:
    """Return the message with which the run of *start* begins, as handlers left what it says."""
    if not isinstance(prompt, UserMessage):
        return UserMessage(id=new_id(), content=start.prompt)
    is_unchanged = start.prompt is prompt.content
    return prompt if is_unchanged else replace(prompt, content=start.prompt)


def as_message(message: Message | Prompt, session_id: str, new_id: Callable[[], str]) -> Message:
    """Return *message*, or the user message that says it; raises `AppendError` for what is none."""
    if isinstance(message, Message):
        return message
    return UserMessage(id=new_id(), content=content_of(message, session_id))


def compare_system(system: str | None, messages: Sequence[Message], session_id: str) -> None:
    """Tell who gave a *system* message that a session with another one does not take."""
    if system is None or not messages:
        return
    first = messages[0]
    if not isinstance(first, SystemMessage) or first.content != system:
        has = "another system message" if isinstance(first, SystemMessage) else "none"
        logger.warning(
            "session %r goes on as it began, with %s: `system=` is that of a new session",
            session_id,
            has,
        )
