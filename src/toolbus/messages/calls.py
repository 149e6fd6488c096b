"""A tool call and the response to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from msgspec import field
from msgspec.structs import replace

from toolbus.messages.codec import encode
from toolbus.messages.fields import (
    Record,
    all_ascii,
    check_kind,
    check_texts,
    freeze_json,
    freeze_objects,
)
from toolbus.messages.ids import check_id, default_id
from toolbus.messages.immutable import EMPTY, FrozenDict, JsonObject
from toolbus.messages.parts import Part, TextPart, freeze_content, freeze_parts, join_text
from toolbus.messages.text_walker import TextMapper, rewrite_parts

if TYPE_CHECKING:
    from collections.abc import Callable


class ToolCall(Record, frozen=True, kw_only=True):
    """A tool call of a model, or as a handler rewrote it.

    *raw* is the model's own text of the arguments if it was not a JSON object.

    >>> call = ToolCall(name="read", arguments={"path": "a//b"})
    >>> dict(call.merge_arguments({"path": "a/b"}).arguments)
    {'path': 'a/b'}
    """

    id: str = field(default_factory=default_id)
    name: str
    arguments: JsonObject = EMPTY
    raw: str | None = None

    def __post_init__(self) -> None:
        if not all_ascii(self.id, self.name):
            check_id(self)
            check_texts(self, "id", "name")
        if self.raw is not None:
            check_texts(self, "raw")
        if type(self.arguments) is not FrozenDict:
            freeze_objects(self, "arguments")

    def with_arguments(self, arguments: JsonObject) -> Self:
        """Return this call with exactly *arguments*, and without `raw`."""
        return replace(self, arguments=arguments, raw=None)

    def merge_arguments(self, patch: JsonObject) -> Self:
        """Return this call with *patch* merged over its arguments."""
        return self.with_arguments({**self.arguments, **patch})

    def without_arguments(self, *names: str) -> Self:
        """Return this call without the arguments *names*; unknown names are ignored."""
        remaining = {name: value for name, value in self.arguments.items() if name not in names}
        return self.with_arguments(remaining)


class Content(Record, frozen=True):
    """The one field of a response that may be positional."""

    is_open: ClassVar[bool] = True
    content: tuple[Part, ...] = ()


class ToolResponse(Content, frozen=True, kw_only=True):
    """The result of a tool: `ToolResponse("…")`, or parts for its *content*.

    *structured* is any JSON value, *duration_ns* counts nanoseconds, and *parameters* are the
    arguments of the execution; the runner sets the facts of the execution.

    >>> ToolResponse("a very long text").map_text(lambda text: text[:6] + " …").text
    'a very …'
    """

    structured: Any = None
    is_error: bool = False
    error_type: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    parameters: JsonObject | None = None
    duration_ns: int | None = None
    metadata: JsonObject = EMPTY

    if TYPE_CHECKING:

        def __init__(
            self,
            content: str | tuple[Part, ...] = (),
            *,
            structured: Any = None,
            is_error: bool = False,
            error_type: str | None = None,
            tool_name: str | None = None,
            tool_call_id: str | None = None,
            parameters: JsonObject | None = None,
            duration_ns: int | None = None,
            metadata: JsonObject = EMPTY,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.content != ():
            # Without the detour for texts, which costs a sixth.
            (freeze_parts if type(self.content) is tuple else freeze_content)(self, "content")
        if self.structured is not None:
            freeze_json(self, "structured")
        if self.is_error is not False:
            check_kind(self, "is_error", bool)
        if not (self.error_type is self.tool_name is self.tool_call_id is None):
            check_texts(self, "error_type", "tool_name", "tool_call_id", optional=True)
        if self.duration_ns is not None:
            check_kind(self, "duration_ns", int)
        if self.parameters is not None:
            freeze_objects(self, "parameters")
        if type(self.metadata) is not FrozenDict:
            freeze_objects(self, "metadata")

    @classmethod
    def from_text(
        cls, text: str, *, is_error: bool = False, error_type: str | None = None
    ) -> ToolResponse:
        """Return a response of one text part."""
        return cls(content=(TextPart(text),), is_error=is_error, error_type=error_type)

    @property
    def text(self) -> str:
        """Its text and resource parts, one per line; without any part, *structured* as JSON."""
        if not self.content and self.structured is not None:
            return encode(self.structured).decode()
        return join_text(self.content)

    def with_text(self, text: str) -> ToolResponse:
        """Return this response with one text part in place of all content and `structured`."""
        return replace(self, content=(TextPart(text),), structured=None)

    def map_text(self, change: Callable[[str], str]) -> ToolResponse:
        """Return this response with *change* applied to every text that the model could read.

        These are text parts, texts of resources, base64 data of a text type (such as SVG), and
        every string inside `structured`, keys too, since a secret may be a key. If nothing
        changes, the same object is returned.
        """
        mapper = TextMapper(change)
        content, structured = rewrite_parts(self.content, mapper), mapper.json(self.structured)
        if content is self.content and structured is self.structured:
            return self
        return replace(self, content=content, structured=structured)
