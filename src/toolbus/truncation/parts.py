"""The parts of a response: which have a text, and how large the others are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.messages.records import AudioPart, ImagePart, Part, Resource, ResourcePart, TextPart

if TYPE_CHECKING:
    from collections.abc import Sequence


def text_of(part: Part) -> str | None:
    """Return the text of a part; None if it has none."""
    match part:
        case TextPart(text=text):
            return text
        case ResourcePart(resource=Resource(text=text)):
            return text
    return None


def with_text(part: Part, text: str) -> Part:
    """Return *part* with *text* in place of its own."""
    if isinstance(part, ResourcePart):
        return ResourcePart(resource=replace(part.resource, text=text))
    return TextPart(text=text)


def as_one(parts: Sequence[Part], text: str) -> tuple[Part, ...]:
    """Return *parts* with *text* in place of the first text, and nothing for the others.

    Every part before the last that is no text stays in its place: a host may count them.
    """
    shortened: list[Part] = []
    for part in parts:
        if text_of(part) is None:
            shortened.append(part)
        else:
            shortened.append(TextPart(text=text))
            text = ""
    while isinstance(shortened[-1], TextPart) and not shortened[-1].text:
        shortened.pop()
    return tuple(shortened)


def size_of(part: Part) -> int:
    """Return how many bytes a part has that is no text; of a text 0."""
    match part:
        case ImagePart(data=data) | AudioPart(data=data):
            return len(data) * 3 // 4
        case ResourcePart(resource=Resource(blob=str(blob))):
            return len(blob) * 3 // 4
    return 0


def stand_in(part: Part) -> TextPart:
    """Return what stands for a part that is too large."""
    match part:
        case ImagePart(mime_type=kind):
            what = "An image"
        case AudioPart(mime_type=kind):
            what = "A sound"
        case ResourcePart(resource=resource):
            what, kind = "A resource", resource.mime_type or ""
        case _:
            what, kind = "A text", ""
    of_type = f" of type {kind[:100]}" if kind else ""
    return TextPart(text=f"[{what}{of_type}, {size_of(part):,} bytes, left out]")
