"""A model that plays given answers, for tests and demonstrations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from toolbus.errors import ModelError
from toolbus.events import ModelDelta
from toolbus.ids import new_id
from toolbus.messages import AssistantMessage, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from toolbus.events import ModelRequest

    Answer: TypeAlias = (
        AssistantMessage | str | Exception | Callable[[ModelRequest], AssistantMessage | str]
    )


class ScriptedModel:
    """Gives *answers* one after another: a message, a text, an error to raise, or a function of the request.

    *requests* are those that it got. When the answers are used up it raises `ModelError`.
    """

    def __init__(
        self,
        answers: Iterable[Answer],
        *,
        name: str = "scripted",
        ids: Callable[[], str] = new_id,
    ) -> None:
        self.name, self._ids = name, ids
        self._answers = iter(answers)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the next answer."""
        self.requests.append(request)
        answer = next(self._answers, None)
        if answer is None:
            raise ModelError(self.name, f"its script has no answer {len(self.requests)}")
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, str):
            return AssistantMessage(id=self._ids(), content=answer, stop_reason="stop")
        return answer

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | AssistantMessage]:
        """Give the next answer word by word, then whole."""
        message = await self.complete(request)
        for delta in deltas(message):
            yield delta
        yield message


def deltas(message: AssistantMessage) -> Iterator[ModelDelta]:
    """Give *message* in pieces, as a streaming model would: reasoning, text, then tool calls."""
    for word in re.findall(r"\S+\s*|\s+", message.reasoning or ""):
        yield ModelDelta(kind="reasoning", text=word)
    for word in re.findall(r"\S+\s*|\s+", message.content):
        yield ModelDelta(kind="text", text=word)
    for index, call in enumerate(message.tool_calls):
        yield ModelDelta(kind="tool_call", text=encode(call.arguments).decode(), index=index)
