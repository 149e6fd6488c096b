"""The bridge into LangChain and LangGraph: a middleware whose tools pass our components.

Facts about the framework are from runs with langchain 1.5.2 and langgraph 1.2.24.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

try:
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain.agents.middleware.types import AgentState, OmitFromSchema
    from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt import ToolNode
    from langgraph.pregel import Pregel
except ImportError as error:
    from toolbus.settings.extras import needs_extra

    raise ImportError(needs_extra("the bridge needs langchain", "langchain")) from error

from toolbus.bridges.host import FrameworkBridge
from toolbus.bridges.langchain.callbacks import agent_of
from toolbus.bridges.langchain.model_messages import with_text
from toolbus.bridges.langchain.requests import ModelCall, respond, respond_async
from toolbus.bridges.langchain.tool_messages import message_of
from toolbus.bridges.langchain.tools import SESSION, GuardedTool, guarded
from toolbus.bridges.session import PromptDenied
from toolbus.bridges.threads import run_for_thread
from toolbus.events.catalogue import RUN_AFTER, RunResult
from toolbus.messages.ids import new_id
from toolbus.messages.records import ToolCall
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Mapping,
        Sequence,
    )

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from toolbus.bridges.session import BridgeSession
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import ToolSpec

T = TypeVar("T")

_MAX_TOOLS = 1_000
"""The most tools that stay guarded, for programs that make new ones in each run."""


class BridgeState(AgentState[Any]):
    """The state of an agent with a bridge: the key of its session in a run without a thread."""

    toolbus_session: Annotated[str, OmitFromSchema(input=True, output=True)]


class LangChainBridge(FrameworkBridge, AgentMiddleware):
    """The components of toolbus as the middleware of a LangChain agent.

        bridge = LangChainBridge([RedactSecrets(), Policy(Path("policy.toml"))], store=store)
        agent = create_agent(model, tools, middleware=[bridge])

    It belongs at the end of *middleware*, so that it judges what other middleware changed. The
    thread of a run is its session. *raises* lets the exception of a failed tool leave the run, as
    LangChain does, if no handler has replaced it; by default the model reads it. The other options
    are those of `BridgeHost`.
    """

    state_schema = BridgeState

    def __init__(
        self,
        components: Iterable[AgentComponent | ToolAdapter] = (),
        *,
        raises: bool = False,
        **options: Any,
    ) -> None:
        FrameworkBridge.__init__(self, "langchain", components, **options)
        self.raises = raises
        # Without an approver a question pauses the run, if it can be paused.
        self.pauses = options.get("approver") is None
        # A tag of the tools that are guarded by this bridge.
        self.tag = f"toolbus {new_id()}"
        # By session, the run (`Scope.run_id`) whose end is on the bus already.
        self._ended: WeakKeyDictionary[BridgeSession, str | None] = WeakKeyDictionary()
        # The sessions that know the tools of their agent.
        self._equipped: WeakSet[BridgeSession] = WeakSet()
        # By the `id` of a tool, kept with the tool so that no other gets its id.
        self._guarded: dict[int, tuple[BaseTool, GuardedTool]] = {}

    def close(self) -> None:
        """Do as `aclose`, for a program without an event loop."""
        in_thread(self.aclose())

    def wrap(self, target: T) -> T:
        """Return *target*, a tool or an agent of another maker, whose calls pass the components.

        The tools of an agent are replaced in it. An agent that is made here takes the bridge as
        its middleware instead, so that calls of unknown tools are judged too.
        """
        match target:
            case BaseTool():
                return self.guard_tool(target)
            case Pregel(nodes=nodes):
                for node in nodes.values():
                    if isinstance(node.bound, ToolNode):
                        tools = node.bound.tools_by_name
                        tools |= {name: self.guard_tool(tool) for name, tool in tools.items()}
            case _:
                raise TypeError(f"expected a tool or a compiled graph, got {target!r}")
        return target

    def guard_tool(self, tool: BaseTool) -> GuardedTool:
        """Return *tool* guarded, the same object each time."""
        entry = self._guarded.get(id(tool))
        if entry is None:
            if len(self._guarded) >= _MAX_TOOLS:
                self._guarded.clear()
            entry = self._guarded[id(tool)] = tool, guarded(tool, self)
        return entry[1]

    def tool_node(self, tools: Sequence[BaseTool | Callable[..., Any]], **options: Any) -> ToolNode:
        """Return the node of *tools* for a graph without `create_agent`; *options* are its own."""
        wrappers = {"wrap_tool_call": self.wrap_tool_call, "awrap_tool_call": self.awrap_tool_call}
        return ToolNode(tools, **wrappers, **options)

    def session_of(self, config: Mapping[str, Any], key: str = "") -> BridgeSession:
        """Return the session of the run with *config*: its thread's, or *key*'s.

        A run inside of a guarded tool is that of a sub-agent.
        """
        thread = config.get("configurable", {}).get("thread_id")
        agent = agent_of(config.get("metadata", {})) or "sub-agent"
        return self.host.session_here(str(thread or key), agent)

    # --- a run: its prompt, its answer and its end -----------------------------------------------

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: BridgeState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Put the prompt on the bus."""
        return in_thread(self.abefore_agent(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(
        self,
        state: BridgeState,
        runtime: Runtime[Any],  # noqa: ARG002 - as in `AgentMiddleware`
    ) -> dict[str, Any] | None:
        """Put the prompt on the bus."""
        key = new_id()
        session = self.session_of(get_config(), key)
        changes: dict[str, Any] = {"toolbus_session": key}
        prompts = [*takewhile(_is_prompt, reversed(state["messages"]))][::-1]
        if not prompts:
            return changes
        text = "\n".join([message.text for message in prompts])
        try:
            entered = await session.begin(text)
        except PromptDenied as denied:
            self._ended[session] = session.scope.run_id
            removed = [RemoveMessage(id=str(message.id)) for message in prompts]
            messages = [*removed, AIMessage(denied.reason)]
            return {**changes, "messages": messages, "jump_to": "end"}
        if entered != text:
            removed = [RemoveMessage(id=str(message.id)) for message in prompts[:-1]]
            changes["messages"] = [*removed, with_text(prompts[-1], entered)]
        return changes

    def after_agent(self, state: BridgeState, runtime: Runtime[Any]) -> None:
        """Put the end of the run on the bus."""
        in_thread(self.aafter_agent(state, runtime))

    async def aafter_agent(
        self,
        state: BridgeState,
        runtime: Runtime[Any],  # noqa: ARG002 - as in `AgentMiddleware`
    ) -> None:
        """Put the end of the run on the bus."""
        session = self._session(get_config(), state)
        if not self._has_ended(session):
            await session.end()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the model the tools as handlers left them, and the user its answer."""
        session, late = self._session(get_config(), request.state), self.host.judges("assistant")
        call = ModelCall(self, session, request)
        try:
            if (answer := in_thread(call.begin())) is not None:
                return answer
            try:
                response = respond(handler, call.request, late=late)
            except Exception as error:  # noqa: BLE001 - raised again unless a handler answers
                return in_thread(call.fail(error))
            return in_thread(call.end(response))
        except BaseException as error:
            in_thread(self._fail(session, error))
            raise

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Show the model the tools as handlers left them, and the user its answer."""
        session, late = self._session(get_config(), request.state), self.host.judges("assistant")
        call = ModelCall(self, session, request)
        try:
            if (answer := await call.begin()) is not None:
                return answer
            try:
                response = await respond_async(handler, call.request, late=late)
            except Exception as error:  # noqa: BLE001 - raised again unless a handler answers
                return await call.fail(error)
            return await call.end(response)
        except BaseException as error:
            await self._fail(session, error)
            raise

    # --- calls ------------------------------------------------------------------------------------

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run the tool guarded."""
        session = self._session(request.runtime.config, request.state)
        if request.tool is None:
            call = in_thread(self._unknown_call(session, request))
            return message_of(session.call_sync(call, None, _no_tool).response, call)
        try:
            with set_context(SESSION, session):
                return handler(request.override(tool=self.guard_tool(request.tool)))
        except BaseException as error:
            in_thread(self._fail(session, error))
            raise

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Run the tool guarded."""
        session = self._session(request.runtime.config, request.state)
        if request.tool is None:
            call = await self._unknown_call(session, request)
            return message_of((await session.call(call, None, _no_tool)).response, call)
        try:
            with set_context(SESSION, session):
                return await handler(request.override(tool=self.guard_tool(request.tool)))
        except BaseException as error:
            await self._fail(session, error)
            raise

    # ----------------------------------------------------------------------------------------------

    def _session(self, config: Mapping[str, Any], state: Any) -> BridgeSession:
        key = state.get("toolbus_session", "") if isinstance(state, dict) else ""
        return self.session_of(config, key)

    async def adapt_tools(
        self, session: BridgeSession, tools: Iterable[BaseTool]
    ) -> tuple[ToolSpec, ...]:
        """Return the specs of *tools*, and of those of components, as handlers show them."""
        self._equipped.add(session)
        specs = {tool.name: self.guard_tool(tool).spec for tool in tools}
        added = [tool.spec for tool in self.host.tools if tool.spec.name not in specs]
        return await session.adapt_tools([*specs.values()], added)

    async def _unknown_call(self, session: BridgeSession, request: ToolCallRequest) -> ToolCall:
        if session not in self._equipped:
            # A graph whose requests to the model pass no middleware. The runtime of
            # langgraph-prebuilt 1.0.9 does not know the tools yet.
            await self.adapt_tools(session, getattr(request.runtime, "tools", ()))
        call = request.tool_call
        return ToolCall(id=call["id"] or new_id(), name=call["name"], arguments=call["args"])

    def deny_run(self, session: BridgeSession, reason: str) -> None:
        """Put the denied end of a run on the bus."""
        self._ended[session] = session.scope.run_id
        self.host.bus.do(RUN_AFTER, RunResult(status="denied", reason=reason), scope=session.scope)

    def _has_ended(self, session: BridgeSession) -> bool:
        return self._ended.get(session, "") == session.scope.run_id

    async def _fail(self, session: BridgeSession, error: BaseException) -> None:
        """Put the failed end of the run on the bus, once for parallel calls."""
        if not (isinstance(error, GraphBubbleUp) or self._has_ended(session)):
            self._ended[session] = session.scope.run_id
            await session.fail(error)


def in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*, for a thread without an event loop."""
    result: T = run_for_thread(lambda _: work)
    return result


def _is_prompt(message: Any) -> bool:
    return isinstance(message, HumanMessage)


def _no_tool(_: dict[str, Any]) -> Any:
    raise LookupError("an unknown tool cannot run")
