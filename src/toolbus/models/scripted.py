"""A model that plays given answers, for tests and demonstrations."""

from __future__ import annotations

import re
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias

from toolbus.errors import ModelError, RegistrationError
from toolbus.events.catalogue import ModelDelta
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import replace_surrogates
from toolbus.messages.records import AssistantMessage, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from toolbus.events.catalogue import ModelRequest

    Reply: TypeAlias = AssistantMessage | str
    Answer: TypeAlias = (
        AssistantMessage | str | Exception | Callable[[ModelRequest], Reply | Awaitable[Reply]]
    )


class ScriptedModel:
    """A model that returns *answers* in order, one per request, then raises `ModelError`.

    An answer is a message, a text, an error to raise, or a function of the request, sync or
    async. *requests* has every request. Raises `RegistrationError` for a text in place of a list.

    >>> model = ScriptedModel(["hi", lambda request: f"{len(request.messages)} messages"])
    >>> agent = Agent(model)
    >>> agent.run_sync("hello").text, agent.run_sync("and now?").text
    ('hi', '3 messages')
    """

    def __init__(
        self,
        answers: Iterable[Answer],
        *,
        name: str = "scripted",
        ids: Callable[[], str] = new_id,
    ) -> None:
        if isinstance(answers, str):
            reason = f"expected answers in a list, not a text; write [{answers[:40]!r}]"
            raise RegistrationError(f"model {name!r}", reason)
        self.name, self._ids = name, ids
        self._answers = iter(answers)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the next answer."""
        self.requests.append(request)
        answer = next(self._answers, None)
        if answer is None:
            raise ModelError(self.name, f"the script has no answer {len(self.requests)}")
        if isinstance(answer, Exception):
            raise answer
        answered = answer(request) if callable(answer) else answer
        if isawaitable(answered):
            answered = await answered
        if isinstance(answered, str):
            text = replace_surrogates(answered)
            return AssistantMessage(id=self._ids(), content=text, stop_reason="stop")
        return answered

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | AssistantMessage]:
        """Yield the next answer word by word, then complete."""
        message = await self.complete(request)
        for delta in deltas(message):
            yield delta
        yield message


def deltas(message: AssistantMessage) -> Iterator[ModelDelta]:
    """Yield *message* in pieces, like a streaming model: reasoning, text, then tool calls."""
    for word in re.findall(r"\S+\s*|\s+", message.reasoning_text):
        yield ModelDelta(kind="reasoning", text=word)
    for word in re.findall(r"\S+\s*|\s+", message.content):
        yield ModelDelta(kind="text", text=word)
    for index, call in enumerate(message.tool_calls):
        text = encode(call.arguments).decode() if call.raw is None else call.raw
        yield ModelDelta(kind="tool_call", text=text, index=index, name=call.name, id=call.id)
