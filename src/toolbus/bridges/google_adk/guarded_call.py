"""One call of a tool in Google ADK, and the guard of the tool that takes it through handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from inspect import isasyncgen
from typing import TYPE_CHECKING, Any, TypeAlias

from google.adk.agents import LlmAgent
from google.adk.tools.base_tool import BaseTool

# A sub-agent in a tool pauses by this error, which has no public module (google-adk 2.13).
from google.adk.workflow._errors import NodeInterruptedError

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.google_adk.contents import call_of, response_of, result_of, spec_of
from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.codec import encode
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from google.adk.tools.tool_context import ToolContext

    from toolbus.bridges.session import BridgeSession
    from toolbus.events.catalogue import Ask
    from toolbus.messages.records import ToolCall, ToolResponse

PAUSED = {"status": "the call waits for the user"}
"""The result of a paused call, which the result of its end replaces."""

RunAsync: TypeAlias = Callable[..., Awaitable[Any]]
"""The method `run_async` of a tool, with *args* and *tool_context*."""


class PausedError(Exception):
    """The call waits for the user of the framework."""


class GuardedCall:
    """The call of *tool* in *context*, in *session*; its id joins *judged* when it is judged.

    With *confirms* the framework asks its user about it.
    """

    is_running = False

    def __init__(
        self,
        session: BridgeSession,
        tool: BaseTool,
        context: ToolContext,
        *,
        judged: set[str],
        confirms: bool,
    ) -> None:
        self._session, self.tool, self.context = session, tool, context
        self._call_id = context.function_call_id or new_id()
        self._judged, self._is_resumed = judged, context.tool_confirmation is not None
        above, invocation = CURRENT.get(), context.get_invocation_context()
        # A runner in a tool ends before its user can answer, a live call does not wait, and a tool
        # of a workflow without an agent makes another call with the answer (google-adk 2.13).
        self._can_ask = (
            confirms
            and (above is None or above.context.invocation_id == context.invocation_id)
            and invocation.live_request_queue is None
            and isinstance(invocation.agent, LlmAgent)
        )

    async def run(self, inner: RunAsync, arguments: dict[str, Any]) -> Any:
        """Take the call through the handlers and *inner*, the tool; return the result."""
        self._judged.add(self._call_id)
        spec, result = self._spec(), None

        async def run_tool(final: dict[str, Any]) -> ToolResponse:
            nonlocal result
            self.is_running = True
            try:
                result = await inner(args=final, tool_context=self.context)
            finally:
                self.is_running = False
            if self._is_paused() and self._is_resumed:
                self.context.actions.requested_tool_confirmations.pop(self._call_id, None)
                raise BridgeError("the tool asked its user, who was asked about the call before")
            if self._is_paused():
                raise PausedError
            if isasyncgen(result):
                raise BridgeError("a streaming tool is refused: no handler gets its pieces")
            return response_of(result)

        try:
            end = await self._session.call(
                call_of(self._call_id, self.tool.name, arguments),
                spec,
                run_tool,
                ask=self._ask if self._can_ask else None,
                check=None if spec is None else partial(schemas.problem, spec.input_schema),
                passes=(NodeInterruptedError, PausedError),
            )
        except PausedError:
            return PAUSED
        # A raised failure would end the run.
        is_own = not end.is_changed and end.error is None
        return result if is_own else result_of(end.response)

    def _spec(self) -> ToolSpec | None:
        # The call of an unknown tool has a plain `BaseTool` (google-adk 2.13).
        if type(self.tool) is BaseTool:
            return None
        declaration = self.tool._get_declaration()  # noqa: SLF001 - each tool implements it
        return ToolSpec(name=self.tool.name) if declaration is None else spec_of(declaration)

    def _is_paused(self) -> bool:
        """Return whether the tool has asked the user."""
        actions = self.context.actions
        asked = {**actions.requested_tool_confirmations, **actions.requested_auth_configs}
        return self._call_id in asked

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
        events = self.context.session.events
        asked = [event.actions.requested_tool_confirmations.get(self._call_id) for event in events]
        if [each.hint for each in asked if each is not None][-1:] != [hint]:
            return None
        # The tool would take the answer as one to a question of its own.
        self.context.tool_confirmation = None
        return confirmation.confirmed is True


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
