"""The translation of MCP's tools and results into toolbus's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from pydantic import ValidationError

from toolbus.errors import FreezeError, ToolServerError
from toolbus.messages.immutable import EMPTY, replace_surrogates
from toolbus.messages.records import (
    AudioPart,
    ImagePart,
    Part,
    Resource,
    ResourcePart,
    TextPart,
    ToolResponse,
)
from toolbus.tools import Tool, ToolContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import ContentBlock
    from mcp.types import Tool as ListedTool

    from toolbus.messages.records import JsonObject

    Call = Callable[[str, dict[str, Any], ProgressFnT], Awaitable[CallToolResult]]
    """A call of a tool by the server's own name; raises `ToolServerError` and the SDK's errors."""


class McpTool(Tool):
    """A tool *listed* by a server, called over its link."""

    _reserved = frozenset()  # A server may use any names for arguments.

    def __init__(
        self, listed: ListedTool, call: Call, *, prefix: str, timeout: float | None
    ) -> None:
        hints = listed.annotations
        self._remote_name, self._call, self.timeout = listed.name, call, timeout
        self.name = prefix + listed.name
        self.description = listed.description or listed.title or listed.name
        self.input_schema, self.output_schema = listed.input_schema, listed.output_schema
        self.annotations = annotations_of(listed)
        self.idempotent = bool(hints and (hints.idempotent_hint or hints.read_only_hint))

    def bind(
        self, values: Mapping[str, Any], context: Callable[[], ToolContext]
    ) -> Callable[[], Awaitable[ToolResponse]]:
        """Return `run` bound to *values* and *context*."""
        return partial(self.run, dict(values), context())

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResponse:
        """Call the tool on the server; failures are returned as responses."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            part = min(max(progress / total, 0.0), 1.0) if total else None
            context.progress(message or _counted(progress, total), part)

        try:
            return to_response(await self._call(self._remote_name, arguments, report))
        except ToolServerError as error:
            return _failure(str(error), error.kind)
        except MCPError as error:
            return _failure(f"{error.message} (code {error.code})", "mcp_error")
        except (FreezeError, ValidationError, RuntimeError) as error:
            # The SDK raises a plain RuntimeError for a result that violates its output schema.
            first = str(error).partition("\n")[0]
            return _failure(f"the tool ran, but its result is malformed: {first}", "invalid_result")


def to_response(result: CallToolResult) -> ToolResponse:
    """Return *result* as a response, without `_meta` and annotations, which are for programs.

    Raises `FreezeError` for values that are not JSON.
    """
    return ToolResponse(
        content=tuple([_part(block) for block in result.content]),
        structured=result.structured_content,
        is_error=result.is_error,
    )


def _part(block: ContentBlock) -> Part:
    match block:
        case TextContent():
            return TextPart(text=replace_surrogates(block.text))
        case ImageContent():
            return ImagePart(data=block.data, mime_type=block.mime_type)
        case AudioContent():
            return AudioPart(data=block.data, mime_type=block.mime_type)
        case EmbeddedResource(resource=TextResourceContents() as content):
            held = Resource(uri=content.uri, mime_type=content.mime_type, text=content.text)
        case EmbeddedResource(resource=BlobResourceContents() as content):
            held = Resource(uri=content.uri, mime_type=content.mime_type, blob=content.blob)
        case link:
            # As JSON text: a model can only follow a link that it can read.
            return TextPart(text=link.model_dump_json(by_alias=True, exclude_none=True))
    return ResourcePart(resource=held)


def annotations_of(listed: ListedTool) -> JsonObject:
    """Return the hints under MCP's names; they are unverified claims of the server."""
    title = {"title": listed.title} if listed.title else EMPTY
    if listed.annotations is None:
        return title
    return {**listed.annotations.model_dump(by_alias=True, exclude_none=True), **title}


def _counted(done: float, total: float | None) -> str:
    return f"{done:g}" if total is None else f"{done:g} of {total:g}"


def _failure(text: str, error_type: str) -> ToolResponse:
    return ToolResponse.from_text(text, is_error=True, error_type=error_type)
