"""The pieces of content, in the shapes of MCP content blocks."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from toolbus.messages.fields import Record, are_plain, check_kind, check_texts, freeze_items


class TextPart(Record, frozen=True, tag_field="type", tag="text"):
    """Text: `TextPart("…")`.

    >>> TextPart("hello").text
    'hello'
    """

    type: ClassVar[Literal["text"]] = "text"
    text: str

    def __post_init__(self) -> None:
        if not are_plain(self.text):
            check_texts(self, "text")


class ImagePart(Record, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image: base64 *data* of the type *mime_type*.

    >>> ImagePart(data="iVBORw0KGgo=", mime_type="image/png").mime_type
    'image/png'
    """

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str = msgspec.field(name="mimeType")

    def __post_init__(self) -> None:
        check_texts(self, "data", "mime_type")


class AudioPart(Record, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound: base64 *data* of the type *mime_type*."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str
    mime_type: str = msgspec.field(name="mimeType")

    def __post_init__(self) -> None:
        check_texts(self, "data", "mime_type")


class Resource(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a `ResourcePart` holds: *text*, or a base64 *blob*, found at *uri*."""

    uri: str
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    text: str | None = None
    blob: str | None = None

    def __post_init__(self) -> None:
        check_texts(self, "uri")
        check_texts(self, "mime_type", "text", "blob", optional=True)


class ResourcePart(Record, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """An embedded resource."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: Resource

    def __post_init__(self) -> None:
        check_kind(self, "resource", Resource)


Part: TypeAlias = TextPart | ImagePart | AudioPart | ResourcePart
"""A piece of content."""

_KINDS = get_args(Part)


def freeze_parts(record: Struct, field: str) -> None:
    """Make a tuple of the sequence of parts in *field*."""
    freeze_items(record, field, _KINDS)


def freeze_content(record: Struct, field: str) -> None:
    """Make a tuple of parts of *field*, which may hold a text or a sequence of parts."""
    if isinstance(getattr(record, field), str):
        check_texts(record, field)
        force_setattr(record, field, (TextPart(getattr(record, field)),))
    else:
        freeze_parts(record, field)


def join_text(parts: tuple[Part, ...]) -> str:
    """Return the texts of text parts and resources, one a line."""
    texts = [
        part.text if isinstance(part, TextPart) else part.resource.text
        for part in parts
        if isinstance(part, TextPart | ResourcePart)
    ]
    return "\n".join([text for text in texts if text is not None])
