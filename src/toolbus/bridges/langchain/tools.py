"""The tools of an agent, guarded, and the calls of sub-agents that run in them.

`BaseTool.run` tells callbacks, tracers and streams what the tool returned; a middleware can only
change what the model reads afterwards. So the handlers stand in the tool.
"""

from __future__ import annotations

import asyncio
import copy
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cache
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - LangChain reads hints of `_run`
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.types import interrupt

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.langchain.messages import (
    call_of,
    message_in,
    message_of,
    put_response,
    response_of,
    with_messages,
)
from toolbus.bridges.threads import start
from toolbus.events.catalogue import Ask, Deny, ToolSpec
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from toolbus.bridges.langchain.bridge import LangChainBridge
    from toolbus.bridges.session import BridgeSession, CallEnd


class GuardedTool(BaseTool):
    """A tool whose calls pass the components of *bridge* before and after *inner* runs.

    Handlers do not see the parameters *injected* by LangGraph, such as its state. A middleware puts
    a copy with its *session* into a request.
    """

    inner: BaseTool
    bridge: Any
    spec: Any
    injected: frozenset[str]
    session: Any = None
    # `ToolNode` looks for injected parameters in the functions of a tool.
    func: Any = None
    coroutine: Any = None

    def check(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the problem that pydantic finds in *arguments*."""
        schema: Any = self.inner.tool_call_schema
        if self.inner.args_schema is None or not hasattr(schema, "model_validate"):
            return None  # The tool looks for problems itself.
        try:
            schema.model_validate(arguments)
        except ValueError as error:
            return str(error)
        return None

    # Private in langchain-core (1.0 to 1.8): `run` validates arguments here before it calls `_run`.
    # Here the handlers come first, and they need the id of the call.
    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[()], dict[str, Any]]:
        return (), {"asked": (tool_call_id, tool_input)}

    def _run(self, asked: Any, config: RunnableConfig, run_manager: Any) -> Any:
        work = ToolCallRun(self, asked, config, run_manager)
        end = work.session.call_sync(
            work.call, self.spec, work.run, ask=work.ask, check=self.check, passes=(GraphBubbleUp,)
        )
        return work.result(end)

    async def _arun(self, asked: Any, config: RunnableConfig, run_manager: Any) -> Any:
        work = ToolCallRun(self, asked, config, run_manager)

        async def ask(ask: Ask, call: ToolCall) -> bool | Deny | None:
            return work.ask(ask, call)

        end = await work.session.call(
            work.call, self.spec, work.arun, ask=ask, check=self.check, passes=(GraphBubbleUp,)
        )
        return work.result(end)


def guarded(tool: BaseTool, bridge: LangChainBridge) -> GuardedTool:
    """Return *tool*, guarded by *bridge*; the same object if it is already."""
    if isinstance(tool, GuardedTool) and tool.bridge is bridge:
        return tool
    function = convert_to_openai_tool(tool)["function"]
    schema = function.get("parameters", {"type": "object", "properties": {}})
    description = function.get("description", "")
    return GuardedTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.args_schema or schema,
        return_direct=tool.return_direct,
        tags=[*(tool.tags or ()), bridge.tag],
        metadata=tool.metadata,
        inner=tool,
        bridge=bridge,
        spec=ToolSpec(name=tool.name, description=description, input_schema=schema),
        injected=_injected_in(tool),
        func=getattr(tool, "func", None),
        coroutine=getattr(tool, "coroutine", None),
    )


def _injected_in(tool: BaseTool) -> frozenset[str]:
    # Private in langchain-core (1.0 to 1.8): those of the function, for any schema.
    names = tool._injected_args_keys  # noqa: SLF001
    visible: Any = tool.tool_call_schema
    if not hasattr(visible, "model_fields"):
        return names  # A JSON schema.
    fields: Any = tool.get_input_schema()
    return names | (set(fields.model_fields) - set(visible.model_fields))


class ToolCallRun:
    """A call of a guarded tool: what the session needs of it, and its result for LangChain."""

    def __init__(
        self,
        tool: GuardedTool,
        asked: tuple[str | None, dict[str, Any]],
        config: RunnableConfig,
        run_manager: Any,
    ) -> None:
        self._tool, (call_id, arguments) = tool, asked
        self._injected = {
            name: value
            for name, value in arguments.items()
            if name in tool.injected or isinstance(value, ToolRuntime)
        }
        visible = {name: arguments[name] for name in arguments if name not in self._injected}
        self.call = call_of(call_id, tool.name, visible)
        self.session = tool.session or tool.bridge.session_of(config)
        self._outer = config
        self._below = SubAgentCalls(self.session, self.call, tool.bridge.tag)
        self._config = _quiet(config, run_manager, self._below)
        self._result: Any = None

    def run(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool in this thread."""
        return self._keep(self._tool.inner.invoke(self._input(arguments), self._config))

    async def arun(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool."""
        try:
            result = await self._tool.inner.ainvoke(self._input(arguments), self._config)
        except asyncio.CancelledError:
            # langchain-core 1.2 tells callbacks nothing of a cancelled tool.
            self._below.abandon()
            raise
        return self._keep(result)

    def ask(self, ask: Ask, call: ToolCall) -> bool | Deny | None:
        """Pause the run with a question in the form of LangChain's human-in-the-loop middleware.

        Return None if the bridge has an approver, or if the run cannot pause.
        """
        if not (self._tool.bridge.host.pauses and _can_pause(self._outer)):
            return None
        action = {"name": call.name, "args": thaw(call.arguments), "description": ask.prompt}
        review = {"action_name": call.name, "allowed_decisions": ["approve", "reject"]}
        return _decision(interrupt({"action_requests": [action], "review_configs": [review]}))

    def result(self, end: CallEnd) -> Any:
        """Return the result for LangChain."""
        result = self._result
        if end.is_changed or end.error is not None:
            message = message_in(result, self.call.id)
            if message is None:
                result = message_of(end.response, self.call)
            else:
                put_response(end.response, message)
        return result

    def _input(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self._result = None  # That of an earlier run, which a handler has repeated.
        arguments = {**arguments, **self._injected}
        return {"type": "tool_call", "id": self.call.id, "name": self.call.name, "args": arguments}

    def _keep(self, result: Any) -> ToolResponse:
        result = with_messages(result)
        response = response_of(message_in(result, self.call.id))
        self._result = result
        return response


def _can_pause(config: RunnableConfig) -> bool:
    """Return whether the run can be resumed, and an answer can only be for this call.

    langgraph 1.2: `interrupt` without a checkpointer ends the run for good. In a node with several
    calls the answers go to the calls in the order in which they ask, which may differ after the
    pause; `create_agent` has a task for each call ("push").
    """
    path = config.get("metadata", {}).get("langgraph_path", ())
    has_checkpointer = config.get("configurable", {}).get("__pregel_checkpointer") is not None
    return has_checkpointer and path[:1] == ("__pregel_push",)


def _decision(answer: Any) -> bool | Deny:
    """Return the decision in *answer*: true, or in the form of the human-in-the-loop middleware."""
    match answer:
        case {"decisions": [decision]}:
            return _decision(decision)
        case {"type": "reject", "message": str(message)}:
            return Deny(message)
        case {"type": "approve"}:
            return True
    return answer is True


def _quiet(
    config: RunnableConfig,
    run_manager: Any,
    sub_agents: SubAgentCalls,
) -> RunnableConfig:
    """Return *config* for the inner tool: it tells nobody that it runs, for the guarded one does.

    What runs in the tool has the guarded tool's run for its parent, as without a bridge.
    """
    manager = run_manager.get_child()
    manager.parent_run_id = run_manager.parent_run_id
    # langchain-core 1.8 adds a tracer of the environment unless a handler of its class is there.
    manager.handlers = [_muted(handler) for handler in manager.handlers]
    inherited = [
        handler
        for handler in manager.inheritable_handlers
        if not (isinstance(handler, SubAgentCalls) and handler.guarded == sub_agents.guarded)
    ]
    manager.inheritable_handlers = [sub_agents, *inherited]
    return {**config, "callbacks": manager, "run_id": run_manager.run_id}


def _muted(handler: BaseCallbackHandler) -> BaseCallbackHandler:
    muted = copy.copy(handler)
    muted.__class__ = _muted_class(handler.__class__)
    return muted


@cache
def _muted_class(kind: Any) -> Any:
    return type(kind.__name__, (kind,), {"ignore_agent": True})


# --- the calls of sub-agents that nobody wrapped --------------------------------------------------

# A run inside of a tool inherits the callbacks of the tool, except in a thread without its context.
# A callback may refuse a call, but cannot rewrite its arguments. Calls of unknown tools have no
# callback.


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
            call_of(tool_call_id, name, inputs or {}),
            ToolSpec(name=name, description=serialized.get("description", "")),
        )
        nested.begin()
        self._calls[run_id] = nested

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Put the response that handlers left into *output*, which the model reads afterwards."""
        if (nested := self._calls.pop(run_id, None)) is None:
            return
        try:
            message = message_in(output, nested.call.id)
        except ValueError as error:
            nested.end(error)
            raise CallRefused(str(error)) from None
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
