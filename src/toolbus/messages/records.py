"""The frozen messages of a conversation, and their encoding as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypeVar

from msgspec import field
from msgspec.structs import force_setattr, replace

from toolbus.messages.calls import ToolCall, ToolResponse
from toolbus.messages.codec import changed, decoder, encode, encode_msgpack, msgpack_decoder
from toolbus.messages.fields import (
    Record,
    all_ascii,
    check_kind,
    check_texts,
    copied,
    freeze_items,
    freeze_objects,
)
from toolbus.messages.ids import check_id, default_id
from toolbus.messages.immutable import EMPTY, FrozenDict, JsonObject
from toolbus.messages.parts import (
    AudioPart,
    ImagePart,
    Part,
    Resource,
    ResourcePart,
    TextPart,
    freeze_parts,
    join_text,
)
from toolbus.messages.reasoning import (
    Reasoning,
    ReasoningPart,
    freeze_reasoning,
    join_reasoning,
)
from toolbus.messages.text_walker import TextMapper, rewrite_parts

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M", bound="Message")

__all__ = [
    "AssistantMessage",
    "AudioPart",
    "ImagePart",
    "JsonObject",
    "Message",
    "Part",
    "ReasoningPart",
    "Resource",
    "ResourcePart",
    "SystemMessage",
    "TextPart",
    "ToolCall",
    "ToolMessage",
    "ToolResponse",
    "UserMessage",
    "changed",
    "decode",
    "decode_msgpack",
    "decoder",
    "encode",
    "encode_msgpack",
]


# Messages and calls created in code without an `id` get a fresh one; decoded ones must have their
# own (see `ids`).


class SystemMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """Instructions to the model.

    >>> SystemMessage(content="Be brief.").text
    'Be brief.'
    """

    role: ClassVar[Literal["system"]] = "system"
    id: str = field(default_factory=default_id)
    content: str
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not all_ascii(self.id, self.content):
            check_id(self)
            check_texts(self, "id", "content")
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @property
    def text(self) -> str:
        """The text for the model."""
        return self.content

    def with_text(self, text: str) -> SystemMessage:
        """Return this message with *text* for its content."""
        return replace(self, content=text)

    def map_text(self, change: Callable[[str], str]) -> SystemMessage:
        """Return this message with *change* applied to its content."""
        return _changed_content(self, change(self.content))


class UserMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """A message of a person, or of a program in a person's place.

    >>> UserMessage(content=(TextPart("Who is this?"),)).text
    'Who is this?'
    """

    role: ClassVar[Literal["user"]] = "user"
    id: str = field(default_factory=default_id)
    content: str | tuple[Part, ...]
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not all_ascii(self.id, self.content):
            check_id(self)
            check_texts(self, "id")
            if isinstance(self.content, str):
                check_texts(self, "content")
            else:
                freeze_parts(self, "content")
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @property
    def text(self) -> str:
        """The text of the content, one part per line."""
        return self.content if isinstance(self.content, str) else join_text(self.content)

    def with_text(self, text: str) -> UserMessage:
        """Return this message with *text* in place of all its content, images too."""
        return replace(self, content=text)

    def map_text(self, change: Callable[[str], str]) -> UserMessage:
        """Return this message with *change* applied to its texts; see `ToolResponse.map_text`."""
        if isinstance(self.content, str):
            return _changed_content(self, change(self.content))
        return _changed_content(self, rewrite_parts(self.content, TextMapper(change)))


class AssistantMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """A model's answer: text, tool calls or both.

    *usage* counts tokens: by the names of `toolbus.formats.usage`, and in the provider's own terms.
    Changed parts of *reasoning* are not sent back (see `ReasoningPart`).

    >>> AssistantMessage(content="One moment.", tool_calls=(ToolCall(name="greet"),)).text
    'One moment.'
    """

    role: ClassVar[Literal["assistant"]] = "assistant"
    id: str = field(default_factory=default_id)
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: Reasoning = ()
    usage: JsonObject = EMPTY
    stop_reason: str | None = None
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not all_ascii(self.id, self.content):
            check_id(self)
            check_texts(self, "id", "content")
        if self.reasoning != ():
            freeze_reasoning(self, "reasoning")
        if self.stop_reason is not None:
            check_texts(self, "stop_reason")
        if self.tool_calls != ():
            freeze_items(self, "tool_calls", ToolCall)
        if not (type(self.usage) is type(self.metadata) is FrozenDict):
            freeze_objects(self, "usage", "metadata")

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.content

    @property
    def reasoning_text(self) -> str:
        """The reasoning text, as far as the provider shows it; one part per line."""
        return join_reasoning(self.reasoning)

    def with_text(self, text: str) -> AssistantMessage:
        """Return this message with *text* for its content; all other fields stay."""
        return replace(self, content=text)

    def map_text(self, change: Callable[[str], str]) -> AssistantMessage:
        """Return this message with *change* applied to its content; all other fields stay."""
        return _changed_content(self, change(self.content))


class ToolMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """The answer to one tool call.

    >>> response = ToolResponse("hello Jane")
    >>> ToolMessage(tool_call_id="c1", tool_name="greet", tool_response=response).text
    'hello Jane'
    """

    role: ClassVar[Literal["tool"]] = "tool"
    id: str = field(default_factory=default_id)
    content: str = ""
    tool_call_id: str
    tool_name: str
    tool_response: ToolResponse | None = None
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not all_ascii(self.id, self.content, self.tool_call_id, self.tool_name):
            check_id(self)
            check_texts(self, "id", "content", "tool_call_id", "tool_name")
        if self.tool_response is not None:
            check_kind(self, "tool_response", ToolResponse)
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @property
    def text(self) -> str:
        """The text for the model: of the response if there is one, else `content`."""
        return self.content if self.tool_response is None else self.tool_response.text

    def with_text(self, text: str) -> ToolMessage:
        """Return this message with *text* for the model: in its response, if there is one.

        Like `ToolResponse.with_text`, this replaces all parts and `structured`.
        """
        if self.tool_response is None:
            return replace(self, content=text)
        return self.with_tool_response(self.tool_response.with_text(text))

    def map_text(self, change: Callable[[str], str]) -> ToolMessage:
        """Return this message with *change* applied to every text that the model could read.

        See `ToolResponse.map_text`; without a response, *change* applies to `content`.
        """
        if self.tool_response is None:
            return _changed_content(self, change(self.content))
        mapped = self.tool_response.map_text(change)
        return self if mapped is self.tool_response else self.with_tool_response(mapped)

    def with_tool_response(self, response: ToolResponse) -> ToolMessage:
        """Return a new message that carries *response*; every other field is the same object."""
        if type(response) is not ToolResponse:
            return replace(self, tool_response=response)
        # All other fields were checked when this message was made, so the copy is not checked.
        new: ToolMessage = copied(self)
        force_setattr(new, "tool_response", response)
        return new


def _changed_content(message: M, content: object) -> M:
    """Return *message* with *content*; the same object if the content is equal."""
    return message if content == message.content else replace(message, content=content)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message of any role."""

_decode_json: Callable[[bytes | str], Message] = decoder(Message)
_decode_msgpack: Callable[[bytes], Message] = msgpack_decoder(Message)


def decode(data: bytes | str) -> Message:
    """Return the message encoded in the JSON *data*; raises `DecodeError`."""
    return _decode_json(data)


def decode_msgpack(data: bytes) -> Message:
    """Return the message encoded in the MessagePack *data*; raises `DecodeError`."""
    return _decode_msgpack(data)
