"""Images, documents and foreign parts as data URIs, URLs and text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError
from toolbus.formats.json_input import parse
from toolbus.messages.parts import AudioPart, ImagePart, Part, Resource, ResourcePart, TextPart
from toolbus.messages.records import encode

if TYPE_CHECKING:
    from collections.abc import Container

ANY_IMAGE = "image/*"
"""The media type of an image at a URL whose type is unknown."""

UNNAMED = "document"
"""The URI of a document without a name."""

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+*-]+);base64,")
_BLOCK = "block:"


def image_from(uri: str) -> Part:
    """Return the image at *uri*, a URL or a data URI."""
    if match := _DATA_URI.match(uri):
        return ImagePart(data=uri[match.end() :], mime_type=match[1])
    return ResourcePart(resource=Resource(uri=uri, mime_type=ANY_IMAGE))


def document_from(uri: str, name: object) -> Part | None:
    """Return the document *name* in the data URI *uri*, None for any other URI."""
    if match := _DATA_URI.match(uri):
        name = name if isinstance(name, str) and name else UNNAMED
        resource = Resource(uri=name, mime_type=match[1], blob=uri[match.end() :])
        return ResourcePart(resource=resource)
    return None


def data_uri(mime_type: str | None, data: str) -> str:
    """Return the base64 *data* as a data URI (RFC 2397)."""
    return f"data:{mime_type or 'application/octet-stream'};base64,{data}"


def image_url_of(part: Part) -> str | None:
    """Return the URL of *part*, or a data URI, None if it is not an image."""
    match part:
        case ImagePart(data=data, mime_type=mime_type):
            return data_uri(mime_type, data)
        case ResourcePart(resource=Resource(mime_type=str(mime_type)) as resource):
            if not mime_type.startswith("image/") or resource.text is not None:
                return None
            if resource.blob is not None:
                return data_uri(mime_type, resource.blob)
            return resource.uri if is_web_url(resource.uri) else None
    return None


def is_web_url(uri: str) -> bool:
    """Return whether a provider could fetch *uri*."""
    return uri.startswith(("https://", "http://"))


def file_name(resource: Resource) -> str:
    """Return the file name of *resource*: the last segment of its URI."""
    name = resource.uri.split("?", 1)[0].rstrip("/").rpartition("/")[2]
    return name or UNNAMED


def foreign_part(kind: str, block: Any) -> ResourcePart:
    """Return a block without a counterpart here as a resource with its JSON."""
    text = encode(block).decode()
    return ResourcePart(
        resource=Resource(uri=f"{_BLOCK}{kind}", mime_type="application/json", text=text)
    )


def foreign_block(part: Part, kinds: Container[str]) -> dict[str, Any] | None:
    """Return the block given to `foreign_part`, if *part* is from there and of one of *kinds*.

    The kinds are limited, because a tool can write such a part itself, and must not thereby send
    any block to the provider.
    """
    match part:
        case ResourcePart(resource=Resource(uri=uri, text=str(text))) if uri.startswith(_BLOCK):
            kind = uri.removeprefix(_BLOCK)
            try:
                block = parse(text) if kind in kinds else None
            except DecodeError:
                return None
            return block if isinstance(block, dict) and block.get("type") == kind else None
    return None


def as_text(part: Part) -> str:
    """Return the text of *part*, or a note in place of data that a model cannot read."""
    match part:
        case TextPart(text=text) | ResourcePart(resource=Resource(text=str(text))):
            return text
        case ImagePart(data=data, mime_type=kind) | AudioPart(data=data, mime_type=kind):
            return f"[{kind}, {_size(data)}: not supported by this model]"
        case ResourcePart(resource=Resource(blob=str(data)) as resource):
            kind = resource.mime_type or "data"
            return f"[{file_name(resource)}, {kind}, {_size(data)}: not supported by this model]"
        case ResourcePart(resource=resource):
            return f"[{resource.uri}]"
    raise TypeError(part)


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4} bytes"
