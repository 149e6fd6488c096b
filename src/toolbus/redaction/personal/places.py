"""Where texts are in responses, calls and messages, and the same with other texts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolbus.messages.immutable import FrozenDict, freeze
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
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
    from toolbus.messages.records import Message

S = TypeVar("S", bound=Struct)
Change: TypeAlias = Callable[[str, str], str]
"""Returns another text in place of one; the second argument is what stands before it."""

_LEAST_NUMBER = 1_000_000
"""A number with fewer digits is nobody's."""

_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "image/svg")


def change_response(response: ToolResponse, change: Change, *, keep_binary: bool) -> ToolResponse:
    """Return *response* with its texts changed; the same object if nothing did.

    Parts that hold no text are withheld unless *keep_binary*.
    """
    content = tuple([_change_part(part, change, keep=keep_binary) for part in response.content])
    fields: dict[str, Any] = {
        "structured": change_json(response.structured, change),
        "metadata": change_json(response.metadata, change),
        "error_type": _changed(response.error_type, change),
    }
    if not all(map(is_, content, response.content)):
        fields["content"] = content
    return _replaced(response, fields)


def change_call(call: ToolCall, change: Change) -> ToolCall:
    """Return *call* with the texts of its arguments changed."""
    arguments = change_json(call.arguments, change)
    return _replaced(call, {"arguments": arguments, "raw": _changed(call.raw, change)})


def change_message(
    message: Message, change: Change, covers: Callable[[str], bool], *, keep_binary: bool
) -> Message:
    """Return *message* with all its texts changed; what belongs to a tool only if it *covers*."""
    fields: dict[str, Any] = {"metadata": change_json(message.metadata, change)}
    match message:
        case ToolMessage() if not covers(message.tool_name):
            return message
        case ToolMessage(tool_response=ToolResponse() as response):
            changed = change_response(response, change, keep_binary=keep_binary)
            parameters = change_json(response.parameters, change)
            fields["tool_response"] = _replaced(changed, {"parameters": parameters})
            fields["content"] = _changed(message.content, change)
        case UserMessage(content=tuple(parts)):
            content = tuple([_change_part(part, change, keep=True) for part in parts])
            fields["content"] = parts if all(map(is_, content, parts)) else content
        case AssistantMessage(tool_calls=calls):
            asked = [change_call(one, change) if covers(one.name) else one for one in calls]
            fields["tool_calls"] = calls if all(map(is_, asked, calls)) else tuple(asked)
            fields["content"] = _changed(message.content, change)
            fields["reasoning"] = _changed(message.reasoning, change)
        case SystemMessage(content=str(text)) | UserMessage(content=str(text)):
            fields["content"] = _changed(text, change)
        case ToolMessage(content=text):
            fields["content"] = _changed(text, change)
    return _replaced(message, fields)


def change_json(value: Any, change: Change, hint: str = "") -> Any:
    """Return a frozen JSON *value* with its texts, keys and long numbers changed."""
    match value:
        case str():
            return _changed(value, change, hint)
        case int() if abs(value) >= _LEAST_NUMBER:
            text = str(value)
            return value if (new := change(text, hint)) == text else new
        case tuple():
            items = tuple([change_json(item, change, hint) for item in value])
            return value if all(map(is_, items, value)) else items
        case FrozenDict():
            return _change_object(value, change)
    return value


def _change_object(value: FrozenDict, change: Change) -> Any:
    changed: dict[str, Any] = {}
    same = True
    for key, item in value.items():
        name, new = change(key, ""), change_json(item, change, key)
        same = same and name == key and new is item
        # Two spellings of one address are one placeholder, and still two keys.
        unique, count = name, 1
        while unique in changed:
            count += 1
            unique = f"{name} ({count})"
        changed[unique] = new
    return value if same else freeze(changed)


def _change_part(part: Part, change: Change, *, keep: bool) -> Part:
    match part:
        case TextPart(text=text):
            return part if (new := change(text, "")) == text else TextPart(text=new)
        case ResourcePart(resource=resource):
            return _change_resource(part, resource, change, keep=keep)
        case ImagePart(mime_type=kind) | AudioPart(mime_type=kind) if not keep:
            return _withheld(kind, change)
    return part


def _change_resource(part: ResourcePart, resource: Resource, change: Change, *, keep: bool) -> Part:
    fields: dict[str, Any] = {
        "uri": _changed(resource.uri, change),
        "text": _changed(resource.text, change),
    }
    kind = resource.mime_type or ""
    if resource.blob is not None and kind.startswith(_TEXTS):
        try:
            text = b64decode(resource.blob, validate=True).decode()
        except ValueError:
            return _withheld(kind, change)
        if (new := change(text, "")) != text:
            fields["blob"] = b64encode(new.encode()).decode()
    elif resource.blob is not None and not keep:
        return _withheld(kind, change)
    changed = _replaced(resource, fields)
    return part if changed is resource else ResourcePart(resource=changed)


def _withheld(kind: str, change: Change) -> TextPart:
    what = change(kind[:100], "") or "unknown type"
    return TextPart(text=f"[A part of {what} was withheld: what is no text cannot be examined.]")


def _changed(text: str | None, change: Change, hint: str = "") -> Any:
    """Return *text* changed; the same object if it is equal."""
    if not text:
        return text
    new = change(text, hint)
    return text if new == text else new


def _replaced(record: S, fields: dict[str, Any]) -> S:
    """Return *record* with *fields*; itself if they are the objects that it has."""
    new = {name: value for name, value in fields.items() if value is not getattr(record, name)}
    return replace(record, **new) if new else record
