"""The results of a FastMCP server as responses, and back: tools, resources and prompts."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types
from fastmcp.exceptions import FastMCPError, PromptError, ResourceError, to_mcp_error
from fastmcp.prompts.base import Message, PromptResult
from fastmcp.resources.base import ResourceContent, ResourceResult
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from msgspec import to_builtins
from pydantic import TypeAdapter

from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, replace_surrogates_in, thaw
from toolbus.messages.parts import join_text
from toolbus.messages.records import (
    AudioPart,
    ImagePart,
    Part,
    Resource,
    ResourcePart,
    TextPart,
    ToolResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_WRAPPED = {"fastmcp": {"wrap_result": True}}
"""The `_meta` of a result whose value is the member `result` of an object."""


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
    new: dict[str, Any] = {}
    if after.description != before.description:
        new["description"] = after.description
    if after.input_schema != before.input_schema:
        new["parameters"] = thaw(after.input_schema)
    if after.output_schema != before.output_schema:
        new["output_schema"] = thaw(after.output_schema)
    return tool.model_copy(update=new) if new else tool


def listed_tool(spec: ToolSpec) -> Tool:
    """Return a tool for the list of the server; only a component can run it."""
    return Tool(name=spec.name, description=spec.description, parameters=thaw(spec.input_schema))


# --- results of tools -----------------------------------------------------------------------------


def response_of(result: Any) -> ToolResponse:
    """Return *result*; handlers see a question to the client, or a task, as JSON.

    Raises `FreezeError` for values that are not JSON.
    """
    if isinstance(result, InputRequiredToolResult):
        return ToolResponse(structured=json_of(result.input_required))
    if not isinstance(result, ToolResult):
        return ToolResponse(structured=json_of(result))
    return ToolResponse(
        content=tuple([_part(block) for block in result.content]),
        structured=replace_surrogates_in(result.structured_content),
        is_error=result.is_error,
    )


def result_of(response: ToolResponse, original: Any, spec: ToolSpec | None) -> Any:
    """Return the result for *response*, which handlers have changed, or which is theirs.

    *original* is the result of the tool, None if it did not run or failed.
    """
    if isinstance(original, InputRequiredToolResult):
        return _other_result(response, original.input_required)
    if original is not None and not isinstance(original, ToolResult):
        return _other_result(response, original)
    schema = None if spec is None else spec.output_schema
    return _tool_result(response, original, schema)


def _tool_result(response: ToolResponse, original: ToolResult | None, schema: Any) -> ToolResult:
    if original is not None and original.structured_content is None:
        schema = None  # The tool's own result has no structure either.
    blocks, structured = _blocks(response, original), _structured(response, schema)
    # A client refuses a result without the structure declared by its tool.
    is_error = response.is_error or (schema is not None and structured is None)
    if original is not None and type(original) is not ToolResult:
        update = {"content": blocks, "structured_content": structured, "is_error": is_error}
        return original.model_copy(update=update)
    # A copy of a `ToolResult` may keep the tool's own `CallToolResult`, and FastMCP 4.1 sends that.
    if not isinstance(structured, dict):
        structured = None
    meta = None if original is None else original.meta
    if meta is None and _is_wrapped(schema) and structured is not None:
        meta = _WRAPPED
    return ToolResult(blocks, structured, meta=meta, is_error=is_error)


def _other_result(response: ToolResponse, body: Any) -> Any:
    """Return *body*, a question or a task, as *response* has it, or an error without its form."""
    if response.structured is None or response.is_error:
        return ToolResult(content=response.text, is_error=True)
    try:
        changed = type(body).model_validate(thaw(response.structured))
    except ValueError:
        return ToolResult(content="a handler made the result invalid", is_error=True)
    is_question = isinstance(changed, mcp_types.InputRequiredResult)
    return InputRequiredToolResult(changed) if is_question else changed


def _structured(response: ToolResponse, schema: Any) -> Any:
    """Return the structure of *response*, or its text as a value of the output *schema*."""
    if response.is_error:
        return None
    if schema is None or response.structured is not None:
        return thaw(response.structured)
    values: list[Any] = [response.text]
    with suppress(ValueError):
        values.append(json.loads(response.text))
    for value in values:
        structured = {"result": value} if _is_wrapped(schema) else value
        if schemas.problem(schema, structured) is None:
            return structured
    return None


def _is_wrapped(schema: Any) -> bool:
    return schema is not None and bool(schema.get("x-fastmcp-wrap-result"))


# --- results of background tasks ------------------------------------------------------------------


def task_response(task: Mapping[str, Any]) -> ToolResponse:
    """Return the outcome of a *task*; handlers see an error or a question as JSON."""
    if "result" not in task:
        return ToolResponse(structured=dict(task), is_error="error" in task)
    return response_of(_task_outcome(task))


def task_result(response: ToolResponse, task: Mapping[str, Any]) -> Any:
    """Return the *task* with the outcome in *response*, which handlers have changed."""
    if "result" not in task:
        return _changed_json(response, task)
    changed: ToolResult = result_of(response, _task_outcome(task), None)
    result = {
        **task["result"],
        "content": [json_of(block) for block in changed.content],
        "structuredContent": changed.structured_content,
        "isError": changed.is_error,
    }
    return {**task, "result": {name: each for name, each in result.items() if each is not None}}


def _task_outcome(task: Mapping[str, Any]) -> ToolResult:
    return ToolResult.from_mcp_result(mcp_types.CallToolResult.model_validate(task["result"]))


# --- results of other requests --------------------------------------------------------------------


class Kind(NamedTuple):
    """The translation of the results of a kind of requests, and its error."""

    response_of: Callable[[Any, Mapping[str, Any]], ToolResponse]
    result_of: Callable[[ToolResponse, Any], Any]
    error: Callable[[str], Exception]


def _resource_response(result: ResourceResult, params: Mapping[str, Any]) -> ToolResponse:
    parts = []
    for each in result.contents:
        held: dict[str, str] = (
            {"text": each.content}
            if isinstance(each.content, str)
            else {"blob": b64encode(each.content).decode()}
        )
        resource = Resource(uri=params["uri"], mime_type=each.mime_type, **held)
        parts.append(ResourcePart(resource=resource))
    return ToolResponse(content=tuple(parts))


def _resource_result(response: ToolResponse, original: ResourceResult) -> ResourceResult:
    contents = []
    for part, base in _paired(response.content, original.contents):
        resource = part.resource if isinstance(part, ResourcePart) else None
        blob = None if resource is None else resource.blob
        text = join_text((part,)) if resource is None else resource.text
        content = text or "" if blob is None else b64decode(blob)
        mime_type = None if base is None else base.mime_type
        meta = None if base is None else base.meta
        contents.append(ResourceContent(content, mime_type=mime_type, meta=meta))
    return original.model_copy(update={"contents": contents})


def _prompt_response(result: PromptResult, _: Mapping[str, Any]) -> ToolResponse:
    description = {"description": result.description} if result.description else None
    parts = tuple([_part(message.content) for message in result.messages])
    return ToolResponse(content=parts, structured=description)


def _prompt_result(response: ToolResponse, original: PromptResult) -> PromptResult:
    messages = [
        Message(_block(part), role="user" if base is None else base.role)
        for part, base in _paired(response.content, original.messages)
    ]
    structured = response.structured
    description = structured.get("description") if isinstance(structured, dict) else None
    return original.model_copy(update={"messages": messages, "description": description})


def _changed_json(response: ToolResponse, original: Any) -> Any:
    if response.structured is None:
        raise to_mcp_error(FastMCPError("a handler removed the result"))
    changed = thaw(response.structured)
    is_model = hasattr(original, "model_dump")
    return type(original).model_validate(changed) if is_model else changed


RESOURCE = Kind(_resource_response, _resource_result, ResourceError)
PROMPT = Kind(_prompt_response, _prompt_result, PromptError)
OTHER = Kind(
    lambda result, _: response_of(result),
    _changed_json,
    lambda reason: to_mcp_error(FastMCPError(reason)),
)


# --- blocks and parts -----------------------------------------------------------------------------


def _part(block: Any) -> Part:
    match block:
        case mcp_types.TextContent():
            return TextPart(text=replace_surrogates_in(block.text))
        case mcp_types.ImageContent():
            return ImagePart(data=block.data, mime_type=block.mime_type)
        case mcp_types.AudioContent():
            return AudioPart(data=block.data, mime_type=block.mime_type)
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as held):
            resource = Resource(uri=held.uri, mime_type=held.mime_type, text=held.text)
            return ResourcePart(resource=resource)
        case mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents() as held):
            resource = Resource(uri=held.uri, mime_type=held.mime_type, blob=held.blob)
            return ResourcePart(resource=resource)
    # A link, as JSON text: a model can only follow a link that it can read.
    return TextPart(text=block.model_dump_json(by_alias=True, exclude_none=True))


def _blocks(response: ToolResponse, original: ToolResult | None) -> list[Any]:
    """Return the blocks of *response*; an unchanged block is that of *original*."""
    bases = [] if original is None else original.content
    if not response.content and response.structured is not None:
        return [mcp_types.TextContent(type="text", text=response.text)]
    return [
        base if base is not None and _part(base) == part else _block(part)
        for part, base in _paired(response.content, bases)
    ]


def _block(part: Part) -> Any:
    return _block_adapter().validate_python(to_builtins(part))


@cache
def _block_adapter() -> TypeAdapter[Any]:
    return TypeAdapter(mcp_types.ContentBlock)


def _paired(parts: Sequence[Part], bases: Sequence[Any]) -> list[tuple[Part, Any]]:
    """Return each part with the item of *bases* at its place, or None."""
    padded = [*bases, *[None] * (len(parts) - len(bases))]
    return [*zip(parts, padded, strict=False)]


def json_of(result: Any) -> Any:
    """Return *result*, a model of MCP or JSON, as JSON."""
    if not hasattr(result, "model_dump"):
        return replace_surrogates_in(result)
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)
