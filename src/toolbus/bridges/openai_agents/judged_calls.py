"""One call of the OpenAI Agents SDK: judged before its approval, run after that.

Facts about the framework are from runs with openai-agents 0.24.0.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from contextvars import ContextVar, copy_context
from copy import copy
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from agents import (
    Agent,
    FunctionTool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    ToolTimeoutError,
)
from agents.function_schema import function_schema
from agents.tool import (
    invoke_function_tool,
    maybe_invoke_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)

from toolbus.bridges.bridged_call import RUNNING, RunningCall
from toolbus.errors import FreezeError, RegistrationError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import replace_surrogates, thaw
from toolbus.messages.records import ToolCall, ToolResponse
from toolbus.models.answers import given_call
from toolbus.tasks.loops import set_context
from toolbus.tools.calls.execution import failure, to_response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Context

    from agents import RunContextWrapper, Tool
    from agents.tool_context import ToolContext

    from toolbus.bridges.openai_agents.judged_runs import JudgedRun
    from toolbus.bridges.session import CallEnd
    from toolbus.events.catalogue import Ask, Deny


_FORMS = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
"""The kinds of results that the framework does not show the model as their text."""

CURRENT: ContextVar[JudgedRun | None] = ContextVar("toolbus_openai_agents_run", default=None)
"""The run of the code that runs now; inside a tool, that of the sub-agents which it may run."""


def current_run(name: str) -> JudgedRun:
    """Return the run in which the agent or tool *name* runs; raises outside of one."""
    run = CURRENT.get()
    if run is None:
        reason = "it is wrapped, and no bridge has seen the prompt; use `bridge.run`, not `Runner`"
        raise RegistrationError(f"{name!r}", reason)
    return run


class AwaitsApprovalError(Exception):
    """The framework waits for its user's approval, and makes the call again afterwards."""


