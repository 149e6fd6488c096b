"""The frozen records that agents exchange, and the way to bytes and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from msgspec.structs import force_setattr, replace

from toolbus.messages.codec import changed, decoder, encode, encode_msgpack, msgpack_decoder
from toolbus.messages.fields import (
    Record,
    are_plain,
    check_kind,
    check_texts,
    copied,
    freeze_items,
    freeze_json,
    freeze_objects,
)
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
from toolbus.messages.text_walker import TextMapper, rewrite_parts

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AssistantMessage",
    "AudioPart",
    "ImagePart",
    "JsonObject",
    "Message",
    "Part",
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


class ToolCall(Record, frozen=True, kw_only=True):
    """A tool call, as a model asked for it or as a handler rewrote it.

    *raw* is the model's own text of the arguments when that was no JSON object.
    """

    id: str
    name: str
    arguments: JsonObject = EMPTY
    raw: str | None = None

    def __post_init__(self) -> None:
        if not are_plain(self.id, self.name):
            check_texts(self, "id", "name")
        if self.raw is not None:
            check_texts(self, "raw")
        if type(self.arguments) is not FrozenDict:
            freeze_objects(self, "arguments")

    def with_arguments(self, arguments: JsonObject) -> Self:
        """Return this call with exactly *arguments*, and without `raw`."""
        return replace(self, arguments=arguments, raw=None)

    def merge_arguments(self, patch: JsonObject) -> Self:
        """Return this call with the items of *patch* laid over its arguments."""
        return self.with_arguments({**self.arguments, **patch})

    def without_arguments(self, *names: str) -> Self:
        """Return this call without the arguments *names*; names that it lacks are ignored."""
        remaining = {name: value for name, value in self.arguments.items() if name not in names}
        return self.with_arguments(remaining)


class ToolResponse(Record, frozen=True, kw_only=True):
    """What a tool returned; the lifecycle stamps the facts of the execution.

    *parameters* are those that the tool ran with, *structured* is any JSON value,
    *duration_ns* counts nanoseconds.
    """

    content: tuple[Part, ...] = ()
    structured: Any = None
    is_error: bool = False
    error_type: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    parameters: JsonObject | None = None
    duration_ns: int | None = None
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if self.content != ():
            freeze_parts(self, "content")
        if self.structured is not None:
            freeze_json(self, "structured")
        if self.is_error is not False:
            check_kind(self, "is_error", bool)
        if not (self.error_type is self.tool_name is self.tool_call_id is None):
            check_texts(self, "error_type", "tool_name", "tool_call_id", optional=True)
        if self.duration_ns is not None:
            check_kind(self, "duration_ns", int)
        if self.parameters is not None:
            freeze_objects(self, "parameters")
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @classmethod
    def from_text(
        cls, text: str, *, is_error: bool = False, error_type: str | None = None
    ) -> ToolResponse:
        """Return a response of one text part."""
        return cls(content=(TextPart(text=text),), is_error=is_error, error_type=error_type)

    @property
    def text(self) -> str:
        """Its text and resource parts, one a line; without any part, *structured* as JSON."""
        if not self.content and self.structured is not None:
            return encode(self.structured).decode()
        return join_text(self.content)

    def with_text(self, text: str) -> ToolResponse:
        """Return this response with one text part in place of all content and `structured`."""
        return replace(self, content=(TextPart(text=text),), structured=None)

    def map_text(self, change: Callable[[str], str]) -> ToolResponse:
        """Return this response with *change* applied to every text that the model could read.

        That is: text parts, texts of resources, base64 data of a type that is text (SVG is), and
        every string inside `structured`, keys too, for a secret may be a key; if nothing changes,
        the same object.
        """
        mapper = TextMapper(change)
        content, structured = rewrite_parts(self.content, mapper), mapper.json(self.structured)
        if content is self.content and structured is self.structured:
            return self
        return replace(self, content=content, structured=structured)


class SystemMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """Instructions to the model."""

    role: ClassVar[Literal["system"]] = "system"
    id: str
    content: str
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not are_plain(self.id, self.content):
            check_texts(self, "id", "content")
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @property
    def text(self) -> str:
        """What the model reads."""
        return self.content


class UserMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """What a person, or a program in a person's place, says."""

    role: ClassVar[Literal["user"]] = "user"
    id: str
    content: str | tuple[Part, ...]
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not are_plain(self.id, self.content):
            check_texts(self, "id")
            if isinstance(self.content, str):
                check_texts(self, "content")
            else:
                freeze_parts(self, "content")
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @property
    def text(self) -> str:
        """The text of its content, parts one a line."""
        return self.content if isinstance(self.content, str) else join_text(self.content)


class AssistantMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """A model's answer: text, tool calls or both; *usage* counts tokens in the model's terms."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    id: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    usage: JsonObject = EMPTY
    stop_reason: str | None = None
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not are_plain(self.id, self.content):
            check_texts(self, "id", "content")
        if not (self.reasoning is self.stop_reason is None):
            check_texts(self, "reasoning", "stop_reason", optional=True)
        if self.tool_calls != ():
            freeze_items(self, "tool_calls", ToolCall)
        if not (type(self.usage) is type(self.metadata) is FrozenDict):
            freeze_objects(self, "usage", "metadata")

    @property
    def text(self) -> str:
        """What the model said."""
        return self.content


class ToolMessage(Record, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """The answer to one tool call."""

    role: ClassVar[Literal["tool"]] = "tool"
    id: str
    content: str = ""
    tool_call_id: str
    tool_name: str
    tool_response: ToolResponse | None = None
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if not are_plain(self.id, self.content, self.tool_call_id, self.tool_name):
            check_texts(self, "id", "content", "tool_call_id", "tool_name")
        if self.tool_response is not None:
            check_kind(self, "tool_response", ToolResponse)
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @property
    def text(self) -> str:
        """What the model reads: the response's text if there is a response, else `content`."""
        return self.content if self.tool_response is None else self.tool_response.text

    def with_tool_response(self, response: ToolResponse) -> ToolMessage:
        """Return a new message that carries *response*; every other field is the same object."""
        if type(response) is not ToolResponse:
            return replace(self, tool_response=response)
        # All else was checked when this message was made, so the copy is not checked again.
        new: ToolMessage = copied(self)
        force_setattr(new, "tool_response", response)
        return new


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message of any role."""

_decode_json: Callable[[bytes | str], Message] = decoder(Message)
_decode_msgpack: Callable[[bytes], Message] = msgpack_decoder(Message)


def decode(data: bytes | str) -> Message:
    """Return the message that the JSON *data* holds; raises `DecodeError`."""
    return _decode_json(data)


def decode_msgpack(data: bytes) -> Message:
    """Return the message that the MessagePack *data* holds; raises `DecodeError`."""
    return _decode_msgpack(data)
