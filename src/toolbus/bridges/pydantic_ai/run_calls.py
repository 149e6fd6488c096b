"""The calls of one run of Pydantic AI, from its own form to ours and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, ToolDenied
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import AgentRunError, ToolFailed
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import DeferredToolRequests, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset
from pydantic_core import SchemaValidator, core_schema

from toolbus.bridges.pydantic_ai.values import (
    AskedCall,
    InvalidArguments,
    call_of,
    changed_tool,
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
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart, ToolReturnPart

    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.events import Ask
    from toolbus.messages.records import ToolCall

    Tools = dict[str, ToolsetTool[Any]]

_PAUSES = (ApprovalRequired, CallDeferred)
_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())


class RunCalls:
    """The calls of one run, taken through the components of *session*.

    By call id, *problems* are the errors of the framework's validation, and *originals* the model's
    own arguments where the function has other names for them; *waiting* are the ids of calls whose
    results come from outside of the run.
    """

    def __init__(self, session: BridgeSession) -> None:
        self.session = session
        self.problems: dict[str, Exception] = {}
        self.originals: dict[str, InvalidArguments] = {}
        self.waiting: set[str] = set()
        self._tools: Tools = {}
        self._specs: dict[str, ToolSpec] = {}
        self._unknown: set[str] = set()

    async def shown(self, tools: Tools) -> Tools:
        """Return *tools*, those of one step, as handlers show them to the model.

        The tools of components are added. Their calls go the way of unknown tools.
        """
        specs = {name: self._spec(tool.tool_def) for name, tool in tools.items()}
        added = [tool.spec for tool in self.session.host.tools if tool.spec.name not in specs]
        self._tools, self._specs = tools, specs
        self._unknown = {spec.name for spec in added}
        shown = await self.session.adapt_tools(tuple(specs.values()), added)
        return {
            spec.name: changed_tool(tools[spec.name], spec, specs[spec.name])
            if spec.name in tools
            else _tool(definition_of(spec))
            for spec in shown
            if spec.name in tools or spec.name in self._unknown
        }

    def _spec(self, definition: ToolDefinition) -> ToolSpec:
        """Return the spec of a tool: that of the step before, if it is the same."""
        known = self._specs.get(definition.name)
        if known is not None and self._tools[definition.name].tool_def == definition:
            return known
        return spec_of(definition)

    def note(self, calls: list[ToolCallPart], ctx: RunContext[Any]) -> None:
        """Note *calls* of the model: those of unknown tools, and those that others run.

        pydantic-ai 2.68: an unknown tool reaches no hook of calls. The tools of a step are public,
        and the next step has new ones.
        """
        manager = ctx.tool_manager
        if manager is None or manager.tools is None:
            return
        tools = manager.tools
        for call in calls:
            name, tool = call.tool_name, tools.get(call.tool_name)
            if tool is None:
                self._unknown.add(name)
                tools[name] = _tool(ToolDefinition(name=name), manager.default_max_retries)
            elif tool.tool_def.kind in {"external", "unapproved"}:
                self.waiting.add(call.tool_call_id)

    def is_unknown(self, name: str) -> bool:
        """Return whether no tool of the framework has this name."""
        return name in self._unknown

    async def answer_unknown(self, call: ToolCallPart, args: dict[str, Any]) -> Any:
        """Return the result of a call of a tool that is unknown, or a component's."""
        asked = call_of(call.tool_call_id, call.tool_name, args)
        return _settled(await self.session.call(asked, None, _run_nothing), _ToolEnd())

    async def defer(self, call: ToolCallPart, args: dict[str, Any]) -> None:
        """Judge a call that another program runs; the caller of the run gets the final ones."""

        async def run(arguments: dict[str, Any]) -> ToolResponse:
            call.args = arguments
            raise CallDeferred

        asked, spec = call_of(call.tool_call_id, call.tool_name, args), self._specs[call.tool_name]
        try:
            end = await self.session.call(asked, spec, run, passes=_PAUSES)
        except CallDeferred:
            return
        self.waiting.discard(call.tool_call_id)
        raise ToolFailed(end.response.text)

    async def judge_outside(self, part: ToolReturnPart, call: ToolCallPart) -> ToolReturnPart:
        """Return *part*, a result from outside of the run, as handlers left it."""
        self.waiting.discard(part.tool_call_id)
        text = part.model_response_str(wrap_if_error=False)

        async def run(arguments: dict[str, Any]) -> ToolResponse:  # noqa: ARG001 - it ran elsewhere
            if part.outcome != "success":
                raise ToolFailed(text)
            return response_of(part.content)

        async def ask(question: Ask, call: ToolCall) -> bool | Deny:  # noqa: ARG001
            return part.outcome == "success" or Deny(text)

        asked = call_of(call.tool_call_id, call.tool_name, InvalidArguments(call.args))
        end = await self.session.call(asked, self._specs.get(call.tool_name), run, ask=ask)
        is_same = not end.is_changed or (end.response.is_error and end.response.text == text)
        return part if is_same else replace(part, content=value_of(end.response))

    async def call_output(self, output: Any, function: Any, handler: Callable[..., Any]) -> Any:
        """Take a call of an output *function* with the value *output* through the handlers."""
        part, ended = function.tool_call, _ToolEnd()
        name = part.tool_name if part else function.function_name or "output"
        args = part.args_as_dict() if part else {"output": output}
        asked = call_of(part.tool_call_id if part else new_id(), name, args)

        def check(arguments: Mapping[str, Any]) -> str | None:
            is_same = arguments == asked.arguments
            return None if is_same else "the arguments of an output function cannot be changed"

        async def run(arguments: dict[str, Any]) -> ToolResponse:  # noqa: ARG001 - as checked
            return await ended.run(handler(output))

        spec = spec_of(function.tool_def) if function.tool_def else ToolSpec(name=name)
        end = await self.session.call(asked, spec, run, check=check)
        if end.error is not None:
            raise end.error
        if end.response.is_error:
            raise ModelRetry(end.response.text)
        return value_of(end.response) if end.is_changed else ended.result

    async def call(
        self, args: dict[str, Any], ctx: RunContext[Any], name: str, inner: Callable[..., Any]
    ) -> Any:
        """Take one call of the tool *name* through the handlers; *inner* runs it."""
        call_id, tool, ended = ctx.tool_call_id or "", self._tools[name], _ToolEnd()
        call = call_of(call_id, name, self.originals.pop(call_id, args))
        asked = AskedCall(call, args, self.problems.pop(call_id, None), tool, ctx)

        async def run(arguments: dict[str, Any]) -> ToolResponse:
            values = await asked.values(arguments)
            return await ended.run(inner(name, values, ctx, tool))

        try:
            end = await self.session.call(
                asked.call,
                self._specs[name],
                run,
                ask=_ask(ctx),
                check=asked.check,
                passes=_PAUSES,
            )
        except _PAUSES:
            self.waiting.add(call_id)
            raise
        self.waiting.discard(call_id)
        return _settled(end, ended)


