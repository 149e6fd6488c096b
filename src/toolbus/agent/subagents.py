"""Sub-agents: an agent as a tool of another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolbus.agent import run
from toolbus.agent.sessions import AgentSession
from toolbus.errors import AppendError, RegistrationError
from toolbus.messages.records import ToolResponse
from toolbus.tasks.loops import set_context
from toolbus.tools import Tool, ToolContext, Toolset
from toolbus.tools.calls.gate import ApprovalPendingError, ResumeGate
from toolbus.tools.contexts import NO_DEPS, deps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextvars import ContextVar

    from toolbus.agent.arguments import AgentConfig
    from toolbus.agent.runtime import AgentRuntime
    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import RunResult, Scope
    from toolbus.tools.calls.gate import CallGate


class AgentTool(Tool):
    """A tool that runs *agent* on a task."""

    delegates = True

    def __init__(
        self, agent: AgentRuntime, name: str, description: str, timeout: float | None = None
    ) -> None:
        self.agent, self.name, self.timeout = agent, name, timeout
        self.description = description or f"Give a task to the agent {name!r}."
        self.output_schema = agent.output_schema
        self.spec  # noqa: B018 - problems of the arguments surface here

    async def run(self, prompt: str, context: ToolContext) -> ToolResponse:
        """Run the agent on a task.

        Args:
            prompt: the task, with all facts that the agent needs.
            context: the caller.
        """
        result = await self.agent.run_below(prompt, context)
        if result.status == "pending":
            raise ApprovalPendingError(result.pending)
        if result.status == "ok":
            output = msgspec.json.decode(result.output_json or "null")
            # The value null has no structure; the text says "null".
            text = result.output_json or result.text
            return (
                ToolResponse.from_text(text) if output is None else ToolResponse(structured=output)
            )
        text = f"the agent ended as {result.status}: {result.reason or result.text}"
        return ToolResponse.from_text(text, is_error=True, error_type=result.status)


async def run_below(
    config: AgentConfig,
    agent_scope: Scope,
    prompt: str,
    caller: ToolContext,
    current: ContextVar[AgentSession | None],
) -> RunResult[Any]:
    """Run the agent of *agent_scope* in a session, *current* meanwhile.

    The session is fresh, or goes on if the same call began it before. Its events are dispatched
    on the bus of its *caller*, whose approver and deps it uses if it has none of its own.
    """
    above = caller.scope
    gate, resumed_id = _gate_below(config, caller), None
    if caller.continued and isinstance(gate, ResumeGate):
        resumed_id = await gate.linked(above.session_id, caller.call_id)
    # Models may repeat the ids of calls, and a call may be run again.
    session_id = resumed_id or f"{above.session_id}/{caller.call_id}/{config.ids()}"
    scope = replace(
        agent_scope,
        session_id=session_id,
        lineage=(*above.lineage, *filter(None, [above.agent_id])),
        root_session_id=above.root_session_id or above.session_id,
        parent_session_id=above.session_id,
        parent_call_id=caller.call_id,
    )
    deps = deps_of(caller) if config.deps is NO_DEPS else config.deps
    bus = caller.bus or config.bus
    config = config._replace(gate=gate, deps=deps, bus=bus)
    store = gate.store if isinstance(gate, ResumeGate) else None
    if isinstance(gate, ResumeGate) and store is not None:
        # A waiting session must be found again, so its messages are stored with the questions.
        config = config if config.has_store else config._replace(store=store)
        if resumed_id is None:
            await gate.link(above.session_id, caller.call_id, session_id)
    session = AgentSession(config, scope)
    await session.open()
    try:
        with set_context(current, session):
            if resumed_id and not session.has_begun and config.store is not store:
                reason = "its messages were lost with their store, so it cannot go on"
                raise AppendError(session_id, reason)
            text = None if session.has_begun else prompt
            result = await run.run_session(session, text, above.context, output=config.output)
        return await _settle_pending(session, result, caller)
    finally:
        await session.close()


def _gate_below(config: AgentConfig, caller: ToolContext) -> CallGate | None:
    """Return the gate of a sub-agent: its own, or its *caller*'s."""
    if config.gate is None:
        return caller.gate
    return config.gate.below(caller.gate) if isinstance(config.gate, ResumeGate) else config.gate


async def _settle_pending(
    session: AgentSession, result: RunResult[Any], caller: ToolContext
) -> RunResult[Any]:
    """Return *result*; deny it if it waits and the caller cannot go on later."""
    gate = session.config.gate
    if result.status != "pending" or isinstance(caller.gate, ResumeGate):
        return result
    if isinstance(gate, ResumeGate):
        await gate.withdraw(session.scope.session_id)
    reason = "a person must approve its call, and its caller cannot wait for the answer"
    return replace(result, status="denied", reason=reason, pending=())


def check_caller(agent: AgentRuntime, bus: EventBus, callers: Collection[str]) -> None:
    """Raise `RegistrationError` for an *agent* that cannot work below *callers* on *bus*."""
    if agent.bus is bus:
        return
    what = f"agent {agent.scope.agent_id!r}"
    if not agent.adopts_bus:
        way_out = "give both the same `bus=`, or the sub-agent none"
        raise RegistrationError(what, f"a sub-agent shares its caller's bus; {way_out}")
    if agent.scope.agent_id in callers:
        reason = "its caller has the same id, so handlers could not tell them apart"
        raise RegistrationError(what, f"{reason}; give it another `agent_id=`")


class AgentTools(Toolset):
    """The tools of the agent *agent_id* on *bus*; an agent among them must work below it."""

    def __init__(
        self,
        bus: EventBus,
        agent_id: str,
        tools: Iterable[Tool | Callable[..., Any] | Toolset] = (),
    ) -> None:
        self._bus, self._agent_id = bus, agent_id
        if not isinstance(tools, Iterable) or isinstance(tools, str | Mapping):
            raise RegistrationError("tools", f"expected a list of tools, not {tools!r}")
        super().__init__(tools)

    def add(
        self, tool: Tool | Callable[..., Any], *, offered: Callable[[], bool] = lambda: True
    ) -> Tool:
        """Add *tool*; raises `RegistrationError` for an agent that cannot work on the bus."""
        self._check(tool)
        return super().add(tool, offered=offered)

    def include(self, tools: Toolset) -> None:
        """Include *tools*; raises `RegistrationError` as `add` does.

        Tools added to them later are checked when called.
        """
        for tool in tools:
            self._check(tool)
        super().include(tools)

    def _check(self, tool: Tool | Callable[..., Any]) -> None:
        if isinstance(tool, AgentTool):
            try:
                check_caller(tool.agent, self._bus, (self._agent_id,))
            except RegistrationError as error:
                raise RegistrationError(f"tool {tool.name!r}", error.reason) from None
