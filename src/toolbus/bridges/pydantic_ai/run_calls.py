"""The calls of one run of Pydantic AI, from its own form to ours and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, ToolDenied
from pydantic_ai.exceptions import AgentRunError, ToolFailed
from pydantic_ai.messages import ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.tools import DeferredToolRequests, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset
from pydantic_core import SchemaValidator, core_schema

from toolbus.bridges.pydantic_ai.values import (
    ValidatedCall,
    call_of,
    definition_of,
    response_of,
    spec_of,
    value_of,
)
from toolbus.events import Deny, ToolSpec
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pydantic_ai import RunContext

    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.events import Ask
    from toolbus.messages.records import ToolCall

    Tools = dict[str, ToolsetTool[Any]]

_PAUSES = (ApprovalRequired, CallDeferred)
_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())


class RunCalls:
    """The calls of one run, taken through the components of *session*.

    *validated* are arguments that the framework has found valid, and *waiting* the calls whose
    results come from outside of the run, both by call id. *unknown* are names of calls that no tool
    of the framework has.
    """

    def __init__(self, session: BridgeSession) -> None:
        self.session = session
        self.validated: dict[str, dict[str, Any]] = {}
        self.waiting: dict[str, ToolCallPart] = {}
        self._tools: Tools = {}
        self._specs: dict[str, ToolSpec] = {}
        self.unknown: set[str] = set()

    async def shown(self, tools: Tools) -> Tools:
        """Return *tools*, those of one step, as handlers show them to the model.

        The tools of components are added. Their calls go the way of unknown tools.
        """
        specs = {name: spec_of(tool.tool_def) for name, tool in tools.items()}
        added = {
            tool.spec.name: tool.spec
            for tool in self.session.host.tools
            if tool.spec.name not in specs
        }
        self._tools, self._specs, self.unknown = tools, specs, {*added}
        shown = await self.session.adapt_tools(tuple(specs.values()), tuple(added.values()))
        offered = {}
        for spec in shown:
            tool = tools.get(spec.name)
            if tool is not None and spec is not specs[spec.name]:
                tool = replace(tool, tool_def=definition_of(spec, tool.tool_def))
            elif spec.name in added:
                tool = _tool(definition_of(spec))
            if tool is not None:
                offered[spec.name] = tool
        return offered

    def note(self, calls: list[ToolCallPart], ctx: RunContext[Any]) -> None:
        """Note the *calls* of unknown tools.

        pydantic-ai 2.68: an unknown tool reaches no hook of calls. The tools of a step are public,
        and the next step has new ones.
        """
        manager = ctx.tool_manager
        if manager is None or manager.tools is None:
            return
        for name in {call.tool_name for call in calls} - manager.tools.keys():
            self.unknown.add(name)
            manager.tools[name] = _tool(ToolDefinition(name=name), manager.default_max_retries)

    async def answer_unknown(self, call: ToolCallPart, args: dict[str, Any]) -> Any:
        """Return the result of a call of a tool that is unknown, or a component's."""
        asked = call_of(call.tool_call_id, call.tool_name, args)
        return _settled(await self.session.call(asked, None, _run_nothing))

    async def defer(self, call: ToolCallPart, args: dict[str, Any]) -> None:
        """Judge a call that another program runs; the caller of the run gets the final ones."""

        async def run(arguments: dict[str, Any]) -> ToolResponse:
            call.args = arguments
            raise CallDeferred

        asked, spec = call_of(call.tool_call_id, call.tool_name, args), self._specs[call.tool_name]
        try:
            end = await self.session.call(asked, spec, run, passes=_PAUSES)
        except CallDeferred:
            self.waiting[call.tool_call_id] = call
            return
        raise ToolFailed(end.response.text)

    def find_waiting(self, history: list[Any]) -> None:
        """Find the calls in *history* that have no result: that of this run will have them."""
        for part in [part for message in history for part in message.parts]:
            if isinstance(part, ToolCallPart):
                self.waiting[part.tool_call_id] = part
            elif isinstance(part, ToolReturnPart):
                self.waiting.pop(part.tool_call_id, None)

    async def judge_parts(self, parts: Sequence[Any], prompt: Any) -> list[Any]:
        """Return *parts* of a request with *prompt*, results from outside as handlers left them.

        The further content of such a result (`ToolReturn.content`) is a part of its own.
        """
        results = [part for part in parts if isinstance(part, ToolReturnPart)]
        outside = [part for part in results if part.tool_call_id in self.waiting]
        judged = [await self.judge_outside(part) for part in parts]
        return [
            await self._judge_content(part, outside[0])
            if outside and isinstance(part, UserPromptPart) and part.content != prompt
            else part
            for part in judged
        ]

    async def _judge_content(self, part: UserPromptPart, result: ToolReturnPart) -> UserPromptPart:
        content = [part.content] if isinstance(part.content, str) else [*part.content]
        before = response_of(content)
        after = await self.session.judge_result(result.tool_call_id, result.tool_name, before)
        return part if after is before else replace(part, content=after.text)

    async def judge_outside(self, part: Any) -> Any:
        """Return *part* of a request as handlers left it, if it is a result from outside."""
        is_result = isinstance(part, ToolReturnPart)
        call = self.waiting.pop(part.tool_call_id, None) if is_result else None
        if call is None:
            return part
        text = part.model_response_str(wrap_if_error=False)

        async def run(arguments: dict[str, Any]) -> ToolResponse:  # noqa: ARG001 - it ran elsewhere
            if part.outcome != "success":
                raise ToolFailed(text)
            return response_of(part.content)

        async def ask(question: Ask, call: ToolCall) -> bool | Deny:  # noqa: ARG001
            return part.outcome == "success" or Deny(text)

        asked = call_of(call.tool_call_id, call.tool_name, call.args_as_dict())
        end = await self.session.call(asked, self._specs.get(call.tool_name), run, ask=ask)
        is_same = not end.is_changed or (end.response.is_error and end.response.text == text)
        return part if is_same else replace(part, content=value_of(end.response))

    async def call_output(self, output: Any, function: Any, handler: Callable[..., Any]) -> Any:
        """Take a call of an output *function* with the value *output* through the handlers."""
        part, result = function.tool_call, None
        name = part.tool_name if part else function.function_name or "output"
        args = part.args_as_dict() if part else {"output": output}
        asked = call_of(part.tool_call_id if part else new_id(), name, args)

        def check(arguments: Mapping[str, Any]) -> str | None:
            is_same = arguments == asked.arguments
            return None if is_same else "the arguments of an output function cannot be changed"

        async def run(arguments: dict[str, Any]) -> ToolResponse:  # noqa: ARG001 - as checked
            nonlocal result
            result = await handler(output)
            return response_of(result)

        end = await self.session.call(asked, ToolSpec(name=name), run, check=check)
        if end.error is not None:
            raise end.error
        if end.response.is_error:
            raise ModelRetry(end.response.text)
        return value_of(end.response) if end.is_changed else result

    async def call(
        self, args: dict[str, Any], ctx: RunContext[Any], name: str, inner: Callable[..., Any]
    ) -> Any:
        """Take one call of the tool *name* through the handlers; *inner* runs it."""
        call_id, tool, result = ctx.tool_call_id or "", self._tools[name], None
        validated = self.validated.pop(call_id, None)
        # Another capability may have changed them since, or ids may repeat.
        validated = args if args is validated else None
        asked = ValidatedCall(call_of(call_id, name, args), validated, tool, ctx)

        async def run(arguments: dict[str, Any]) -> ToolResponse:
            nonlocal result
            result = await inner(name, await asked.values(arguments), ctx, tool)
            return response_of(result)

        self.waiting.pop(call_id, None)
        try:
            end = await self.session.call(
                asked.call,
                self._specs[name],
                run,
                ask=_ask(ctx) if self.session.host.pauses else None,
                check=asked.check,
                passes=_PAUSES,
            )
        except _PAUSES:
            self.waiting[call_id] = ToolCallPart(name, args, call_id)
            raise
        return _settled(end) if end.is_changed or end.error else result


