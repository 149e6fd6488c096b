"""The tools and results of a FastMCP server as specs and responses, and back."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import mcp_types
from fastmcp.prompts.base import PromptResult
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from msgspec import ValidationError, convert, to_builtins

from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, replace_surrogates_in, thaw
from toolbus.messages.records import Part, TextPart, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastmcp.resources.base import ResourceResult


# --- tools ----------------------------------------------------------------------------------------


def spec_of(tool: Tool) -> ToolSpec:
    """Return the spec of *tool*."""
    hints: dict[str, Any] = {}
    if tool.annotations is not None:
        hints = tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    if tool.title:
        hints["title"] = tool.title
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.parameters,
        output_schema=tool.output_schema,
        annotations=hints or EMPTY,
    )


def adapted_tool(tool: Tool, before: ToolSpec, after: ToolSpec) -> Tool:
    """Return *tool* with the changes between its specs."""
    if after == before:
        return tool
    update = {
        "description": after.description,
        "parameters": thaw(after.input_schema),
        "output_schema": thaw(after.output_schema),
    }
    return tool.model_copy(update=update)


def listed_tool(spec: ToolSpec) -> Tool:
    """Return a tool for the list of the server; only a component can run it."""
    return Tool(name=spec.name, description=spec.description, parameters=thaw(spec.input_schema))


# --- results of tools -----------------------------------------------------------------------------


def response_of(result: Any) -> ToolResponse:
    """Return *result*; handlers see a form for the client, or a task, as JSON.

    Raises `FreezeError` for values that are not JSON.
    """
    if not has_content(result):
        return ToolResponse(structured=_json_of(getattr(result, "input_required", result)))
    return ToolResponse(
        content=tuple([_part(block) for block in result.content]),
        structured=replace_surrogates_in(result.structured_content),
        is_error=result.is_error,
    )


def result_of(
    response: ToolResponse, original: ToolResult | None, spec: ToolSpec | None
) -> ToolResult:
    """Return the result for *response*, which handlers have changed, or which is theirs.

    *original* is the result of the tool, None if it did not run or failed.
    """
    schema = _promised(original, spec)
    structured = None if response.is_error else _structured(response, schema)
    if original is None and not isinstance(structured, dict):
        structured = None
    blocks = _blocks(response.content, () if original is None else original.content)
    if not blocks and response.structured is not None:
        blocks = [mcp_types.TextContent(type="text", text=response.text)]
    # Not a copy, with which FastMCP 4.1 sends the tool's own `CallToolResult`.
    return ToolResult.model_construct(
        content=blocks,
        structured_content=structured,
        meta=None if original is None else original.meta,
        # A client refuses a result without the structure that its tool declares.
        is_error=response.is_error or (schema is not None and structured is None),
    )


def _promised(original: ToolResult | None, spec: ToolSpec | None) -> Any:
    """Return the output schema that the result must fit, None if the tool's own has none."""
    if spec is None or (original is not None and original.structured_content is None):
        return None
    return spec.output_schema


def has_content(result: Any) -> bool:
    """Return whether *result* is a tool's, not a form for the client or a background task."""
    return isinstance(result, ToolResult) and not isinstance(result, InputRequiredToolResult)


def _structured(response: ToolResponse, schema: Any) -> Any:
    """Return the structure of *response*, or its text as a value of the output *schema*."""
    if schema is None or response.structured is not None:
        return thaw(response.structured)
    values: list[Any] = [response.text]
    with suppress(ValueError):
        values.append(json.loads(response.text))
    for value in values:
        structured = {"result": value} if schema.get("x-fastmcp-wrap-result") else value
        if schemas.problem(schema, structured) is None:
            return structured
    return None


# --- resources and prompts ------------------------------------------------------------------------


def content_of(result: ResourceResult | PromptResult) -> ToolResponse:
    """Return the content of *result*."""
    items = result.messages if isinstance(result, PromptResult) else result.contents
    return ToolResponse(content=tuple([_part(_block_in(item)) for item in items]))


def with_content(
    response: ToolResponse, original: ResourceResult | PromptResult
) -> ResourceResult | PromptResult:
    """Return *original* with the content of *response*; `ValueError` if it has more or less."""
    is_prompt = isinstance(original, PromptResult)
    items = original.messages if is_prompt else original.contents
    blocks = _blocks(response.content, [_block_in(item) for item in items])
    changed = [
        item.model_copy(update={"content": block if is_prompt else _held(block)})
        for item, block in zip(items, blocks, strict=True)
    ]
    return original.model_copy(update={"messages" if is_prompt else "contents": changed})


def _block_in(item: Any) -> Any:
    match item.content:
        case str() as text:
            return mcp_types.TextContent(type="text", text=text)
        case bytes() as data:
            blob = b64encode(data).decode()
            held = mcp_types.BlobResourceContents(uri="", mime_type=item.mime_type, blob=blob)
            return mcp_types.EmbeddedResource(type="resource", resource=held)
        case block:
            return block


def _held(block: Any) -> str | bytes:
    return b64decode(block.resource.blob) if block.type == "resource" else block.text


# --- blocks and parts -----------------------------------------------------------------------------


def _blocks(parts: Sequence[Part], originals: Sequence[Any]) -> list[Any]:
    """Return the blocks of *parts*; an unchanged one is that of *originals*."""
    known = {_part(block): block for block in originals}
    made = mcp_types.CallToolResult.model_validate({"content": to_builtins(parts)}).content
    return [known.get(part, block) for part, block in zip(parts, made, strict=True)]


def _part(block: Any) -> Part:
    body = _json_of(block)
    try:
        return convert(body, Part)
    except ValidationError:
        # A link, as JSON text: a model can only follow a link that it can read.
        return TextPart(json.dumps(body))


def _json_of(model: Any) -> Any:
    return replace_surrogates_in(model.model_dump(mode="json", by_alias=True, exclude_none=True))
