"""The frozen records that agents exchange, and their codec."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from operator import is_ as _is
from typing import Any, ClassVar, Literal, Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from toolbus.errors import DecodeError, FreezeError
from toolbus.immutable import EMPTY, FrozenDict, check_text, freeze, freeze_object

T = TypeVar("T")

JsonObject = Mapping[str, Any]
"""A JSON object; inside a record it is a `FrozenDict`, so assigning to its items raises."""


class TextPart(Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text, as in an MCP content block."""

    type: ClassVar[Literal["text"]] = "text"
    text: str

    def __post_init__(self) -> None:
        check_text(self.text, "$.text")


class ImagePart(Struct, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image: base64 *data* of the type *mime_type*, as in an MCP content block."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str = msgspec.field(name="mimeType")

    def __post_init__(self) -> None:
        _check_texts(self, ("data", "mime_type"))


class AudioPart(Struct, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound: base64 *data* of the type *mime_type*, as in an MCP content block."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str
    mime_type: str = msgspec.field(name="mimeType")

    def __post_init__(self) -> None:
        _check_texts(self, ("data", "mime_type"))


class Resource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a `ResourcePart` holds: *text*, or a base64 *blob*, found at *uri*."""

    uri: str
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    text: str | None = None
    blob: str | None = None

    def __post_init__(self) -> None:
        _check_texts(self, ("uri",))
        _check_texts(self, ("mime_type", "text", "blob"), optional=True)


class ResourcePart(Struct, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """An embedded resource, as in an MCP content block."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: Resource

    def __post_init__(self) -> None:
        _check_type(self.resource, Resource, "$.resource")


Part = TextPart | ImagePart | AudioPart | ResourcePart
"""A piece of content."""


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call, as a model asked for it or as a handler rewrote it.

    *raw* is the model's own text of the arguments when that was no JSON object.
    """

    id: str
    name: str
    arguments: JsonObject = EMPTY
    raw: str | None = None

    def __post_init__(self) -> None:
        _check_texts(self, ("id", "name"))
        _check_texts(self, ("raw",), optional=True)
        _freeze_objects(self, ("arguments",))

    def with_arguments(self, arguments: JsonObject) -> Self:
        """Return this call with exactly *arguments*, and without `raw`."""
        return replace(self, arguments=arguments, raw=None)

    def merge_arguments(self, patch: JsonObject) -> Self:
        """Return this call with the items of *patch* laid over its arguments."""
        return self.with_arguments({**self.arguments, **patch})

    def without_arguments(self, *names: str) -> Self:
        """Return this call without the arguments *names*; names that it lacks are ignored."""
        kept = {name: value for name, value in self.arguments.items() if name not in names}
        return self.with_arguments(kept)


class ToolResponse(Struct, frozen=True, kw_only=True):
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
        _freeze_parts(self, "content")
        if self.structured is not None:
            force_setattr(self, "structured", freeze(self.structured, "$.structured"))
        _check_type(self.is_error, bool, "$.is_error")
        _check_texts(self, ("error_type", "tool_name", "tool_call_id"), optional=True)
        if self.duration_ns is not None:
            _check_type(self.duration_ns, int, "$.duration_ns")
        if self.parameters is not None:
            _freeze_objects(self, ("parameters",))
        _freeze_objects(self, ("metadata",))

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
            return msgspec.json.encode(self.structured).decode()
        return _text_of(self.content)

    def with_text(self, text: str) -> ToolResponse:
        """Return this response with one text part in place of all content and `structured`."""
        return replace(self, content=(TextPart(text=text),), structured=None)

    def map_text(self, change: Callable[[str], str]) -> ToolResponse:
        """Return this response with *change* applied to every text that the model could read.

        That is: text parts, texts of resources, and every string value inside `structured`; if
        nothing changes, the same object.
        """
        content = tuple([_map_part(part, change) for part in self.content])
        structured = _map_json(self.structured, change)
        if structured is self.structured and all(map(_is, content, self.content)):
            return self
        return replace(self, content=content, structured=structured)


class SystemMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """Instructions to the model."""

    role: ClassVar[Literal["system"]] = "system"
    id: str
    content: str
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        _check_texts(self, ("id", "content"))
        _freeze_objects(self, ("metadata",))

    @property
    def text(self) -> str:
        """What the model reads."""
        return self.content


class UserMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """What a person, or a program in a person's place, says."""

    role: ClassVar[Literal["user"]] = "user"
    id: str
    content: str | tuple[Part, ...]
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        _check_texts(self, ("id",))
        if isinstance(self.content, str):
            check_text(self.content, "$.content")
        else:
            _freeze_parts(self, "content")
        _freeze_objects(self, ("metadata",))

    @property
    def text(self) -> str:
        """The text of its content, parts one a line."""
        return self.content if isinstance(self.content, str) else _text_of(self.content)


class AssistantMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """A model's answer: text, tool calls or both; *usage* counts tokens, as the model names them."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    id: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    usage: JsonObject = EMPTY
    stop_reason: str | None = None
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        _check_texts(self, ("id", "content"))
        _check_texts(self, ("reasoning", "stop_reason"), optional=True)
        _freeze_items(self, "tool_calls", ToolCall)
        _freeze_objects(self, ("usage", "metadata"))

    @property
    def text(self) -> str:
        """What the model said."""
        return self.content


class ToolMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """The answer to one tool call."""

    role: ClassVar[Literal["tool"]] = "tool"
    id: str
    content: str = ""
    tool_call_id: str
    tool_name: str
    tool_response: ToolResponse | None = None
    metadata: JsonObject = EMPTY

    def __post_init__(self) -> None:
        _check_texts(self, ("id", "content", "tool_call_id", "tool_name"))
        if self.tool_response is not None:
            _check_type(self.tool_response, ToolResponse, "$.tool_response")
        _freeze_objects(self, ("metadata",))

    @property
    def text(self) -> str:
        """What the model reads: the response's text if there is a response, else `content`."""
        return self.content if self.tool_response is None else self.tool_response.text

    def with_tool_response(self, response: ToolResponse) -> ToolMessage:
        """Return a new message that carries *response*; every other field is the same object."""
        return replace(self, tool_response=response)


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message of any role."""

_encode_json = msgspec.json.Encoder().encode
_encode_msgpack = msgspec.msgpack.Encoder().encode
_decode_json: Callable[[bytes | str], Message] = msgspec.json.Decoder(Message).decode
_decode_msgpack: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode


def encode(record: Any) -> bytes:
    """Return *record*, a message or any other record, as JSON."""
    return _encode_json(record)


def decode(data: bytes | str) -> Message:
    """Return the message that the JSON *data* holds; raises `DecodeError`."""
    return _decoded(_decode_json, data)


def encode_msgpack(record: Any) -> bytes:
    """Return *record*, a message or any other record, as MessagePack."""
    return _encode_msgpack(record)


def decode_msgpack(data: bytes) -> Message:
    """Return the message that the MessagePack *data* holds; raises `DecodeError`."""
    return _decoded(_decode_msgpack, data)


def decoder(kind: type[T]) -> Callable[[bytes | str], T]:
    """Return a function that decodes the JSON of one *kind* of record, as `decode` does."""
    return partial(_decoded, msgspec.json.Decoder(kind).decode)


def changed(before: Any, after: Any) -> bool:
    """Tell whether two records differ: by identity, then by encoding, so 1, True and 1.0 do."""
    return before is not after and _encode_json(before) != _encode_json(after)


_OFFSET = re.compile(r"^(?P<reason>.*) \(byte (?P<offset>\d+)\)$", re.DOTALL)


def _decoded(decode: Callable[[Any], T], data: bytes | str) -> T:
    try:
        return decode(data)
    except RecursionError:
        reason, path = "nested too deeply", "$"
        raise DecodeError(reason, path) from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"expected UTF-8, {error.reason}", None, error.start) from None
    except msgspec.ValidationError as error:
        raise _decode_error(str(error)) from None
    except msgspec.DecodeError as error:
        if found := _OFFSET.match(str(error)):
            raise DecodeError(found["reason"], None, int(found["offset"])) from None
        raise DecodeError("input data was truncated", None, len(data)) from None


def _decode_error(text: str) -> DecodeError:
    # Our own checks put their path into msgspec's message, and msgspec appends the outer one.
    inner_first = re.findall(r" - at `\$?([^`]*)`", text)
    reason = text.split(" - at `")[0]
    return DecodeError(reason[:1].lower() + reason[1:], "$" + "".join(reversed(inner_first)))


def _check_type(value: Any, expected: type, path: str) -> None:
    if type(value) is not expected:
        reason = f"expected `{expected.__name__}`, got `{type(value).__name__}`"
        raise FreezeError(reason, path)


def _check_texts(record: Struct, fields: tuple[str, ...], *, optional: bool = False) -> None:
    for field in fields:
        value = getattr(record, field)
        if not (optional and value is None):
            check_text(value, f"$.{field}")


def _freeze_objects(record: Struct, fields: tuple[str, ...]) -> None:
    for field in fields:
        value = getattr(record, field)
        if type(value) is not FrozenDict:
            force_setattr(record, field, freeze_object(value, f"$.{field}"))


def _freeze_parts(record: Struct, field: str) -> None:
    _freeze_items(record, field, (TextPart, ImagePart, AudioPart, ResourcePart))


def _freeze_items(record: Struct, field: str, kinds: type | tuple[type, ...]) -> None:
    items = getattr(record, field)
    if not isinstance(items, tuple | list):
        raise FreezeError(f"expected array, got `{type(items).__name__}`", f"$.{field}")
    for index, item in enumerate(items):
        if not isinstance(item, kinds):
            reason = f"`{type(item).__name__}` does not belong here"
            raise FreezeError(reason, f"$.{field}[{index}]")
    if type(items) is not tuple:
        force_setattr(record, field, tuple(items))


def _text_of(parts: tuple[Part, ...]) -> str:
    texts = [
        part.text if isinstance(part, TextPart) else part.resource.text
        for part in parts
        if isinstance(part, TextPart | ResourcePart)
    ]
    return "\n".join([text for text in texts if text is not None])


def _map_part(part: Part, change: Callable[[str], str]) -> Part:
    match part:
        case TextPart(text=text) if (new := change(text)) != text:
            return TextPart(text=new)
        case ResourcePart(resource=Resource(text=str(text)) as resource) if (
            new := change(text)
        ) != text:
            return ResourcePart(resource=replace(resource, text=new))
    return part


def _map_json(value: Any, change: Callable[[str], str]) -> Any:
    """Map the strings in *value*, keys too, for a secret may be a key; unchanged: the same object."""
    match value:
        case str():
            return value if (new := change(value)) == value else new
        case tuple():
            items = tuple([_map_json(item, change) for item in value])
            return value if all(map(_is, items, value)) else items
        case FrozenDict():
            mapped = {change(key): _map_json(item, change) for key, item in value.items()}
            same = list(mapped) == list(value) and all(map(_is, mapped.values(), value.values()))
            return value if same else freeze(mapped)
    return value
