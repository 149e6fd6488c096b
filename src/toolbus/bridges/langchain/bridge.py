"""The bridge into LangChain and LangGraph: a middleware whose tools pass our components.

Facts about the framework are from runs with langchain 1.5.2 and langgraph 1.2.24.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from weakref import WeakSet

from toolbus.settings.extras import needs_extra

try:
    from langchain.agents.middleware import AgentMiddleware, ModelResponse, hook_config
    from langchain.agents.middleware.types import AgentState, OmitFromSchema
    from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
    from langchain_core.runnables.config import var_child_runnable_config
    from langgraph.config import get_config
    from langgraph.constants import TAG_NOSTREAM
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt import ToolNode
    from langgraph.pregel import Pregel
except ImportError as error:
    msg = needs_extra("the bridge to LangChain needs its library", "langchain")
    raise ImportError(msg, name="langchain") from error

from toolbus.bridges.host import FrameworkBridge
from toolbus.bridges.langchain.messages import call_of, message_of, with_text
from toolbus.bridges.langchain.requests import ModelCall
from toolbus.bridges.langchain.tools import GuardedTool, guarded
from toolbus.bridges.session import PromptDenied
from toolbus.bridges.threads import run_for_thread
from toolbus.errors import RegistrationError
from toolbus.messages.ids import new_id
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from contextlib import AbstractContextManager

    from langchain.agents.middleware import ModelRequest, ToolCallRequest
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

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

        bridge = LangChainBridge([RedactSecrets(), Policy.read("policy.toml")], store=store)
        agent = create_agent(model, tools, middleware=[bridge])

    It belongs at the end of *middleware*, so that it judges what other middleware changed. The
    thread of a run is its session. The model reads the error of a tool that fails. *options* are
    those of `BridgeHost`.
    """

    state_schema = BridgeState

    def __init__(
        self, components: Iterable[AgentComponent | ToolAdapter] = (), **options: Any
    ) -> None:
        FrameworkBridge.__init__(self, "langchain", components, **options)
        # A tag of the tools that are guarded by this bridge.
        self.tag = f"toolbus {new_id()}"
        # The sessions whose run has its end on the bus already.
        self._ended: WeakSet[BridgeSession] = WeakSet()
        # By the `id` of a tool, kept with the tool so that no other gets its id.
        self._guarded: dict[int, tuple[BaseTool, GuardedTool]] = {}

    def wrap(self, agent: T) -> T:
        """Return *agent*, a compiled graph of another maker, with its tools guarded.

        An agent that is made here takes the bridge as its middleware instead, so that calls of
        unknown tools are judged too.
        """
        if not isinstance(agent, Pregel):
            raise RegistrationError(f"agent {agent!r}", "expected a compiled graph")
        for node in agent.nodes.values():
            if isinstance(node.bound, ToolNode):
                tools = node.bound.tools_by_name
                tools |= {name: self.guard_tool(tool) for name, tool in tools.items()}
        return agent

    def guard_tool(self, tool: BaseTool) -> GuardedTool:
        """Return *tool* guarded, the same object each time."""
        entry = self._guarded.get(id(tool))
        if entry is None:
            if len(self._guarded) >= _MAX_TOOLS:
                self._guarded.clear()
            entry = self._guarded[id(tool)] = tool, guarded(tool, self)
        return entry[1]

    def session_of(self, config: Mapping[str, Any], key: str = "") -> BridgeSession:
        """Return the session of the run with *config*: its thread's, or *key*'s.

        A run inside of a guarded tool is that of a sub-agent.
        """
        thread = config.get("configurable", {}).get("thread_id")
        agent = config.get("metadata", {}).get("lc_agent_name") or "sub-agent"
        return self.host.session_here(str(thread or key), agent)

    # --- a run: its prompt, its answer and its end -----------------------------------------------

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> Any:
        """Put the prompt on the bus."""
        return run_for_thread(lambda _: self.abefore_agent(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Any) -> Any:  # noqa: ARG002 - LangChain's
        """Put the prompt on the bus."""
        key = new_id()
        session = self.session_of(get_config(), key)
        changes: dict[str, Any] = {"toolbus_session": key}
        self._ended.discard(session)
        prompts = [*takewhile(_is_prompt, reversed(state["messages"]))][::-1]
        if not prompts:
            return changes
        text = "\n".join([message.text for message in prompts])
        try:
            entered = await session.begin(text)
        except PromptDenied as denied:
            self._ended.add(session)
            removed = [RemoveMessage(id=str(message.id)) for message in prompts]
            messages = [*removed, AIMessage(denied.reason)]
            return {**changes, "messages": messages, "jump_to": "end"}
        if entered != text:
            removed = [RemoveMessage(id=str(message.id)) for message in prompts[:-1]]
            changes["messages"] = [*removed, with_text(prompts[-1], entered)]
        return changes

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Put the end of the run on the bus."""
        run_for_thread(lambda _: self.aafter_agent(state, runtime))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - LangChain's
        """Put the end of the run on the bus."""
        async with self._run(get_config(), state) as session:
            if session not in self._ended:
                self._ended.add(session)
                await session.end()

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Show the model the tools as handlers left them, and the user its answer."""
        with self._streaming():
            return run_for_thread(lambda in_caller: self._ask(request, in_caller(handler)))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Show the model the tools as handlers left them, and the user its answer."""
        with self._streaming():
            return await self._ask(request, handler)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the tool guarded."""
        return run_for_thread(lambda in_caller: self._call(request, in_caller(handler)))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the tool guarded."""
        return await self._call(request, handler)

    @asynccontextmanager
    async def _run(self, config: Mapping[str, Any], state: Any) -> AsyncIterator[BridgeSession]:
        """Yield the session of a run; a failure ends the run, once for parallel calls."""
        key = state.get("toolbus_session", "") if isinstance(state, dict) else ""
        session = self.session_of(config, key)
        try:
            yield session
        except GraphBubbleUp:
            raise
        except BaseException as error:
            if session not in self._ended:
                self._ended.add(session)
                await session.fail(error)
            raise

    def _streaming(self) -> AbstractContextManager[Any]:
        """Return the context in which the stream "messages" shows an answer if it was judged.

        langgraph 1.2: it shows a model's tokens at once, unless the request has a tag. With that it
        shows the message that leaves the node.
        """
        if not self.host.judges("assistant"):
            return nullcontext()
        config = get_config()
        tagged: RunnableConfig = {**config, "tags": [*(config.get("tags") or ()), TAG_NOSTREAM]}
        return set_context(var_child_runnable_config, tagged)

    async def _ask(self, request: ModelRequest[Any], handler: Any) -> ModelResponse[Any]:
        async with self._run(get_config(), request.state) as session:
            try:
                return await ModelCall(self, session, request).run(handler)
            except PromptDenied as denied:
                self._ended.add(session)
                await session.fail(denied)
                return ModelResponse(result=[AIMessage(denied.reason)])

    async def _call(self, request: ToolCallRequest, handler: Any) -> Any:
        async with self._run(request.runtime.config, request.state) as session:
            if request.tool is not None:
                tool = self.guard_tool(request.tool).model_copy(update={"session": session})
                return await handler(request.override(tool=tool))
            asked = request.tool_call
            call = call_of(asked["id"], asked["name"], asked["args"])
            return message_of((await session.call(call, None, _no_tool)).response, call)

    async def adapt_tools(
        self, session: BridgeSession, tools: Iterable[BaseTool]
    ) -> tuple[ToolSpec, ...]:
        """Return the specs of *tools*, and of those of components, as handlers show them."""
        specs = {tool.name: self.guard_tool(tool).spec for tool in tools}
        added = [tool.spec for tool in self.host.tools if tool.spec.name not in specs]
        return await session.adapt_tools([*specs.values()], added)


def _is_prompt(message: Any) -> bool:
    return isinstance(message, HumanMessage)


def _no_tool(_: dict[str, Any]) -> Any:
    raise LookupError("an unknown tool cannot run")
