"""A model that replays the assistant's side of a recorded session, with real tools."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self, TypeAlias

from toolbus.errors import ModelError
from toolbus.messages.parts import join_text
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage
from toolbus.models.scripted import ScriptedModel
from toolbus.providers.recordings import read_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from toolbus.events.catalogue import ModelRequest
    from toolbus.messages.records import Message, Part

    Content: TypeAlias = str | tuple[Part, ...]

_QUOTED = 60
logger = logging.getLogger("toolbus")


class ReplayModel(ScriptedModel):
    """A model that returns the assistant messages of *messages*, in order, and no others.

    The messages between them were the context of each answer. If a request differs from it in a
    prompt or a tool result, the answer is returned all the same, with an entry in `deviations` and
    the log. A recording of answers alone has no context to deviate from.

    >>> recorded = [UserMessage(content="hello"), AssistantMessage(content="hi")]
    >>> Agent(ReplayModel(recorded)).run_sync("hello").text
    'hi'
    """

    def __init__(self, messages: Iterable[Message], *, name: str = "replay") -> None:
        recorded = tuple(messages)
        answers = [message for message in recorded if isinstance(message, AssistantMessage)]
        super().__init__(answers, name=name)
        self._count = len(answers)
        self._questions = _split(recorded)
        self._has_prompts = any(isinstance(message, UserMessage) for message in recorded)
        self.deviations: list[str] = []

    @classmethod
    def from_file(
        cls, path: str | Path, *, session: str | None = None, name: str = "replay"
    ) -> Self:
        """Read a session from a file with one message per line, an export, or a store.

        *session* is the id, or its beginning, of one of several sessions. Raises `DecodeError`,
        with the number of the line, before any answer, and `StoreError`.
        """
        return cls(read_session(path, session), name=name)

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the next answer; raises `ModelError` after the last."""
        number = len(self.requests) + 1
        if number > self._count:
            self.requests.append(request)
            asked = _quoted(_prompts(_latest(request.messages)))
            reason = f"the recording has {self._count} answers, and none to {asked}"
            raise ModelError(self.name, f"{reason}, which is request {number}")
        for deviation in self._compare(number, _latest(request.messages)):
            self.deviations.append(deviation)
            logger.warning("model %r: answer %d was recorded %s", self.name, number, deviation)
        return await super().complete(request)

    def _compare(self, number: int, asked: Sequence[Message]) -> Iterable[str]:
        """Yield the differences between *asked* and the recorded context of answer *number*."""
        recorded = self._questions[number - 1]
        before, now = _prompts(recorded), _prompts(asked)
        if self._has_prompts and before != now:
            yield f"for {_quoted(before)}, but the prompt is {_quoted(now)}"
        results = {each.tool_call_id: each for each in asked if isinstance(each, ToolMessage)}
        for message in [each for each in recorded if isinstance(each, ToolMessage)]:
            other = results.get(message.tool_call_id)
            if other is not None and other.text != message.text:
                yield f"after another result of {message.tool_name} ({message.tool_call_id!r})"


def _split(messages: Iterable[Message]) -> list[list[Message]]:
    """Return the messages before each answer, and after the last."""
    parts: list[list[Message]] = [[]]
    for message in messages:
        if isinstance(message, AssistantMessage):
            parts.append([])
        else:
            parts[-1].append(message)
    return parts


def _latest(messages: Sequence[Message]) -> Sequence[Message]:
    return _split(messages)[-1]


def _prompts(messages: Iterable[Message]) -> list[Content]:
    return [message.content for message in messages if isinstance(message, UserMessage)]


def _quoted(prompts: Iterable[Content]) -> str:
    """Return the beginning of *prompts*, in quotes, for a line of a log."""
    texts = [each if isinstance(each, str) else join_text(each) for each in prompts]
    text = "\n".join(texts)
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…") if texts else "no prompt"
