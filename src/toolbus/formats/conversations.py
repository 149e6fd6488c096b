"""Files with one conversation a line, in the formats of OpenAI and Anthropic.

A line may be a request (`messages`, with a `system` for Anthropic; `input` for OpenAI's responses
API), a fine-tuning example, or a logged pair of request and response. A line that continues the
conversation of the previous line, like successive requests of an agent, continues its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from toolbus.formats import chat_messages
from toolbus.formats.anthropic_messages import answer_items, answer_message, parts_of, user_messages
from toolbus.formats.items import Item, MessageItem, SessionEnd, SessionStart
from toolbus.formats.json_input import ToolNames, parse, unexpected
from toolbus.formats.responses_input import input_messages, is_input
from toolbus.formats.responses_output import response_message
from toolbus.messages.immutable import EMPTY
from toolbus.messages.parts import join_text
from toolbus.messages.records import AssistantMessage, Message, SystemMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

Dialect = Literal["openai", "anthropic"]

_HEAD = 2
"""The number of messages compared first to decide whether a line may continue the previous one."""

_REQUESTS = ("request", "body", "input", "params", "kwargs")
_RESPONSES = ("response", "completion", "output")
_ONLY_ANTHROPIC = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}
)


class Conversations:
    """A reader of conversations; without *dialect*, the format of each line is detected."""

    def __init__(self, name: str, dialect: Dialect | None = None) -> None:
        self._name, self._dialect = name, dialect
        self._session: str | None = None
        self._latest: list[Message] = []
        self._head: list[Any] = []

    @staticmethod
    def recognizes(line: dict[str, Any]) -> bool:
        """Return whether *line* looks like a conversation."""
        return _request(line) is not None

    def feed(self, number: int, data: bytes) -> Sequence[Item]:
        """Return the messages of a line that the previous line does not have."""
        line = parse(data)
        request = _request(line) if isinstance(line, dict) else None
        if request is None:
            raise unexpected("an object with messages", line, "$")
        reply = _reply(line)
        dialect = _dialect(request, reply, self._dialect)
        if self._session is not None and request["messages"][: len(self._head)] == self._head:
            messages = _messages(dialect, request, reply, self._session)
            if _continues(self._latest, messages):
                new, self._latest = messages[len(self._latest) :], messages
                return [MessageItem(self._session, message) for message in new]
        session = f"{self._name}:{number}"
        messages = _messages(dialect, request, reply, session)
        closing = self.end()
        self._session, self._latest = session, messages
        self._head = request["messages"][:_HEAD]
        return [
            *closing,
            SessionStart(session),
            *[MessageItem(session, message) for message in messages],
        ]

    def end(self) -> Sequence[Item]:
        """Return the end of the last line's session."""
        return () if self._session is None else (SessionEnd(self._session),)


def _request(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object with the messages: *line* itself, or a member of a log's line."""
    candidates = [line, *[line.get(name) for name in _REQUESTS]]
    candidates += [
        candidate.get("body") for candidate in candidates[1:] if isinstance(candidate, dict)
    ]
    for candidate in candidates:
        if isinstance(candidate, dict) and isinstance(candidate.get("messages"), list):
            return candidate
        if isinstance(candidate, dict) and is_input(candidate.get("input")):
            return {**candidate, "messages": candidate["input"]}
    return None


def _reply(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object with the model's answer in a log's *line*, or None."""
    candidates = [line.get(name) for name in _RESPONSES]
    candidates += [candidate.get("body") for candidate in candidates if isinstance(candidate, dict)]
    for candidate in candidates:
        match candidate:
            case {"choices": [{"message": {}}, *_]} | {"role": "assistant", "content": _}:
                return candidate
            case {"object": "response", "output": list()}:
                return candidate
    return None


def _dialect(
    request: dict[str, Any], reply: dict[str, Any] | None, known: Dialect | None
) -> Literal[Dialect, "responses"]:
    """Return the format of the messages; plain text, the same in both, counts as OpenAI's."""
    # No body names its format, so its members are searched first, and then single blocks.
    if known != "anthropic" and request["messages"] is request.get("input"):
        return "responses"
    if known is not None:
        return known
    match request:
        case {"system": _} | {"anthropic_version": _}:
            return "anthropic"
    if reply is not None and "choices" not in reply:
        return "anthropic"
    for data in request["messages"]:
        content = data.get("content") if isinstance(data, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") in _ONLY_ANTHROPIC:
                return "anthropic"
    return "openai"


def _messages(
    dialect: str, request: dict[str, Any], reply: dict[str, Any] | None, session: str
) -> list[Message]:
    return _READERS[dialect](request, reply, session)


def _read_openai(
    request: dict[str, Any], reply: dict[str, Any] | None, session: str
) -> list[Message]:
    names, messages = ToolNames(), list[Message]()
    for index, data in enumerate(request["messages"]):
        message_id = f"{session}/{len(messages) + 1}"
        message = chat_messages.message_of(data, message_id, names, f"$.messages[{index}]")
        names.add(message)
        messages.append(message)
    match reply:
        case {"choices": [{"message": dict()}, *_]}:
            message_id = f"{session}/{len(messages) + 1}"
            messages.append(chat_messages.completion_of(reply, message_id, "$"))
    return messages


def _read_responses(
    request: dict[str, Any], reply: dict[str, Any] | None, session: str
) -> list[Message]:
    items = request["messages"]
    if isinstance(instructions := request.get("instructions"), str):
        items = [{"role": "system", "content": instructions}, *items]
    messages = input_messages(items, session, "$.input")
    if reply is not None:
        messages.append(response_message(reply, f"{session}/{len(messages) + 1}"))
    return messages


def _read_anthropic(
    request: dict[str, Any], reply: dict[str, Any] | None, session: str
) -> list[Message]:
    names, messages = ToolNames(), list[Message]()
    system = request.get("system")
    if system is not None:
        text = join_text(parts_of(system, "$.system"))
        messages.append(SystemMessage(id=f"{session}/1", content=text))
    for index, data in enumerate(request["messages"]):
        message_id, path = f"{session}/{len(messages) + 1}", f"$.messages[{index}]"
        for message in _turn(data, message_id, names, path):
            names.add(message)
            messages.append(message)
    if reply is not None:
        message_id = f"{session}/{len(messages) + 1}"
        items = answer_items(reply.get("content"), "$.content")
        messages.append(answer_message(items, message_id, reply))
    return messages


_READERS = {
    "openai": _read_openai,
    "responses": _read_responses,
    "anthropic": _read_anthropic,
}


def _turn(data: Any, message_id: str, names: ToolNames, path: str) -> list[Message]:
    match data:
        case {"role": "user", "content": content}:
            return user_messages(content, message_id, names, f"{path}.content")
        case {"role": "assistant", "content": content}:
            return [answer_message(answer_items(content, f"{path}.content"), message_id)]
        case {"role": "system", "content": content}:
            text = join_text(parts_of(content, f"{path}.content"))
            return [SystemMessage(id=message_id, content=text)]
    raise unexpected("a message with role and content", data, path)


def _continues(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Return whether *after* begins with *before*, ignoring details that only replies have."""
    pairs = zip(before, after, strict=False)
    return len(after) > len(before) and all(_core(old) == _core(new) for old, new in pairs)


def _core(message: Message) -> Message:
    """Return *message* without the details of a reply that later requests do not repeat."""
    if not isinstance(message, AssistantMessage):
        return message
    return replace(message, usage=EMPTY, stop_reason=None, reasoning=(), metadata=EMPTY)
