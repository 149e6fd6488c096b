"""Sub-agents: an agent as a tool of another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from toolbus.agent import turns
from toolbus.agent.sessions import AgentSession
from toolbus.errors import RegistrationError
from toolbus.messages.records import ToolResponse
from toolbus.tasks.loops import holding
from toolbus.tools import Tool, ToolContext, Toolset
from toolbus.tools.contexts import NO_DEPS, deps_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import ContextVar

    from toolbus.agent.sessions import AgentConfig
    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import RunResult, Scope


class SubAgent(Protocol):
    """What can run below another agent."""

    @property
    def bus(self) -> EventBus:
        """Where its events are dispatched."""

    async def run_below(self, prompt: str, caller: ToolContext) -> RunResult:
        """Run in a fresh session under the lineage of *caller*."""


class AgentTool(Tool):
    """A tool that runs *agent* on a task."""

    def __init__(self, agent: SubAgent, name: str, description: str) -> None:
        self.agent, self.name = agent, name
        self.description = description or f"Give a task to the agent {name!r}."

    async def run(self, prompt: str, context: ToolContext) -> ToolResponse:
        """Run the agent on a task.

        Args:
            prompt: what to do, with all that the agent must know.
            context: who asks.
        """
        result = await self.agent.run_below(prompt, context)
        if result.status == "ok":
            return ToolResponse.from_text(result.text)
        text = f"the agent ended as {result.status}: {result.reason or result.text}"
        return ToolResponse.from_text(text, is_error=True, error_type=result.status)


async def run_below(
    config: AgentConfig,
    agent_scope: Scope,
    prompt: str,
    caller: ToolContext,
    current: ContextVar[AgentSession | None],
) -> RunResult:
    """Run the agent of *agent_scope* in a fresh session, which is *current* meanwhile.

    An agent without an approver asks that of its *caller*, and without deps has those of it.
    """
    above = caller.scope
    scope = replace(
        agent_scope,
        # Models may give the ids of calls twice, and a call may be run again.
        session_id=f"{above.session_id}/{caller.call_id}/{config.ids()}",
        lineage=(*above.lineage, *filter(None, [above.agent_id])),
        root_session_id=above.root_session_id or above.session_id,
    )
    approvals = config.approvals.below(caller.approvals)
    deps = deps_of(caller) if config.deps is NO_DEPS else config.deps
    session = AgentSession(config._replace(approvals=approvals, deps=deps), scope)
    await session.open()
    try:
        with holding(current, session):
            return await turns.run(session, prompt, above.context)
    finally:
        await session.close()


class AgentTools(Toolset):
    """The tools of an agent on *bus*; an agent of another bus cannot be one of them."""

    def __init__(
        self, bus: EventBus, tools: Iterable[Tool | Callable[..., Any] | Toolset] = ()
    ) -> None:
        self._bus = bus
        if not isinstance(tools, Iterable) or isinstance(tools, str | Mapping):
            raise RegistrationError("tools", f"expected several, in a list, not {tools!r}")
        super().__init__(tools)

    def add(
        self, tool: Tool | Callable[..., Any], *, offered: Callable[[], bool] = lambda: True
    ) -> Tool:
        """Add *tool*; raises `RegistrationError` for one whose events the bus would miss."""
        self._check(tool)
        return super().add(tool, offered=offered)

    def include(self, tools: Toolset) -> None:
        """Include *tools*; raises `RegistrationError` as `add` does."""
        for tool in tools:
            self._check(tool)
        super().include(tools)

    def _check(self, tool: Tool | Callable[..., Any]) -> None:
        if isinstance(tool, AgentTool) and tool.agent.bus is not self._bus:
            reason = "a sub-agent shares its caller's bus; give both the same `bus=`"
            raise RegistrationError(f"tool {tool.name!r}", reason)
