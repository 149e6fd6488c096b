"""The parts of content, in the shapes of MCP content blocks."""

from __future__ import annotations

from base64 import b64encode
from typing import ClassVar, Literal, Self, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from toolbus.errors import FreezeError
from toolbus.messages.fields import Record, all_ascii, check_kind, check_texts, freeze_items


class TextPart(Record, frozen=True, tag_field="type", tag="text"):
    """Text: `TextPart("…")`.

    >>> TextPart("hello").text
    'hello'
    """

    type: ClassVar[Literal["text"]] = "text"
    text: str

    def __post_init__(self) -> None:
        if not all_ascii(self.text):
            check_texts(self, "text")


class MediaPart(Record, frozen=True, kw_only=True):
    """The fields of images and sounds: base64 *data* of the type *mime_type*."""

    is_open: ClassVar[bool] = True
    data: str
    mime_type: str = msgspec.field(name="mimeType")

    def __post_init__(self) -> None:
        check_base64(self, "data")
        check_texts(self, "data", "mime_type")

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> Self:
        """Return a part with *data*, the bytes of a file of the type *mime_type*."""
        return cls(data=b64encode(data).decode(), mime_type=mime_type)


class ImagePart(MediaPart, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image: base64 *data* of the type *mime_type*, or `from_bytes`.

    >>> ImagePart.from_bytes(b"GIF89a", "image/gif").data
    'R0lGODlh'
    """

    type: ClassVar[Literal["image"]] = "image"


class AudioPart(MediaPart, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound: base64 *data* of the type *mime_type*, or `from_bytes`."""

    type: ClassVar[Literal["audio"]] = "audio"


class Resource(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a `ResourcePart`: *text*, or a base64 *blob*, from *uri*."""

    uri: str
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    text: str | None = None
    blob: str | None = None

    def __post_init__(self) -> None:
        check_base64(self, "blob")
        check_texts(self, "uri")
        check_texts(self, "mime_type", "text", "blob", optional=True)

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str, *, uri: str) -> Self:
        """Return a resource with the bytes *data* from *uri* as its blob."""
        return cls(uri=uri, mime_type=mime_type, blob=b64encode(data).decode())


class ResourcePart(Record, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """An embedded resource."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: Resource

    def __post_init__(self) -> None:
        check_kind(self, "resource", Resource)


Part: TypeAlias = TextPart | ImagePart | AudioPart | ResourcePart
"""A part of content."""

_KINDS = get_args(Part)


def check_base64(record: Struct, field: str) -> None:
    """Raise `FreezeError` if *field* holds bytes that are not encoded in base64."""
    value = getattr(record, field)
    if isinstance(value, bytes | bytearray | memoryview):
        reason = f"expected base64 text, got `{type(value).__name__}`"
        raise FreezeError(f"{reason}; use `{type(record).__name__}.from_bytes`", f"$.{field}")


def freeze_parts(record: Struct, field: str) -> None:
    """Replace the sequence of parts in *field* with a tuple."""
    freeze_items(record, field, _KINDS)


def freeze_content(record: Struct, field: str) -> None:
    """Replace the text or the sequence of parts in *field* with a tuple of parts."""
    if isinstance(getattr(record, field), str):
        check_texts(record, field)
        force_setattr(record, field, (TextPart(getattr(record, field)),))
    else:
        freeze_parts(record, field)


def text_of(part: Part) -> str | None:
    """Return the text of a text part or a resource; None for a part without one."""
    if isinstance(part, TextPart):
        return part.text
    return part.resource.text if isinstance(part, ResourcePart) else None


def join_text(parts: tuple[Part, ...]) -> str:
    """Return the texts of text parts and resources, one per line."""
    return "\n".join([text for part in parts if (text := text_of(part)) is not None])
