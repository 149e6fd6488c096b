"""The tools of an agent, guarded: a call passes the handlers inside of the tool's callbacks.

`BaseTool.run` tells callbacks, tracers and streams what the tool returned; a middleware can only
change what the model reads afterwards. So the handlers stand in the tool.
"""

from __future__ import annotations

import copy
from asyncio import CancelledError
from contextvars import ContextVar
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from langchain_core.callbacks import (
    AsyncCallbackManagerForToolRun,  # noqa: TC002 - LangChain reads the hints of `_run`
    BaseCallbackHandler,  # noqa: TC002 - likewise, as pydantic does
    CallbackManagerForToolRun,  # noqa: TC002
)
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - likewise
from langchain_core.tools import BaseTool, InjectedToolArg, Tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt

from toolbus.bridges.langchain.callbacks import SubAgentCalls
from toolbus.bridges.langchain.tool_messages import (
    message_in,
    message_of,
    response_of,
    with_message,
)
from toolbus.events.catalogue import Ask, Deny, ToolSpec
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall, ToolResponse
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.bridges.langchain.bridge import LangChainBridge
    from toolbus.bridges.session import BridgeSession, CallEnd

SESSION: ContextVar[BridgeSession | None] = ContextVar("toolbus_langchain_session", default=None)
"""The session of the call that a middleware is giving to its tool."""


