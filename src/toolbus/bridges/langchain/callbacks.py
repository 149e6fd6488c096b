"""The calls of sub-agents that nobody wrapped: LangChain's callbacks reach them, and may refuse.

A run inside of a tool inherits the callbacks of the tool, except in a thread without its context,
and before langgraph 1.2 except a run with callbacks of its own. A callback cannot rewrite
arguments, so a rewritten call is refused. Calls of unknown tools have no callback.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolInvocationError

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.langchain.messages import message_in, put_response, response_of
from toolbus.bridges.threads import start
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from uuid import UUID

    from toolbus.bridges.session import BridgeSession, CallEnd


class CallRefused(ToolInvocationError):
    """The reply to a call in place of its tool's; `ToolNode` shows it to the model by default."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self.message = text


class NestedCall:
    """The *call* of a sub-agent of *session*, whose start and end only callbacks tell."""

    def __init__(self, session: BridgeSession, call: ToolCall, spec: ToolSpec) -> None:
        self.call = call
        self._arguments: Future[dict[str, Any]] = Future()
        self._outcome: Future[ToolResponse] = Future()
        # A timeout of the call cannot cancel it, so that the tool still has a place for its result.
        self._outcome.set_running_or_notify_cancel()
        self._end = start(session.call(call, spec, self._run, passes=(GraphBubbleUp,)))

    async def _run(self, arguments: dict[str, Any]) -> ToolResponse:
        if self._arguments.done():
            raise BridgeError("a call of an unwrapped sub-agent cannot run again")
        if arguments != self.call.arguments:
            raise BridgeError("a handler changed the arguments of an agent that is not wrapped")
        self._arguments.set_result(arguments)
        return await asyncio.wrap_future(self._outcome)

    def begin(self) -> None:
        """Return when the tool may run; raises `CallRefused`."""
        steps: tuple[Future[Any], ...] = (self._arguments, self._end)
        wait(steps, return_when=FIRST_COMPLETED)
        if not self._arguments.done():
            raise CallRefused(self._end.result().response.text)

    def end(self, outcome: ToolResponse | BaseException) -> CallEnd | None:
        """Return the end of the call, whose tool ended with *outcome*; None for a paused one."""
        if isinstance(outcome, ToolResponse):
            self._outcome.set_result(outcome)
        elif isinstance(outcome, Exception):
            self._outcome.set_exception(outcome)
        else:
            self.abandon()
        wait((self._end,))
        if self._end.cancelled() or isinstance(self._end.exception(), GraphBubbleUp):
            return None
        return self._end.result()

    def abandon(self) -> None:
        """End the call as cancelled, without waiting for its end."""
        self._end.cancel()


class SubAgentCalls(BaseCallbackHandler):
    """The handler of the calls that sub-agents make in the tool of *call*.

    Tools with the tag *guarded* pass the same components themselves.
    """

    raise_error = True

    def __init__(self, session: BridgeSession, call: ToolCall, guarded: str) -> None:
        self._session, self._call, self.guarded = session, call, guarded
        self._calls: dict[UUID, NestedCall] = {}

    def abandon(self) -> None:
        """End the calls that still run as cancelled, for the run has been."""
        for nested in self._calls.values():
            nested.abandon()
        self._calls.clear()

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,  # noqa: ARG002 - as in `BaseCallbackHandler`
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        """Judge a call of a model; a program's own calls have no id."""
        if tool_call_id is None or self.guarded in (tags or ()):
            return
        name = serialized["name"]
        agent = (metadata or {}).get("lc_agent_name") or self._call.name
        nested = NestedCall(
            self._session.host.session_below(self._session, agent, self._call.id),
            ToolCall(id=tool_call_id, name=name, arguments=inputs or {}),
            ToolSpec(name=name, description=serialized.get("description", "")),
        )
        nested.begin()
        self._calls[run_id] = nested

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Put the response that handlers left into *output*, which the model reads afterwards."""
        if (nested := self._calls.pop(run_id, None)) is None:
            return
        message = message_in(output, nested.call.id)
        end = nested.end(response_of(message))
        if end is not None and end.is_changed and message is not None:
            put_response(end.response, message)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Raise the failure that handlers left in place of *error*."""
        if (nested := self._calls.pop(run_id, None)) is None:
            return
        end = nested.end(error)
        if end is not None and end.error is None:
            raise CallRefused(end.response.text) from None
