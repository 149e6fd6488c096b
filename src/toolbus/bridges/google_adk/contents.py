"""Tools, results and texts of Google ADK in our words, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic_core import to_jsonable_python

from toolbus.errors import FreezeError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import replace_surrogates, thaw
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from google.adk.models.llm_request import LlmRequest

    from toolbus.bridges.session import BridgeSession


def spec_of(declaration: types.FunctionDeclaration) -> ToolSpec:
    """Return the tool of *declaration*."""
    return _spec_of(declaration.model_dump_json(exclude_none=True))


# Cached, because the framework declares each tool anew for each request.
@lru_cache(1024)
def _spec_of(encoded: str) -> ToolSpec:
    declaration = types.FunctionDeclaration.model_validate_json(encoded)
    schema: Any = declaration.parameters_json_schema
    if schema is None and declaration.parameters is not None:
        schema = declaration.parameters.json_schema.model_dump(exclude_none=True, mode="json")
    if not isinstance(schema, dict) or schemas.check_schema(schema) is not None:
        schema = {"type": "object"}
    name, description = declaration.name or "", declaration.description or ""
    return ToolSpec(name=name, description=description, input_schema=schema)


def call_of(call_id: str, name: str, arguments: dict[str, Any]) -> ToolCall:
    """Return a call of the model; arguments that no record can hold become its raw text."""
    try:
        return ToolCall(id=call_id, name=name, arguments=arguments)
    except FreezeError:
        raw, read = str(arguments), replace_surrogates
        return ToolCall(id=read(call_id), name=read(name), raw=read(raw))


def declared_specs(request: LlmRequest) -> dict[str, ToolSpec]:
    """Return the tools of the agent in *request*, by name."""
    declared = [each for tool in _tools(request) for each in tool.function_declarations or []]
    return {spec.name: spec for spec in map(spec_of, declared)}


def show_tools(request: LlmRequest, shown: Sequence[ToolSpec]) -> None:
    """Let *request* have the tools *shown*: the agent's, perhaps changed, and new ones."""
    specs, offered = declared_specs(request), {spec.name: spec for spec in shown}
    for name in specs.keys() - offered.keys():
        request.tools_dict.pop(name, None)
    tools, other = _tools(request), request.config.tools or []
    for tool in tools:
        tool.function_declarations = [
            _redeclared(each, offered[str(each.name)])
            for each in tool.function_declarations or []
            if each.name in offered
        ]
    new = [_declaration_of(spec) for name, spec in offered.items() if name not in specs]
    if new:
        # Models take functions in one tool.
        target = next((tool for tool in tools if tool.function_declarations), types.Tool())
        target.function_declarations = [*(target.function_declarations or []), *new]
        other = other if target in other else [*other, target]
    # They refuse a tool without any declaration.
    request.config.tools = [tool for tool in other if not _is_empty(tool)] or None


def _is_empty(tool: Any) -> bool:
    fields = tool.model_dump(exclude_none=True) if isinstance(tool, types.Tool) else {"": tool}
    return not any(fields.values())


def _tools(request: LlmRequest) -> list[types.Tool]:
    return [tool for tool in request.config.tools or [] if isinstance(tool, types.Tool)]


def _declaration_of(spec: ToolSpec) -> types.FunctionDeclaration:
    return types.FunctionDeclaration(
        name=spec.name,
        description=spec.description,
        parameters_json_schema=thaw(spec.input_schema),
    )


def _redeclared(
    declaration: types.FunctionDeclaration, shown: ToolSpec
) -> types.FunctionDeclaration:
    spec, changes = spec_of(declaration), dict[str, Any]()
    if shown.description != spec.description:
        changes["description"] = shown.description
    if shown.input_schema != spec.input_schema:
        changes |= {"parameters": None, "parameters_json_schema": thaw(shown.input_schema)}
    return declaration.model_copy(update=changes) if changes else declaration


def response_of(result: Any) -> ToolResponse:
    """Return the *result* of a tool, any object, as a response."""
    if isinstance(result, str):
        return ToolResponse.from_text(result)
    value = to_jsonable_python(result, fallback=str)
    # The marks of a failure: of function tools, and of the tools of MCP servers.
    is_error = isinstance(value, dict) and (set(value) == {"error"} or value.get("isError") is True)
    return ToolResponse(structured=value, is_error=is_error)


def result_of(response: ToolResponse) -> Any:
    """Return *response*, as handlers left it, as the result of a tool."""
    if response.structured is not None and not response.content:
        return thaw(response.structured)
    return {"error": response.text} if response.is_error else response.text


def as_object(result: Any) -> dict[str, Any]:
    """Return *result* as the JSON object that a callback must return."""
    return result if isinstance(result, dict) else {"result": result}


async def read_late_result(session: BridgeSession, name: str, call_id: str, result: Any) -> Any:
    """Return *result*, which came after the end of its call, as handlers of results leave it."""
    response = response_of(result)
    read = await session.judge_result(call_id, name, response)
    return result if read is response else result_of(read)


async def read_late_results(
    session: BridgeSession, content: types.Content, seen: Collection[str] = ()
) -> types.Content:
    """Return *content* with its results, but for those of *seen* calls, as handlers leave them."""
    parts = [await _read_part(session, part, seen) for part in content.parts or []]
    return content.model_copy(update={"parts": parts})


async def _read_part(session: BridgeSession, part: types.Part, seen: Collection[str]) -> types.Part:
    late = part.function_response
    # The framework's own questions have names of this form.
    if late is None or late.id in seen or str(late.name).startswith("adk_request_"):
        return part
    read = await read_late_result(session, str(late.name), late.id or new_id(), late.response)
    changed = late.model_copy(update={"response": as_object(read)})
    return part.model_copy(update={"function_response": changed})


def texts_of(content: types.Content | None) -> list[str]:
    """Return the texts of *content*, without thoughts."""
    parts = content.parts or [] if content is not None else []
    return [part.text for part in parts if part.text and not part.thought]


def with_text(content: types.Content, text: str) -> types.Content:
    """Return *content* with *text* in place of all its texts."""
    parts, is_placed = [], False
    for part in content.parts or []:
        if not part.text or part.thought:
            parts.append(part)
        elif not is_placed:
            is_placed = True
            parts.append(part.model_copy(update={"text": text}))
    return content.model_copy(update={"parts": parts})