class JudgedTool:
    """A *tool* of an agent, whose calls pass the components; the agent has no *unknown* one."""

    def __init__(self, tool: FunctionTool, *, is_unknown: bool = False) -> None:
        self.tool, self.name = tool, tool.qualified_name
        self.spec = None if is_unknown else spec_of(tool)

    def shown(self, offered: ToolSpec) -> FunctionTool:
        """Return the tool for the framework, as *offered*, and with its pauses for approval."""
        shown = copy(self.tool)
        shown.on_invoke_tool, shown.timeout_seconds = self.invoke, None
        if offered != self.spec:
            shown.description = offered.description
            shown.params_json_schema = thaw(offered.input_schema)
        if self.spec is not None:
            shown.needs_approval = self.needs_approval
        return shown

    async def needs_approval(
        self, context: RunContextWrapper[Any], parameters: dict[str, Any], call_id: str
    ) -> bool:
        """Return whether the call waits for the user: a guard asks, or the tool's own setting."""
        run = current_run(self.name)
        if context.is_tool_approved(self.name, call_id) is not None:
            return True
        call = JudgedCall(self, run, given_call(call_id, self.name, json.dumps(parameters)))
        run.calls[call_id] = call
        if not await call.is_asked():
            setting = self.tool.needs_approval
            needs = setting(context, parameters, call_id) if callable(setting) else setting
            if call.work.done() or not (await needs if isawaitable(needs) else needs):
                return False
        del run.calls[call_id]
        await call.pause()
        run.is_paused = True
        return True

    async def invoke(self, context: ToolContext[Any], arguments: str) -> Any:
        """Return the result of a call for the framework."""
        run, call_id = current_run(self.name), context.tool_call_id
        run.paused.pop(call_id, None)
        call = run.calls.get(call_id)
        if call is None:
            approved = context.is_tool_approved(self.name, call_id)
            call = JudgedCall(self, run, given_call(call_id, self.name, arguments))
            call.go_on(approved=approved)
            run.calls[call_id] = call
        try:
            end = await call.end(context, arguments)
        except AwaitsApprovalError:
            # A sub-agent's call waits: the framework looks for that itself.
            run.is_paused = True
            return None
        finally:
            if call.work.done():
                run.calls.pop(call_id, None)
        return await self._result(call, end, context)

    async def _result(self, call: JudgedCall, end: CallEnd, context: ToolContext[Any]) -> Any:
        if end.error is not None:
            return await self._failure(end.error, context)
        if not end.is_changed:
            return call.output
        structured = end.response.structured
        return end.response.text if structured is None else thaw(structured)

    async def _failure(self, error: BaseException, context: ToolContext[Any]) -> Any:
        """Return the text of a failure without a replacement, or raise it, as the tool does."""
        tool = self.tool
        if isinstance(error, ToolTimeoutError):
            if tool.timeout_behavior == "raise_exception":
                raise error
            return str(error)
        # A tool without this mark, made by hand, raises its errors.
        is_made_by_hand = not hasattr(tool.on_invoke_tool, "__agents_bind_function_tool__")
        if is_made_by_hand or not isinstance(error, Exception):
            raise error
        text = await maybe_invoke_function_tool_failure_error_function(
            function_tool=tool, context=context, error=error
        )
        if text is None:
            raise error
        return text

    async def run_tool(self, context: ToolContext[Any], arguments: str) -> Any:
        """Return the tool's own result; raise its own failure."""
        context, inner = copy(context), copy(self.tool)
        context.tool_arguments = arguments
        inner.timeout_behavior = "raise_exception"
        # The framework's masked text of a failure would reach the handlers otherwise.
        inner = set_function_tool_failure_error_function(inner, None)
        # The pause of a sub-agent that a function runs would end there.
        is_agent = agent_of(self.tool) is not None
        run = current_run(self.name)
        below, running = run.below(pauses=is_agent), RunningCall(run.session, context.tool_call_id)
        try:
            with set_context(CURRENT, below), set_context(RUNNING, running):
                output = await invoke_function_tool(
                    function_tool=inner, context=context, arguments=arguments
                )
        finally:
            await below.drop_calls()
        if below.is_paused and is_agent:
            raise AwaitsApprovalError
        return output

    def problem(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the problem of *arguments*; None also for a tool that validates them itself."""
        problem = schemas.problem(self.tool.params_json_schema, arguments)
        function = getattr(self.tool, "__wrapped__", None)
        if problem is None or function is None:
            return None
        # The framework converts some values, such as "2" for an integer.
        schema = function_schema(function, strict_json_schema=False)
        try:
            schema.params_pydantic_model(**arguments)
        except ValueError:
            return problem
        return None


class JudgedCall:
    """A call of *tool*: its way through the components, which waits for the framework to run it."""

    output: Any = None
    _approved: bool | None = None

    def __init__(self, tool: JudgedTool, run: JudgedRun, call: ToolCall) -> None:
        self.call, self._tool, self._text = call, tool, ""
        loop = asyncio.get_running_loop()
        self._asked: asyncio.Future[bool] = loop.create_future()
        self._started: asyncio.Future[tuple[ToolContext[Any], Context] | None]
        self._started = loop.create_future()
        ask = self._ask if run.pauses else None
        check, passes = tool.problem, (AwaitsApprovalError,)
        self.work: asyncio.Task[CallEnd] = asyncio.create_task(
            run.session.call(call, tool.spec, self._run, ask=ask, check=check, passes=passes)
        )

    def go_on(self, *, approved: bool | None) -> None:
        """Let the call go on without a pause; *approved* is the user's answer, None without one."""
        self._approved = approved
        self._asked.set_result(False)

    async def is_asked(self) -> bool:
        """Wait for the guards; return whether a guard asks."""
        either: set[asyncio.Future[Any]] = {self.work, self._asked}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return self._asked.done() and self._asked.result()

    async def pause(self) -> None:
        """Leave the call open, for its next process perhaps."""
        if not self._asked.result():
            self._started.set_exception(AwaitsApprovalError())
        with suppress(AwaitsApprovalError):
            await self.work

    async def end(self, context: ToolContext[Any], text: str) -> CallEnd:
        """Let the tool run in the caller's context; return the end of the call.

        *text* is the model's own text of the arguments.
        """
        self._text = text
        self._started.set_result((context, copy_context()))
        return await self.work

    async def refuse(self, text: str) -> None:
        """End the call, which the framework has answered with *text* instead of running it."""
        self._text = text
        self._started.set_result(None)
        await asyncio.wait({self.work})

    async def _ask(self, ask: Ask, call: ToolCall) -> bool | Deny | None:  # noqa: ARG002
        if not self._asked.done():
            self._asked.set_result(True)
            raise AwaitsApprovalError
        return self._approved

    async def _run(self, arguments: dict[str, Any]) -> ToolResponse:
        if not self._asked.done():
            self._asked.set_result(False)
        started = await asyncio.shield(self._started)
        if started is None:
            return failure(self._text, "denied")
        context, variables = started
        text = self._text if arguments == self.call.arguments else json.dumps(arguments)
        work = self._tool.run_tool(context, text)
        self.output = await asyncio.create_task(work, context=variables)
        return _response_of(self.output)


def _response_of(output: Any) -> ToolResponse:
    """Return the *output* of a tool as the model reads it.

    That reads the text of each object but those of the framework. For handlers JSON is JSON, but
    bytes and objects in it have another text, such as fields that pydantic leaves out of JSON.
    """
    has_form = isinstance(output, _FORMS) or _is_json(output)
    with suppress(FreezeError, TypeError):
        return to_response(output if has_form else str(output))
    return ToolResponse.from_text(replace_surrogates(str(output)))


def _is_json(value: Any) -> bool:
    match value:
        case dict():
            return all(map(_is_json, (*value, *value.values())))
        case list() | tuple():
            return all(isinstance(each, _FORMS) or _is_json(each) for each in value)
    return value is None or isinstance(value, str | int | float)


def agent_of(tool: Tool) -> Agent[Any] | None:
    """Return the agent of which `Agent.as_tool` made *tool*, or None."""
    # Private, but nothing else leads to the agent.
    agent = tool._agent_instance if isinstance(tool, FunctionTool) else None  # noqa: SLF001
    return agent if isinstance(agent, Agent) else None


def spec_of(tool: FunctionTool) -> ToolSpec:
    """Return *tool* in our terms."""
    hints = getattr(tool, "mcp_annotations", None)  # Only since 0.24.
    return ToolSpec(
        name=tool.qualified_name,
        description=tool.description,
        input_schema=tool.params_json_schema,
        annotations={} if hints is None else hints.model_dump(by_alias=True, exclude_none=True),
    )


def unknown(spec: ToolSpec) -> FunctionTool:
    """Return a tool for calls of a name that no tool of the agent has."""
    schema, fail = thaw(spec.input_schema), JudgedTool.invoke  # Replaced, and never run.
    tool = FunctionTool(spec.name, spec.description, schema, fail, strict_json_schema=False)
    return JudgedTool(tool, is_unknown=True).shown(spec)
