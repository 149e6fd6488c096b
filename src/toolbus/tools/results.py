"""What a tool gave back, as the response that handlers and models read."""

from __future__ import annotations

from typing import Any

import msgspec

from toolbus.errors import FreezeError
from toolbus.messages.immutable import mend, mend_text
from toolbus.messages.records import AudioPart, ImagePart, ResourcePart, TextPart, ToolResponse

_PARTS = (TextPart, ImagePart, AudioPart, ResourcePart)


def to_response(result: Any) -> ToolResponse:
    """Return *result* as a response: text, parts, or else structured JSON; None is empty.

    Half a character becomes U+FFFD. Raises `FreezeError` or `TypeError` for what is no JSON.
    """
    match result:
        case ToolResponse():
            return result
        case None:
            return ToolResponse()
        case str():
            # A subclass's text, exactly: nobody could encode the subclass.
            return ToolResponse.from_text(mend_text(str.__str__(result)))
        case TextPart() | ImagePart() | AudioPart() | ResourcePart():
            return ToolResponse(content=(result,))
        case list() | tuple() if result and all(isinstance(part, _PARTS) for part in result):
            return ToolResponse(content=tuple(result))
    structured = msgspec.to_builtins(result, str_keys=True)
    try:
        return ToolResponse(structured=structured)
    except FreezeError:
        # Mended only now, since most need it not, and it walks through all of it.
        return ToolResponse(structured=mend(structured))
