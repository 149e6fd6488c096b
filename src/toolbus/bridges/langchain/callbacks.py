"""The calls of sub-agents that nobody wrapped: LangChain's callbacks reach them, and may refuse.

A run inside of a tool inherits the callbacks of the tool, except in a thread without its context,
and before langgraph 1.2 except a run with callbacks of its own. A callback cannot rewrite
arguments, so a rewritten call is refused. Calls of unknown tools have no callback.
"""

from __future__ import annotations

from asyncio import CancelledError
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolInvocationError

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.langchain.tool_messages import message_in, message_of, response_of
from toolbus.bridges.session import CallEnd
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from toolbus.bridges.session import BridgeSession

REWRITTEN = "a handler changed the arguments, which an agent that is not wrapped cannot follow"


def agent_of(metadata: Mapping[str, Any]) -> str:
    """Return the name that `create_agent` got, from the *metadata* of a run; "" without one."""
    return metadata.get("lc_agent_name") or ""


class CallRefused(ToolInvocationError):
    """The reply to a call in place of its tool's; `ToolNode` shows it to the model by default."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self.message = text


class NestedCall(Thread):
    """A call of a tool by a sub-agent of *session*, whose start and end only callbacks tell."""

    def __init__(self, session: BridgeSession, call: ToolCall, spec: ToolSpec) -> None:
        super().__init__(daemon=True)
        self._session, self._call, self._spec = session, call, spec
        self._steps: SimpleQueue[CallEnd | dict[str, Any]] = SimpleQueue()
        self._outcomes: SimpleQueue[ToolResponse | BaseException] = SimpleQueue()

    def run(self) -> None:
        """Take the call through the handlers; the tool runs elsewhere, between two steps."""
        try:
            end = self._session.call_sync(
                self._call, self._spec, self._tool, passes=(GraphBubbleUp,)
            )
        except BaseException as error:  # noqa: BLE001 - it has left the tool already
            end = CallEnd(ToolResponse(), error=error, is_changed=False)
        self._steps.put(end)

    def begin(self) -> None:
        """Return when the tool may run; raises `CallRefused`."""
        self.start()
        step = self._steps.get()
        if isinstance(step, dict) and step != self._call.arguments:
            step = self.finish(BridgeError(REWRITTEN))
        if isinstance(step, CallEnd):
            raise CallRefused(step.response.text)

    def finish(self, outcome: ToolResponse | BaseException) -> CallEnd:
        """Return the end of the call whose tool ended with *outcome*."""
        while not isinstance(step := self._put(outcome), CallEnd):
            outcome = BridgeError("a call of an unwrapped sub-agent cannot run again")
        return step

    def abandon(self) -> None:
        """End the call as cancelled, without waiting for its end."""
        self._outcomes.put(CancelledError())

    def _put(self, outcome: ToolResponse | BaseException) -> CallEnd | dict[str, Any]:
        self._outcomes.put(outcome)
        return self._steps.get()

    def _tool(self, arguments: dict[str, Any]) -> ToolResponse:
        self._steps.put(arguments)
        outcome = self._outcomes.get()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class SubAgentCalls(BaseCallbackHandler):
    """The handler of the calls that sub-agents make in the tool of *call*.

    Tools with the tag *guarded* pass the same components themselves.
    """

    raise_error = True

    def __init__(self, session: BridgeSession, call: ToolCall, guarded: str) -> None:
        self._session, self._call, self.guarded = session, call, guarded
        self._calls: dict[UUID, tuple[NestedCall, ToolCall]] = {}

    def abandon(self) -> None:
        """End the calls that still run as cancelled, for the run has been."""
        for nested, _ in self._calls.values():
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
        call = ToolCall(id=tool_call_id, name=name, arguments=inputs or {})
        spec = ToolSpec(name=name, description=serialized.get("description", ""))
        agent = agent_of(metadata or {}) or self._call.name
        below = self._session.host.session_below(self._session, agent, self._call.id)
        nested = NestedCall(below, call, spec)
        nested.begin()
        self._calls[run_id] = nested, call

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Put the response that handlers left into *output*, which the model reads afterwards."""
        nested, call = self._calls.pop(run_id, (None, None))
        if nested is None or call is None:
            return
        message = message_in(output, call.id)
        end = nested.finish(response_of(message))
        if end.is_changed and message is not None:
            changed = message_of(end.response, call, message)
            for name in ("content", "artifact", "status"):
                setattr(message, name, getattr(changed, name))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Raise the failure that handlers left in place of *error*."""
        nested, _call = self._calls.pop(run_id, (None, None))
        if nested is not None:
            end = nested.finish(error)
            if end.error is None:
                raise CallRefused(end.response.text) from None
