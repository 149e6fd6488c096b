"""What becomes of the texts of a record when personal data is looked for in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.messages.blobs import text_in
from toolbus.messages.parts import Part, ResourcePart, TextPart
from toolbus.messages.text_walker import TextVisitor, is_text_type, rewrite_json

if TYPE_CHECKING:
    from collections.abc import Callable

Change: TypeAlias = "Callable[[str, str], str]"
"""Returns another text in place of one; the second argument is the key that it stands under."""

_SMALLEST_NUMBER = 1_000_000
"""A number with fewer digits is nobody's."""


class PersonalDataVisitor(TextVisitor):
    """Has *change* rewrite each text by itself, and long numbers of JSON as texts.

    Parts that hold no text are withheld unless *keep_binary*; those that say that they are text,
    and are not, are withheld always. Calls are visited of the tools that *covers* tells of.
    """

    def __init__(self, change: Change, covers: Callable[[str], bool], *, keep_binary: bool) -> None:
        self._change, self._keep_binary, self._covers = change, keep_binary, covers

    def texts(self, texts: tuple[str, ...], key: str = "", /) -> tuple[str, ...]:
        """Return each of the *texts* changed."""
        if len(texts) == 1:  # As most are.
            return (self._change(texts[0], key),)
        return tuple([self._change(text, key) for text in texts])

    def json(self, value: Any) -> Any:
        """Return *value* with its texts, keys and long numbers changed."""
        return rewrite_json(value, self.texts, self._number)

    def part(self, part: Part) -> Part:
        """Return *part*, or a note in its place if nobody can examine it."""
        if isinstance(part, TextPart):
            return part
        if isinstance(part, ResourcePart):
            data, mime_type = part.resource.blob, part.resource.mime_type or ""
        else:
            data, mime_type = part.data, part.mime_type
        if data is None:
            return part
        readable = text_in(data) is not None if is_text_type(mime_type) else self._keep_binary
        return part if readable else self._note(mime_type)

    def covers(self, tool_name: str) -> bool:
        """Tell whether a model's call of *tool_name* is visited."""
        return self._covers(tool_name)

    def _number(self, value: int, key: str) -> Any:
        if abs(value) < _SMALLEST_NUMBER:
            return value
        text = str(value)
        return value if (new := self._change(text, key)) == text else new

    def _note(self, mime_type: str) -> TextPart:
        what = self._change(mime_type[:100], "") or "unknown type"
        text = f"[A part of {what} was withheld: what is no text cannot be examined.]"
        return TextPart(text=text)
