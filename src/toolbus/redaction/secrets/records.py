"""Where texts stand in records, so that a pen can look at them or write them anew."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from operator import is_
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec.structs import replace

from toolbus.messages.records import (
    AssistantMessage,
    Part,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

if TYPE_CHECKING:
    from msgspec import Struct

    from toolbus.messages.records import Message

S = TypeVar("S", bound="Struct")


class Pen(Protocol):
    """What goes over the texts of a record."""

    def texts(self, *adjoining: str) -> tuple[str, ...]:
        """Return what is to stand there instead of texts that follow each other."""

    def json(self, value: Any) -> Any:
        """Return what is to stand there instead of a JSON value."""


def pass_response(response: ToolResponse, pen: Pen) -> ToolResponse:
    """Return *response* as *pen* leaves it; the same object if nothing changes."""
    return _with(
        response,
        content=_parts(response.content, pen),
        structured=pen.json(response.structured),
        parameters=pen.json(response.parameters),
        metadata=pen.json(response.metadata),
        error_type=_text(response.error_type, pen),
    )


def pass_parameters(message: Message, pen: Pen) -> Message:
    """Return *message* with the facts of the call that it answers as *pen* leaves them."""
    if not isinstance(message, ToolMessage) or message.tool_response is None:
        return message
    response = message.tool_response
    parameters = pen.json(response.parameters)
    return _with(message, tool_response=_with(response, parameters=parameters))


def pass_call(call: ToolCall, pen: Pen) -> ToolCall:
    """Return *call* as *pen* leaves it."""
    return _with(call, arguments=pen.json(call.arguments), raw=_text(call.raw, pen))


def pass_message(message: Message, pen: Pen, done: ToolResponse | None = None) -> Message:
    """Return *message*, of any role, as *pen* leaves it; the response *done* is clean already."""
    metadata = pen.json(message.metadata)
    match message:
        case UserMessage(content=tuple() as content):
            return _with(message, content=_parts(content, pen), metadata=metadata)
        case UserMessage(content=str() as text) | SystemMessage(content=text):
            return _with(message, content=_text(text, pen), metadata=metadata)
        case AssistantMessage():
            calls = tuple([pass_call(call, pen) for call in message.tool_calls])
            same = all(map(is_, calls, message.tool_calls))
            return _with(
                message,
                content=_text(message.content, pen),
                reasoning=_text(message.reasoning, pen),
                tool_calls=message.tool_calls if same else calls,
                metadata=metadata,
            )
        case ToolMessage(tool_response=response):
            said = response if response is done else _said(response, pen)
            content = _text(message.content, pen)
            return _with(message, content=content, tool_response=said, metadata=metadata)
    return message


def _said(response: ToolResponse | None, pen: Pen) -> ToolResponse | None:
    return None if response is None else pass_response(response, pen)


def _with(record: S, **fields: object) -> S:
    """Return *record* with *fields*; the same object if it has them already."""
    new = {name: value for name, value in fields.items() if value is not getattr(record, name)}
    return replace(record, **new) if new else record


def _text(text: str | None, pen: Pen) -> Any:
    return pen.texts(text)[0] if text else text


def _parts(parts: tuple[Part, ...], pen: Pen) -> tuple[Part, ...]:
    texts = [text for part in parts if (text := _text_of(part)) is not None]
    new = iter(pen.texts(*texts) if texts else ())
    made = tuple(
        [_part(part, pen, None if _text_of(part) is None else next(new)) for part in parts]
    )
    return parts if all(map(is_, made, parts)) else made


def _text_of(part: Part) -> str | None:
    match part:
        case TextPart(text=text) | ResourcePart(resource=Resource(text=text)):
            return text
    return None


def _part(part: Part, pen: Pen, text: str | None) -> Part:
    match part:
        case TextPart():
            return _with(part, text=text)
        case ResourcePart(resource=resource):
            blob, uri = _blob(resource.blob, pen), _text(resource.uri, pen)
            return _with(part, resource=_with(resource, uri=uri, text=text, blob=blob))
    return part


def _blob(blob: str | None, pen: Pen) -> str | None:
    """Return *blob* as *pen* leaves the text in it; what is no text in UTF-8 stays as it is."""
    if not blob:
        return blob
    try:
        text = b64decode(blob).decode()
    except (Base64Error, UnicodeDecodeError):
        return blob
    new = _text(text, pen)
    return blob if new is text else b64encode(new.encode()).decode()
