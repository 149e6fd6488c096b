"""Images, documents and other parts that are no text, as data URIs, addresses and words."""

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
"""The type of an image at an address, of which no more is known."""

UNNAMED = "document"
"""The URI of a document that has no name."""

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+*-]+);base64,")
_BLOCK = "block:"


def image_at(uri: str) -> Part:
    """Return the image at *uri*, or the one that it holds."""
    if match := _DATA_URI.match(uri):
        return ImagePart(data=uri[match.end() :], mime_type=match[1])
    return ResourcePart(resource=Resource(uri=uri, mime_type=ANY_IMAGE))


def document_in(uri: str, name: object) -> Part | None:
    """Return the document called *name* that the data URI holds, None if it is no such URI."""
    if match := _DATA_URI.match(uri):
        name = name if isinstance(name, str) and name else UNNAMED
        resource = Resource(uri=name, mime_type=match[1], blob=uri[match.end() :])
        return ResourcePart(resource=resource)
    return None


def data_uri(mime_type: str | None, data: str) -> str:
    """Return the base64 *data* as a URI (RFC 2397)."""
    return f"data:{mime_type or 'application/octet-stream'};base64,{data}"


def image_address(part: Part) -> str | None:
    """Return the address of *part*, or a data URI, if it is an image."""
    match part:
        case ImagePart(data=data, mime_type=mime_type):
            return data_uri(mime_type, data)
        case ResourcePart(resource=Resource(mime_type=str(mime_type)) as resource):
            if not mime_type.startswith("image/") or resource.text is not None:
                return None
            if resource.blob is not None:
                return data_uri(mime_type, resource.blob)
            return resource.uri if is_on_the_web(resource.uri) else None
    return None


def is_on_the_web(uri: str) -> bool:
    """Tell whether a provider could fetch *uri*."""
    return uri.startswith(("https://", "http://"))


def file_name(resource: Resource) -> str:
    """Return the name of the file that *resource* is: the end of its URI."""
    name = resource.uri.split("?", 1)[0].rstrip("/").rpartition("/")[2]
    return name or UNNAMED


def foreign_part(kind: str, block: Any) -> ResourcePart:
    """Return content that has no counterpart here, as JSON."""
    text = encode(block).decode()
    return ResourcePart(
        resource=Resource(uri=f"{_BLOCK}{kind}", mime_type="application/json", text=text)
    )


def foreign_block(part: Part, kinds: Container[str]) -> dict[str, Any] | None:
    """Return what `foreign_part` was given, if *part* is of that and of one of the *kinds*.

    Others are text: who can write a part, a tool among them, must not write a block of any kind.
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


def as_words(part: Part) -> str:
    """Return the text of *part*, or what is said where it cannot stand."""
    match part:
        case TextPart(text=text) | ResourcePart(resource=Resource(text=str(text))):
            return text
        case ImagePart(data=data, mime_type=kind) | AudioPart(data=data, mime_type=kind):
            return f"[{kind}, {_size(data)}: this model cannot be shown it]"
        case ResourcePart(resource=Resource(blob=str(data)) as resource):
            kind = resource.mime_type or "data"
            return f"[{file_name(resource)}, {kind}, {_size(data)}: this model cannot be shown it]"
        case ResourcePart(resource=resource):
            return f"[{resource.uri}]"
    raise TypeError(part)


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4} bytes"
