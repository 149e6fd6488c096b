"""The values of Pydantic AI as ours, and back: calls, tools, results, messages."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    INVALID_JSON_KEY,
    MULTI_MODAL_CONTENT_TYPES,
    BinaryContent,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
    tool_return_ta,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_core import ValidationError, to_jsonable_python

from toolbus.errors import FreezeError
from toolbus.events import ToolSpec
from toolbus.messages.immutable import thaw
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import ToolsetTool

    from toolbus.messages.records import Message


@dataclass
class ValidatedCall:
    """A *call* of *tool*, with its arguments as the framework has *validated* them, or None."""

    call: ToolCall
    validated: dict[str, Any] | None
    tool: ToolsetTool[Any]
    ctx: RunContext[Any]

    def check(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the framework's problem with *arguments*, without their values, or None."""
        try:
            self._valid(arguments)
        except ValidationError as error:
            places = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]
            return "; ".join(
                [f"{place}: {reason}" if place else reason for place, reason in places]
            )
        return None

    async def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return *arguments* as values for the tool's function."""
        values = self._valid(arguments)
        if values is not self.validated and self.tool.args_validator_func is not None:
            judged = self.tool.args_validator_func(self.ctx, **values)
            if isawaitable(judged):
                await judged
        return values

    def _valid(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self.validated is not None and arguments == self.call.arguments:
            return self.validated
        text, context = json.dumps(thaw(arguments)), self.ctx.validation_context
        values: dict[str, Any] = self.tool.args_validator.validate_json(text, context=context)
        return values


def response_of(result: Any) -> ToolResponse:
    """Return the *result* of a tool as the model reads it, with the names of its files."""
    if isinstance(result, ToolReturn):
        content = result.content or ()
        parts = [result.return_value, *([content] if isinstance(content, str) else content)]
        return response_of(parts if content else result.return_value)
    if result is None:
        return ToolResponse()
    return ToolResponse.from_text(result) if isinstance(result, str) else _json_response(result)


def _json_response(result: Any) -> ToolResponse:
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
    """Return *value*; of a file its name or address, and its text if it has one."""
    if not isinstance(value, MULTI_MODAL_CONTENT_TYPES):
        return value
    name = f"file {getattr(value, 'url', value.identifier)}"
    if not isinstance(value, BinaryContent) or value.is_image or value.is_audio or value.is_video:
        return name
    try:
        # Providers show a model the text of such a file.
        return f"{name}: {value.data.decode()}"
    except UnicodeDecodeError:
        return name


def value_of(response: ToolResponse) -> Any:
    """Return *response* as the result of a tool."""
    return response.text if response.structured is None else thaw(response.structured)


def call_of(call_id: str, name: str, args: dict[str, Any]) -> ToolCall:
    """Return the call with JSON arguments; what JSON cannot hold stands in its raw text."""
    raw = args.get(INVALID_JSON_KEY)
    try:
        arguments = {} if raw else to_jsonable_python(args, fallback=str, inf_nan_mode="strings")
        return ToolCall(id=call_id, name=name, arguments=arguments, raw=raw and str(raw))
    except FreezeError:  # Such as an integer of more than 64 bits.
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
    return replace(
        original or ToolDefinition(name=spec.name),
        description=spec.description,
        parameters_json_schema=thaw(spec.input_schema),
    )


def prompt_in(message: Any) -> list[Any]:
    """Return the items of all prompts in *message*."""
    prompts = [part.content for part in message.parts if isinstance(part, UserPromptPart)]
    return [item for each in prompts for item in ([each] if isinstance(each, str) else each)]


def with_prompt(message: Any, prompt: Any) -> Any:
    """Return *message* with *prompt* in place of its own."""
    others = [part for part in message.parts if not isinstance(part, UserPromptPart)]
    return replace(message, parts=[*others, UserPromptPart(prompt)])


def text_of(prompt: Any) -> str:
    """Return the text of a prompt, without its images and files."""
    items = [prompt] if isinstance(prompt, str) else prompt
    texts = [item if isinstance(item, str) else getattr(item, "content", None) for item in items]
    return "\n".join([text for text in texts if isinstance(text, str)])


def with_text(prompt: Any, text: str) -> Any:
    """Return *prompt* with *text* in place of its own texts."""
    files = [] if isinstance(prompt, str) else [item for item in prompt if not text_of([item])]
    return [text, *files] if files else text


def with_answer(response: ModelResponse, text: str) -> ModelResponse:
    """Return *response* with *text* in place of its own, where that begins."""
    first = next((part for part in response.parts if isinstance(part, TextPart)), None)
    if first is None:
        return replace(response, parts=[TextPart(text), *response.parts])
    parts = [
        replace(part, content=text) if part is first else part
        for part in response.parts
        if part is first or not isinstance(part, TextPart)
    ]
    return replace(response, parts=parts)


def message_of(response: ModelResponse) -> AssistantMessage:
    """Return the model's *response* as a message."""
    calls = [
        call_of(call.tool_call_id, call.tool_name, call.args_as_dict())
        for call in response.tool_calls
    ]
    input_tokens, output_tokens = response.usage.input_tokens, response.usage.output_tokens
    return AssistantMessage(
        content=response.text or "",
        tool_calls=tuple(calls),
        usage={"input_tokens": input_tokens, "output_tokens": output_tokens},
        stop_reason=response.finish_reason,
    )


def records_of(message: Any) -> list[tuple[int, Message]]:
    """Return the messages of ours in *message*, each with the place of its part."""
    if isinstance(message, ModelResponse):
        return [(0, message_of(message))]
    records = [(place, _record_of(part)) for place, part in enumerate(message.parts)]
    return [(place, record) for place, record in records if record is not None]


def _record_of(part: Any) -> Message | None:
    match part:
        case SystemPromptPart(content=text):
            return SystemMessage(content=text)
        case UserPromptPart(content=content):
            return UserMessage(content=text_of(content))
        case ToolReturnPart(tool_call_id=call_id, tool_name=name, outcome=outcome):
            text, is_error = part.model_response_str(wrap_if_error=False), outcome != "success"
            response = ToolResponse.from_text(text, is_error=is_error)
            return ToolMessage(tool_call_id=call_id, tool_name=name, tool_response=response)
    return None
