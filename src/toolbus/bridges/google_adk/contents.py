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


def declared(request: LlmRequest) -> dict[str, types.FunctionDeclaration]:
    """Return the tools of the agent in *request*, by name."""
    tools = [tool for tool in request.config.tools or [] if isinstance(tool, types.Tool)]
    declarations = [each for tool in tools for each in tool.function_declarations or []]
    return {declaration.name or "": declaration for declaration in declarations}


def show_tools(request: LlmRequest, shown: Sequence[ToolSpec]) -> None:
    """Let *request* have the tools *shown*: the agent's, perhaps changed, and new ones."""
    before = declared(request)
    for name in before.keys() - {spec.name for spec in shown}:
        request.tools_dict.pop(name, None)
    tools = [_without_functions(tool) for tool in request.config.tools or []]
    # Models take functions in one tool, and refuse a tool without anything.
    functions = [_declaration_of(spec, before.get(spec.name)) for spec in shown]
    tools.append(types.Tool(function_declarations=functions or None))
    request.config.tools = [tool for tool in tools if tool != types.Tool()] or None


def _without_functions(tool: Any) -> Any:
    is_tool = isinstance(tool, types.Tool)
    return tool.model_copy(update={"function_declarations": None}) if is_tool else tool


def _declaration_of(
    spec: ToolSpec, before: types.FunctionDeclaration | None
) -> types.FunctionDeclaration:
    if before is not None and spec_of(before) == spec:
        return before
    return types.FunctionDeclaration(
        name=spec.name,
        description=spec.description,
        parameters_json_schema=thaw(spec.input_schema),
    )


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


async def judge_results(
    session: BridgeSession, content: types.Content, judged: Collection[str | None] = ()
) -> types.Content:
    """Return *content* with its results as handlers leave them, but for those of *judged* calls."""
    parts = [await _judge_part(session, part, judged) for part in content.parts or []]
    return content.model_copy(update={"parts": parts})


def answers_in(content: types.Content) -> set[str | None]:
    """Return the ids of the answers in *content*, of a user, to questions of the framework."""
    results = [part.function_response for part in content.parts or [] if part.function_response]
    # The framework's own questions have names of this form; so may those of a remote agent.
    return {result.id for result in results if str(result.name).startswith("adk_request_")}


async def _judge_part(
    session: BridgeSession, part: types.Part, judged: Collection[str | None]
) -> types.Part:
    result = part.function_response
    if result is None or result.id in judged:
        return part
    response = response_of(result.response)
    read = await session.judge_result(result.id or new_id(), str(result.name), response)
    if read is response:
        return part
    changed = result.model_copy(update={"response": as_object(result_of(read))})
    return part.model_copy(update={"function_response": changed})


def texts_of(content: types.Content | None) -> list[str]:
    """Return the texts of *content*, without thoughts."""
    parts = content.parts or [] if content is not None else []
    return [part.text for part in parts if part.text and not part.thought]


def with_text(content: types.Content, text: str) -> types.Content:
    """Return *content* with *text* in place of all its texts, before its other parts."""
    others = [part for part in content.parts or [] if not part.text or part.thought]
    return content.model_copy(update={"parts": [types.Part(text=text), *others]})
