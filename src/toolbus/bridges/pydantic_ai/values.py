"""The values of Pydantic AI as ours, and back: calls, tools, results, prompts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from pydantic_ai import ModelRetry
from pydantic_ai.messages import (
    MULTI_MODAL_CONTENT_TYPES,
    ToolCallPart,
    ToolReturn,
    UserPromptPart,
    tool_return_ta,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_core import ValidationError, to_jsonable_python

from toolbus.errors import FreezeError
from toolbus.events import ToolSpec
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import ToolsetTool


class InvalidArguments(dict[str, Any]):
    """The model's own arguments; *raw* is its text unless that is a JSON object."""

    def __init__(self, args: str | dict[str, Any] | None) -> None:
        value: Any = args or {}
        if isinstance(args, str) and args:
            try:
                value = json.loads(args)
            except ValueError:
                value = None
        super().__init__(value if isinstance(value, dict) else {})
        self.raw = None if isinstance(value, dict) else str(args)


@dataclass
class AskedCall:
    """A *call*, with its *args* as the framework gave them, and their *problem*."""

    call: ToolCall
    args: dict[str, Any]
    problem: Exception | None
    tool: ToolsetTool[Any]
    ctx: RunContext[Any]

    def check(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the framework's problem with *arguments*, or None."""
        try:
            self._valid(arguments)
        except (ValidationError, ModelRetry) as error:
            return problem_text(error)
        return None

    async def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return *arguments* as values for the tool's function."""
        values = self._valid(arguments)
        if values is not self.args and self.tool.args_validator_func is not None:
            judged = self.tool.args_validator_func(self.ctx, **values)
            if isawaitable(judged):
                await judged
        return values

    def _valid(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if arguments == self.call.arguments:
            if self.problem is not None:
                raise self.problem
            # Ids of calls may repeat, so a problem may have gone to another call.
            if not isinstance(self.args, InvalidArguments):
                return self.args
        text, context = json.dumps(thaw(arguments)), self.ctx.validation_context
        values: dict[str, Any] = self.tool.args_validator.validate_json(text, context=context)
        return values


def response_of(result: Any) -> ToolResponse:
    """Return the *result* of a tool as the model reads it, with the names of its files."""
    if isinstance(result, ToolReturn):
        content = result.content or ()
        parts = [result.return_value, *([content] if isinstance(content, str) else content)]
        return response_of(parts if content else result.return_value)
    if isinstance(result, str):
        return ToolResponse.from_text(result)
    if result is None:
        return ToolResponse()
    named = [_named(item) for item in result] if isinstance(result, list) else _named(result)
    # As the framework writes it for the model, so that handlers judge what that reads.
    value = tool_return_ta.dump_python(named, mode="json", by_alias=True)
    if isinstance(value, str):
        return ToolResponse.from_text(value)
    try:
        return ToolResponse(structured=value)
    except FreezeError:  # Such as an integer of more than 64 bits.
        return ToolResponse.from_text(json.dumps(value))


def _named(value: Any) -> Any:
    is_file = isinstance(value, MULTI_MODAL_CONTENT_TYPES)
    return f"file {value.identifier}" if is_file else value


def value_of(response: ToolResponse) -> Any:
    """Return *response* as the result of a tool."""
    return response.text if response.structured is None else thaw(response.structured)


def call_of(call_id: str, name: str, args: dict[str, Any]) -> ToolCall:
    """Return the call with JSON arguments; what JSON cannot hold stands in its raw text."""
    raw = args.raw if isinstance(args, InvalidArguments) else None
    try:
        arguments = to_jsonable_python(args, fallback=str, inf_nan_mode="strings")
        return ToolCall(id=call_id, name=name, arguments=arguments, raw=raw)
    except FreezeError:
        return ToolCall(id=call_id, name=name, arguments={}, raw=json.dumps(args, default=str))


def spec_of(definition: ToolDefinition) -> ToolSpec:
    """Return the spec of a tool; servers of MCP give annotations in its metadata."""
    annotations = (definition.metadata or {}).get("annotations")
    return ToolSpec(
        name=definition.name,
        description=definition.description or "",
        input_schema=definition.parameters_json_schema,
        annotations=annotations if isinstance(annotations, dict) else {},
    )


def definition_of(spec: ToolSpec, original: ToolDefinition | None = None) -> ToolDefinition:
    """Return the definition of a tool as *spec* shows it."""
    schema, text = thaw(spec.input_schema), spec.description
    if original is None:
        return ToolDefinition(name=spec.name, description=text, parameters_json_schema=schema)
    return replace(original, description=text, parameters_json_schema=schema)


def changed_tool(tool: ToolsetTool[Any], spec: ToolSpec, original: ToolSpec) -> ToolsetTool[Any]:
    """Return *tool* with its definition as in *spec*."""
    if spec is original:
        return tool
    return replace(tool, tool_def=definition_of(spec, tool.tool_def))


def problem_text(error: Exception) -> str:
    """Return the text of *error* without the values of the arguments."""
    if not isinstance(error, ValidationError):
        return str(error)
    places = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]
    return "; ".join([f"{place}: {reason}" if place else reason for place, reason in places])


def prompt_in(history: list[Any]) -> Any:
    """Return the prompt at the end of *history*, for a run without one of its own, or None."""
    parts = history[-1].parts if history else ()
    prompts = [part.content for part in parts if isinstance(part, UserPromptPart)]
    if not prompts[1:]:
        return prompts[0] if prompts else None
    return [item for each in prompts for item in ([each] if isinstance(each, str) else each)]


def with_prompt(request: Any, prompt: Any) -> Any:
    """Return the *request* with *prompt* in place of its own."""
    first = next(part for part in request.parts if isinstance(part, UserPromptPart))
    parts = [
        replace(part, content=prompt) if part is first else part
        for part in request.parts
        if part is first or not isinstance(part, UserPromptPart)
    ]
    return replace(request, parts=parts)


def text_of(prompt: Any) -> str:
    """Return the text of a prompt, without its images and files."""
    items = [prompt] if isinstance(prompt, str) else prompt
    texts = [item if isinstance(item, str) else getattr(item, "content", None) for item in items]
    return "\n".join([text for text in texts if isinstance(text, str)])


def with_text(prompt: Any, text: str) -> Any:
    """Return *prompt* with *text* in place of its own texts."""
    if isinstance(prompt, str):
        return text
    return [text, *[item for item in prompt if not text_of([item])]]


def unanswered(history: list[Any]) -> set[str]:
    """Return the ids of the calls in *history* that have no result."""
    parts = [part for message in history for part in message.parts]
    # pydantic-ai 2.28: a result that asks the model to try again is a part of another type.
    ids = [getattr(part, "tool_call_id", None) for part in parts if not _is_call(part)]
    return {part.tool_call_id for part in parts if _is_call(part)} - {*ids}


def _is_call(part: Any) -> bool:
    return isinstance(part, ToolCallPart)
