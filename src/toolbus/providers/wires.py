"""The wire formats of models: request bodies, answers and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from toolbus.formats import anthropic_requests, chat_requests, responses_requests
from toolbus.formats.anthropic_messages import answer_items, answer_message
from toolbus.formats.anthropic_stream import AnthropicStream
from toolbus.formats.chat_messages import completion_of
from toolbus.formats.chat_stream import ChatStream
from toolbus.formats.json_input import unexpected
from toolbus.formats.names import original_names
from toolbus.formats.responses_output import response_message
from toolbus.formats.responses_stream import ResponsesStream
from toolbus.messages.immutable import replace_surrogates_in
from toolbus.models.answers import given_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from toolbus.events.values import ModelDelta, ModelRequest
    from toolbus.messages.records import AssistantMessage, ToolCall


class Assembler(Protocol):
    """An assembler of the events of a stream."""

    is_whole: bool

    def feed(self, event: Any) -> Iterable[ModelDelta]:
        """Return the deltas of *event*; raises `DecodeError`."""
        ...

    def answer(self) -> dict[str, Any]:
        """Return the answer in its unstreamed form."""
        ...


class ModelWire(NamedTuple):
    """A wire format: the body of a request, the reader of an answer, the stream's assembler.

    *streaming* are additional parameters of a request for a stream.
    """

    body_of: Callable[[ModelRequest], dict[str, Any]]
    read: Callable[[Any, str], AssistantMessage]
    assembler: Callable[[], Assembler]
    streaming: Mapping[str, Any] = {}

    def message_of(self, answer: Any, request: ModelRequest, retries: int) -> AssistantMessage:
        """Return the *answer* to *request* as a message; raises `DecodeError`.

        Unpaired surrogates are replaced, tools get their original names, and *retries* are put into
        the metadata, unless 0.
        """
        answer = replace_surrogates_in(answer)
        message_id = answer.get("id") if isinstance(answer, dict) else None
        message = self.read(answer, message_id if isinstance(message_id, str) else "")
        names = original_names(request.tools)
        if names and message.tool_calls:
            calls = tuple(_renamed(call, names) for call in message.tool_calls)
            message = replace(message, tool_calls=calls)
        if retries:
            message = replace(message, metadata={**message.metadata, "retries": retries})
        return message


def _renamed(call: ToolCall, names: Mapping[str, str]) -> ToolCall:
    return replace(call, name=names[call.name]) if call.name in names else call


def _chat(answer: Any, message_id: str) -> AssistantMessage:
    return completion_of(answer, message_id, "$", given_call)


def _response(answer: Any, message_id: str) -> AssistantMessage:
    return response_message(answer, message_id, "$", given_call)


def _anthropic(answer: Any, message_id: str) -> AssistantMessage:
    match answer:
        case {"content": list(content)}:
            items = answer_items(content, "$.content", given_call)
            return answer_message(items, message_id, answer)
    raise unexpected("a message with content", answer, "$")


CHAT = ModelWire(
    chat_requests.body_of, _chat, ChatStream, {"stream_options": {"include_usage": True}}
)
RESPONSES = ModelWire(responses_requests.body_of, _response, ResponsesStream)
ANTHROPIC = ModelWire(anthropic_requests.body_of, _anthropic, AnthropicStream)
