"""One call of a tool in Google ADK, and the guard of the tool that takes it through handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from inspect import isasyncgen, isasyncgenfunction, isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias

from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool

# A sub-agent in a tool pauses by this error, which has no public module (google-adk 2.13).
from google.adk.workflow._errors import NodeInterruptedError
from pydantic_core import from_json, to_json

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.google_adk.contents import (
    as_object,
    call_of,
    read_late_result,
    response_of,
    result_of,
    spec_of,
)
from toolbus.errors import ToolbusError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.codec import encode
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types

    from toolbus.bridges.bridged_call import RunTool
    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.events.catalogue import Ask
    from toolbus.messages.records import ToolCall, ToolResponse

CONFIRMATION = "adk_request_confirmation"
"""The name of the call by which the framework asks its user about another call."""
PAUSED = {"status": "the call waits for the user"}
"""The result of a paused call, which the result of its end replaces."""

RunAsync: TypeAlias = Callable[..., Awaitable[Any]]
"""The method `run_async` of a tool, with *args* and *tool_context*."""


class PausedError(Exception):
    """The call waits for the user of the framework."""


class FailedToolError(ToolbusError):
    """The failure of a tool, as handlers left it."""


class GuardedCall:
    """The call of *tool* in *context*, in *session*.

    *above* is the call that ran when it came: of another agent, or the same call in another bridge
    of the runner. With *confirms* the framework asks its user about it.
    """

    is_running = is_taken = has_raised = False
    result: Any = None

    def __init__(
        self,
        session: BridgeSession,
        tool: BaseTool,
        context: ToolContext,
        *,
        above: GuardedCall | None,
        confirms: bool,
    ) -> None:
        self.session, self.tool, self.context = session, tool, context
        self.call_id = context.function_call_id or new_id()
        self._is_resumed = context.tool_confirmation is not None
        self._twin = above if above is not None and above.waits_in(context) else None
        invocation = context.get_invocation_context()
        # A runner in a tool ends before its user can answer, a live call does not wait, and a tool
        # of a workflow without an agent makes another call with the answer (google-adk 2.13).
        self._can_ask = (
            confirms
            and (above is None or above.context.invocation_id == context.invocation_id)
            and invocation.live_request_queue is None
            and isinstance(invocation.agent, LlmAgent)
        )

    @property
    def runs_later(self) -> bool:
        """Whether the framework first says that the tool runs: a generator in a live run does."""
        is_live = self.context.get_invocation_context().live_request_queue is not None
        return (
            is_live and isinstance(self.tool, FunctionTool) and isasyncgenfunction(self.tool.func)
        )

    def waits_in(self, context: ToolContext) -> bool:
        """Return whether it is the call in *context*, and no handler has seen it yet."""
        return context is self.context and not self.is_taken

    @property
    def is_paused(self) -> bool:
        """Whether the tool, or the framework for it, has asked the user."""
        actions = self.context.actions
        asked = {**actions.requested_tool_confirmations, **actions.requested_auth_configs}
        return self.call_id in asked

    async def run(self, inner: RunAsync, arguments: dict[str, Any]) -> Any:
        """Take the call through the handlers and *inner*, the tool; return the result."""
        if self.is_taken:  # Another callback repeats the call.
            self.call_id = new_id()
        self.is_taken = True
        declaration = self.tool._get_declaration()  # noqa: SLF001 - each tool implements it
        spec = ToolSpec(name=self.tool.name) if declaration is None else spec_of(declaration)

        async def run_tool(final: dict[str, Any]) -> ToolResponse:
            self.is_running = self.has_raised = True
            try:
                self.result = await self._run_tool(inner, final)
            finally:
                self.is_running = False
            if self.is_paused and self._is_resumed:
                self.context.actions.requested_tool_confirmations.pop(self.call_id, None)
                msg = "the tool asked its user, who had been asked about the call before"
                raise FailedToolError(msg)
            if self.is_paused:
                raise PausedError
            self.has_raised = False
            return response_of(self.result)

        try:
            return await self.end(arguments, spec, run_tool)
        except PausedError:
            return PAUSED

    async def end(
        self, arguments: dict[str, Any], spec: ToolSpec | None, run: RunTool | None = None
    ) -> Any:
        """Take the call to its end; return the result. Without *spec* the tool is unknown."""
        end = await self.session.call(
            call_of(self.call_id, self.tool.name, arguments),
            spec,
            run or _run_unknown,
            ask=self._ask if self._can_ask else None,
            check=None if spec is None else partial(schemas.problem, spec.input_schema),
            passes=(NodeInterruptedError, PausedError),
        )
        if end.response.is_error and (self.has_raised or end.status == "unknown_tool"):
            return await self._answer_failure(end, arguments)
        return result_of(end.response) if end.is_changed or self.has_raised else self.result

    async def _run_tool(self, inner: RunAsync, arguments: dict[str, Any]) -> Any:
        if self._twin is not None:
            return await self._twin.run(inner, arguments)
        result = await inner(args=arguments, tool_context=self.context)
        await self._judge_answer()
        return self._read_stream(result) if isasyncgen(result) else result

    async def _judge_answer(self) -> None:
        """Judge the run's answer if the tool has set it, as that of an output schema does."""
        actions = self.context.actions
        if actions.set_model_response is not None:
            answer, actions.set_model_response = actions.set_model_response, None
            text = to_json(answer).decode()
            read = await self.session.answer(text)
            actions.set_model_response = answer if read == text else from_json(read)

    async def _read_stream(self, results: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the *results* of a streaming tool of a live run as handlers leave them."""
        async for result in results:
            yield await read_late_result(self.session, self.tool.name, self.call_id, result)

    async def _answer_failure(self, end: CallEnd, arguments: dict[str, Any]) -> Any:
        """Return the failure for the model, or the answer of the program's own error callbacks.

        They get the failure as handlers left it. Without an answer the framework would end the run.
        """
        text = end.response.text
        error = end.error if isinstance(end.error, Exception) else FailedToolError(text)
        tool, context, invocation = self.tool, self.context, self.context.get_invocation_context()
        answer: Any = await invocation.plugin_manager.run_on_tool_error_callback(
            tool=tool, tool_args=arguments, tool_context=context, error=error
        )
        for callback in getattr(invocation.agent, "canonical_on_tool_error_callbacks", ()):
            if answer is not None:
                break
            answer = callback(tool=tool, args=arguments, tool_context=context, error=error)
            answer = await answer if isawaitable(answer) else answer
        return as_object(result_of(end.response)) if answer is None else answer

    async def _ask(self, ask: Ask, call: ToolCall) -> bool | None:
        """Ask the user of the framework; the call pauses, and is made again with the answer.

        The framework asks once about a call (google-adk 2.13). If that was another question, such
        as one of the tool's own, ours is left to the approver.
        """
        hint = f"{ask.prompt} {call.name}({encode(call.arguments).decode()})"
        confirmation = self.context.tool_confirmation
        if confirmation is None:
            self.context.request_confirmation(hint=hint)
            self.context.actions.skip_summarization = True
            raise PausedError
        if self._shown_hint() != hint:
            return None
        # The tool would take the answer as one to a question of its own.
        self.context.tool_confirmation = None
        return confirmation.confirmed is True

    def _shown_hint(self) -> str:
        for event in reversed(self.context.session.events):
            for call in event.get_function_calls():
                arguments = call.args or {}
                asked = arguments.get("originalFunctionCall", {})
                if call.name == CONFIRMATION and asked.get("id") == self.call_id:
                    return str(arguments["toolConfirmation"].get("hint", ""))
        return ""


CURRENT: ContextVar[GuardedCall | None] = ContextVar("toolbus_google_adk_call", default=None)
"""The call of this task, in which the framework runs the callbacks of a tool and the tool."""


class _GuardedRun:
    """The method `run_async` of *tool*, for calls in runners with and without a bridge.

    The framework has no hook around a tool: a callback that ran the tool would skip the tool's
    confirmation and the callbacks after its own (google-adk 2.13).
    """

    def __init__(self, tool: BaseTool) -> None:
        self._tool, self._replaced = tool, vars(tool).get("run_async")

    async def __call__(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        call = CURRENT.get()
        if call is None or call.context is not tool_context or call.is_running:
            return await self._inner(self._tool)(args=args, tool_context=tool_context)
        # Toolsets rename their tools in copies, which have this method too.
        return await call.run(self._inner(call.tool), args)

    def _inner(self, tool: BaseTool) -> RunAsync:
        inner: RunAsync = self._replaced or partial(type(tool).run_async, tool)
        return inner


def guard(tool: BaseTool) -> None:
    """Let the call of its task run *tool*."""
    if not isinstance(tool.run_async, _GuardedRun):
        vars(tool)["run_async"] = _GuardedRun(tool)
    if not isinstance(tool.run_async, _GuardedRun):
        raise BridgeError(f"`run_async` of the tool {tool.name!r} cannot be replaced")


async def run_task(session: BridgeSession, call: types.FunctionCall) -> str | None:
    """Take a call that delegates a task through the handlers; return why it may not run."""
    arguments = call.args or {}

    async def run(final: dict[str, Any]) -> ToolResponse:
        if final != arguments:
            raise FailedToolError("a task is delegated with the arguments of the model alone")
        return response_of("the task begins")

    task = call_of(str(call.id), str(call.name), arguments)
    end = await session.call(task, ToolSpec(name=task.name), run)
    return None if end.status == "ok" else end.response.text


async def _run_unknown(_: dict[str, Any]) -> ToolResponse:
    msg = "the agent has no such tool"
    raise LookupError(msg)