@dataclass
class BridgedToolset(WrapperToolset[Any]):
    """The tools of a run, whose *calls* pass the components."""

    calls: RunCalls

    async def get_tools(self, ctx: RunContext[Any]) -> Tools:
        """Return the tools as handlers show them to the model."""
        return await self.calls.shown(await super().get_tools(ctx))

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002 - as it was shown to the model
    ) -> Any:
        """Take the call through the components."""
        return await self.calls.call(tool_args, ctx, name, super().call_tool)


class _ToolEnd:
    """The end of a tool: its own *result* or *error*."""

    result: Any = None
    error: BaseException | None = None

    async def run(self, work: Awaitable[Any]) -> ToolResponse:
        """Return the result of *work* as a response."""
        try:
            self.result = await work
        except BaseException as error:
            self.error = error
            raise
        return response_of(self.result)


def _settled(end: CallEnd, ended: _ToolEnd) -> Any:
    """Return the end of a call as the framework's result, or raise as its tools do."""
    response = end.response
    if end.status == "denied":
        return ToolDenied(response.text)
    # The framework counts these against the tool's retries, as it does without a bridge.
    if end.status in {"unknown_tool", "invalid_arguments"}:
        raise ModelRetry(response.text)
    if response.is_error:
        if isinstance(end.error, ModelRetry | ToolFailed | AgentRunError):
            raise end.error
        raise (ModelRetry if isinstance(ended.error, ModelRetry) else ToolFailed)(response.text)
    if not end.is_changed:
        return ended.result
    if isinstance(ended.result, ToolReturn):
        return replace(ended.result, return_value=value_of(response), content=None)
    return value_of(response)


def _ask(ctx: RunContext[Any]) -> Callable[[Ask, ToolCall], Awaitable[bool]] | None:
    """Return the framework's own approval of a call, or None if the run cannot pause for it."""
    if not ctx.tool_call_approved and not _can_pause(ctx):
        return None

    async def ask(question: Ask, call: ToolCall) -> bool:
        if ctx.tool_call_approved:
            return True
        raise ApprovalRequired({"question": question.prompt, "arguments": thaw(call.arguments)})

    return ask


def _can_pause(ctx: RunContext[Any]) -> bool:
    hook = AbstractCapability.handle_deferred_tool_calls
    if any(type(each).handle_deferred_tool_calls is not hook for each in ctx.capabilities.values()):
        return True
    output = ctx.agent.output_type if ctx.agent else None
    return DeferredToolRequests in (output if isinstance(output, list | tuple) else [output])


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