@dataclass
class BridgedToolset(WrapperToolset[Any]):
    """The tools of a run, whose *calls* pass the components."""

    calls: RunCalls

    async def get_tools(self, ctx: RunContext[Any]) -> Tools:
        """Return the tools as handlers show them to the model."""
        return await self.calls.shown(await super().get_tools(ctx))

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], _: Any
    ) -> Any:
        """Take the call through the components."""
        return await self.calls.call(tool_args, ctx, name, super().call_tool)


def _settled(end: CallEnd) -> Any:
    """Return the end of a call as the framework's result, or raise as its tools do."""
    response = end.response
    if end.status == "denied":
        return ToolDenied(response.text)
    # The framework counts these against the tool's retries, as it does without a bridge.
    if end.status in {"unknown_tool", "invalid_arguments"}:
        raise ModelRetry(response.text)
    if isinstance(end.error, ModelRetry | ToolFailed | AgentRunError):
        raise end.error
    if response.is_error:
        raise ToolFailed(response.text)
    return value_of(response)


def _ask(ctx: RunContext[Any]) -> Callable[[Ask, ToolCall], Awaitable[bool]] | None:
    """Return the framework's own approval of a call, or None if the run cannot pause for it."""
    output = ctx.agent.output_type if ctx.agent else None
    can_pause = DeferredToolRequests in (output if isinstance(output, list | tuple) else [output])
    if not ctx.tool_call_approved and not can_pause:
        return None

    async def ask(question: Ask, call: ToolCall) -> bool:
        if ctx.tool_call_approved:
            return True
        raise ApprovalRequired({"question": question.prompt, "arguments": thaw(call.arguments)})

    return ask


def _tool(definition: ToolDefinition, retries: int = 1) -> ToolsetTool[Any]:
    """Return a tool that is not the framework's, with arguments that it does not validate."""
    return ToolsetTool(
        toolset=FunctionToolset(),
        tool_def=definition,
        max_retries=retries,
        args_validator=_ANY_ARGUMENTS,
    )


async def _run_nothing(arguments: dict[str, Any]) -> ToolResponse:  # noqa: ARG001 - never called
    return ToolResponse()