class GuardedTool(BaseTool):
    """A tool whose calls pass the components of *bridge* before and after *inner* runs."""

    inner: BaseTool
    bridge: Any
    # `ToolNode` looks for injected parameters in the functions of a tool.
    func: Any = None
    coroutine: Any = None

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        function = convert_to_openai_tool(self.inner)["function"]
        return ToolSpec(
            name=self.name,
            description=function.get("description", ""),
            input_schema=function.get("parameters", {"type": "object", "properties": {}}),
        )

    @cached_property
    def injected(self) -> frozenset[str]:
        """The parameters that LangGraph fills, such as its state: no arguments of the model."""
        function = self.func or self.coroutine or self.inner._run  # noqa: SLF001 - as subclasses
        hints = _hints(self.inner.get_input_schema()) | _hints(function)
        return frozenset(name for name, hint in hints.items() if _is_injected(hint))

    def check(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the problem that pydantic finds in *arguments*."""
        schema: Any = self.inner.tool_call_schema
        if self.inner.args_schema is None or not hasattr(schema, "model_validate"):
            return None  # The tool looks for problems itself.
        try:
            schema.model_validate(arguments)
        except ValueError as error:
            problems: Any = error  # A `ValidationError`.
            return "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems.errors()
            )
        return None

    # Private in langchain-core (1.0 to 1.8): `run` validates arguments here before it calls `_run`.
    # Here the handlers come first, and they need the id of the call.
    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[()], dict[str, Any]]:
        return (), {"asked": (tool_call_id, tool_input)}

    def _run(
        self, asked: Any, config: RunnableConfig, run_manager: CallbackManagerForToolRun
    ) -> Any:
        work = ToolCallRun(self, asked, config, run_manager)
        end = work.session.call_sync(
            work.call, self.spec, work.run, ask=work.ask, check=self.check, passes=(GraphBubbleUp,)
        )
        return work.result(end)

    async def _arun(
        self, asked: Any, config: RunnableConfig, run_manager: AsyncCallbackManagerForToolRun
    ) -> Any:
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
    inner = tool
    if tool.callbacks or tool.verbose:
        # They are the guarded tool's, so that they too get what the model reads. Without any the
        # tool is not copied, for it may keep a state.
        inner = tool.model_copy(update={"callbacks": None, "verbose": False})
    return GuardedTool(
        name=tool.name,
        description=tool.description,
        args_schema=_schema_of(tool),
        return_direct=tool.return_direct,
        verbose=tool.verbose,
        callbacks=tool.callbacks,
        tags=[*(tool.tags or ()), bridge.tag],
        metadata=tool.metadata,
        inner=inner,
        bridge=bridge,
        func=getattr(tool, "func", None),
        coroutine=getattr(tool, "coroutine", None),
    )


def _schema_of(tool: BaseTool) -> Any:
    if isinstance(tool, Tool) and tool.args_schema is None:
        return convert_to_openai_tool(tool)["function"]["parameters"]
    return tool.args_schema or tool.get_input_schema()


class ToolCallRun:
    """A call of a guarded tool: what the session needs of it, and its result for LangChain."""

    def __init__(
        self,
        tool: GuardedTool,
        asked: tuple[str | None, str | dict[str, Any]],
        config: RunnableConfig,
        run_manager: CallbackManagerForToolRun | AsyncCallbackManagerForToolRun,
    ) -> None:
        self._tool, (self._id, arguments) = tool, asked
        if isinstance(arguments, str):
            arguments = {next(iter(tool.inner.args)): arguments}
        self._injected = {
            name: value
            for name, value in arguments.items()
            if name in tool.injected or isinstance(value, ToolRuntime)
        }
        visible = {name: arguments[name] for name in arguments if name not in self._injected}
        self.call = ToolCall(id=self._id or new_id(), name=tool.name, arguments=visible)
        self.session = SESSION.get() or tool.bridge.session_of(config)
        self._outer = config
        self._below = SubAgentCalls(self.session, self.call, tool.bridge.tag)
        self._config = _quiet(config, run_manager, self._below)
        self._result: Any = None

    def run(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool in this thread."""
        with set_context(SESSION, None):
            return self._keep(self._tool.inner.invoke(self._input(arguments), self._config))

    async def arun(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool."""
        with set_context(SESSION, None):
            try:
                result = await self._tool.inner.ainvoke(self._input(arguments), self._config)
            except CancelledError:
                # langchain-core 1.2 tells callbacks nothing of a cancelled tool.
                self._below.abandon()
                raise
        return self._keep(result)

    def ask(self, ask: Ask, call: ToolCall) -> bool | Deny | None:
        """Pause the run with a question in the form of LangChain's human-in-the-loop middleware.

        Return None if the bridge has an approver, or if the run cannot pause.
        """
        if not (self._tool.bridge.pauses and _can_pause(self._outer)):
            return None
        action = {"name": call.name, "args": thaw(call.arguments), "description": ask.prompt}
        review = {"action_name": call.name, "allowed_decisions": ["approve", "reject"]}
        return _decision(interrupt({"action_requests": [action], "review_configs": [review]}))

    def result(self, end: CallEnd) -> Any:
        """Return the result for LangChain, or raise the tool's own failure."""
        if end.error is not None and self._tool.bridge.raises:
            raise end.error
        result = self._result
        if end.is_changed or end.error is not None:
            original = message_in(result, self.call.id)
            result = with_message(result, original, message_of(end.response, self.call, original))
        is_message = self._id is None and hasattr(result, "tool_call_id")
        return result.content if is_message else result

    def _input(self, arguments: dict[str, Any]) -> dict[str, Any]:
        arguments = {**arguments, **self._injected}
        return {"type": "tool_call", "id": self.call.id, "name": self.call.name, "args": arguments}

    def _keep(self, result: Any) -> ToolResponse:
        self._result = result
        return response_of(message_in(result, self.call.id))


def _hints(source: Any) -> dict[str, Any]:
    try:
        return get_type_hints(source, include_extras=True)
    except (NameError, TypeError):
        # Names for type checkers only, or a partial function. A value that LangGraph fills is then
        # seen as an argument, which fails unless it is JSON.
        return {}


def _is_injected(hint: Any) -> bool:
    kinds = (InjectedToolArg, ToolRuntime)
    marks = (hint, get_origin(hint), *get_args(hint))
    return any(
        isinstance(mark, InjectedToolArg) or (isinstance(mark, type) and issubclass(mark, kinds))
        for mark in marks
    )


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
    run_manager: CallbackManagerForToolRun | AsyncCallbackManagerForToolRun,
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
