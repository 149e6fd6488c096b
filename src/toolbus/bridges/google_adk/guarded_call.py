"""One call of a tool in Google ADK, through handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from inspect import isasyncgen
from typing import TYPE_CHECKING, Any, TypeAlias

from google.adk.tools.base_tool import BaseTool

# A sub-agent in a tool pauses by this error, which has no public module (google-adk 2.13).
from google.adk.workflow._errors import NodeInterruptedError

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.google_adk.contents import call_of, response_of, result_of, spec_of
from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.codec import encode
from toolbus.messages.ids import new_id
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from google.adk.tools.tool_context import ToolContext

    from toolbus.bridges.session import BridgeSession
    from toolbus.events.catalogue import Ask
    from toolbus.messages.records import ToolCall, ToolResponse

PAUSED = {"status": "the call waits for the user"}
"""The result of a paused call, which the result of its end replaces."""

CURRENT: ContextVar[ToolContext | None] = ContextVar("toolbus_google_adk_call", default=None)
"""The call whose tool runs here."""
RunAsync: TypeAlias = Callable[..., Awaitable[Any]]
"""The method `run_async` of a tool, with *args* and *tool_context*."""


class PausedError(Exception):
    """The call waits for the user of the framework."""


class GuardedCall:
    """The call of *tool* in *context*, in *session*; its user answers questions if *can_ask*."""

    def __init__(
        self, session: BridgeSession, tool: BaseTool, context: ToolContext, *, can_ask: bool
    ) -> None:
        self._session, self._tool, self._context = session, tool, context
        self._can_ask, self._is_resumed = can_ask, context.tool_confirmation is not None
        self.call_id = context.function_call_id or new_id()

    async def run(self, inner: RunAsync, arguments: dict[str, Any]) -> Any:
        """Take the call through the handlers and *inner*, the tool; return the result."""
        spec, result = self._spec(), None

        async def run_tool(final: dict[str, Any]) -> ToolResponse:
            nonlocal result
            with set_context(CURRENT, self._context):
                result = await inner(args=final, tool_context=self._context)
            if self._is_paused():
                if not self._is_resumed:
                    raise PausedError
                self._context.actions.requested_tool_confirmations.pop(self.call_id, None)
                raise BridgeError("the tool asked its user, who was asked about the call before")
            if isasyncgen(result):
                raise BridgeError("a streaming tool is refused: no handler gets its pieces")
            return response_of(result)

        try:
            end = await self._session.call(
                call_of(self.call_id, self._tool.name, arguments),
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
        if type(self._tool) is BaseTool:
            return None
        declaration = self._tool._get_declaration()  # noqa: SLF001 - each tool implements it
        return ToolSpec(name=self._tool.name) if declaration is None else spec_of(declaration)

    def _is_paused(self) -> bool:
        """Return whether the tool has asked the user."""
        actions = self._context.actions
        asked = {**actions.requested_tool_confirmations, **actions.requested_auth_configs}
        return self.call_id in asked

    async def _ask(self, ask: Ask, call: ToolCall) -> bool | None:
        """Ask the user of the framework; the call pauses, and is made again with the answer.

        The framework asks once about a call (google-adk 2.13). If that was another question, such
        as one of the tool's own, ours is left to the approver.
        """
        hint = f"{ask.prompt} {call.name}({encode(call.arguments).decode()})"
        confirmation = self._context.tool_confirmation
        if confirmation is None:
            self._context.request_confirmation(hint=hint)
            self._context.actions.skip_summarization = True
            raise PausedError
        if self._answered() != {hint}:
            return None
        # The tool would take the answer as one to a question of its own.
        self._context.tool_confirmation = None
        return confirmation.confirmed is True

    def _answered(self) -> set[str]:
        """Return the hints of the questions about the call that the user has just answered.

        A model can call `adk_request_confirmation` itself, and ask the user a question of its own.
        """
        events, hints = self._context.session.events, set[str]()
        by_user = [event.get_function_responses() for event in events if event.author == "user"]
        ids = {answer.id for answers in by_user[-1:] for answer in answers}
        for call in [call for event in events for call in event.get_function_calls()]:
            match call.args if call.id in ids else None:
                case {
                    "originalFunctionCall": {"id": self.call_id},
                    "toolConfirmation": {"hint": hint},
                }:
                    hints.add(str(hint))
                case {"originalFunctionCall": {"id": self.call_id}}:
                    hints.add("")
        return hints
