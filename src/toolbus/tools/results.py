"""What a tool gave back, as the response that handlers and models read."""

from __future__ import annotations

from typing import Any

import msgspec

from toolbus.messages import AudioPart, ImagePart, ResourcePart, TextPart, ToolResponse

_PARTS = (TextPart, ImagePart, AudioPart, ResourcePart)


def to_response(result: Any) -> ToolResponse:
    """Return *result* as a response: text, parts, or else structured JSON; None is empty.

    Raises `FreezeError` or `TypeError` for what is no JSON.
    """
    match result:
        case ToolResponse():
            return result
        case None:
            return ToolResponse()
        case str():
            # A subclass's text, exactly: nobody could encode the subclass.
            return ToolResponse.from_text(str.__str__(result))
        case TextPart() | ImagePart() | AudioPart() | ResourcePart():
            return ToolResponse(content=(result,))
        case list() | tuple() if result and all(isinstance(one, _PARTS) for one in result):
            return ToolResponse(content=tuple(result))
    return ToolResponse(structured=msgspec.to_builtins(result, str_keys=True))
