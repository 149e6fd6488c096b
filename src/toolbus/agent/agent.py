"""The agent: a model, tools, components and a session on one bus."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Unpack, overload

from toolbus.agent import turns
from toolbus.agent.arguments import (
    AgentConfig,
    agent_gate,
    check_config,
    is_owned,
    made_scope,
    store_of,
)
from toolbus.agent.outputs import output_of
from toolbus.agent.resuming import ResumableAgent
from toolbus.agent.running import T
from toolbus.agent.sessions import AgentSession
from toolbus.agent.subagents import AgentTool, AgentTools, check_caller, run_below
from toolbus.bus.bus import EventBus
from toolbus.bus.grace import GRACE
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import ToolCall
from toolbus.models.naming import model_named
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from toolbus.agent.arguments import AgentOptions
    from toolbus.agent.prompts import Prompt
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.components.participants import BeforeToolCallback
    from toolbus.events.catalogue import RunResult, ToolCallOutcome
    from toolbus.messages.records import JsonObject, Message
    from toolbus.models.protocol import Model
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate
    from toolbus.tools.contexts import ToolContext
    from toolbus.tools.definitions import Tool
    from toolbus.tools.toolset import Toolset
    from toolbus.transcript.views import Messages


class Agent(ResumableAgent[T]):
    """A model that works with tools, every step of it on a bus.

    Use it in `async with`, or call `aclose` at its end: that drains observers and releases
    what components hold. A store with messages under *session_id* resumes that session. Raises
    `RegistrationError` for arguments that could never work.

    Args:
        model: answers; see `toolbus.models`. A text is a provider and its model,
            `anthropic:NAME`, `openai:NAME` or `openai-responses:NAME`.
        tools: tools, plain functions, or toolsets, which may change later.
        components: components and adapters, installed in this order.
        bus: shared with other agents, if given; else its own, and below another agent that one's.
        store: where messages are kept; in memory, if none is given. An address (the path of an
            SQLite file, `postgresql://HOST/DATABASE`, `service=NAME`) is opened, and closed with
            the agent.
        session_id: fresh, if none is given.
        agent_id: who it is in every scope, alone on its bus; fresh, if none is given.
        system: the system message of a new session; one that is resumed keeps its own, and if
            that is another one, a warning is logged.
        approver: decides what guards ask: `approver(ask, call, scope) -> bool | Deny`; or
            `toolbus.approvals.StoredApprovals`, whose questions may be answered later: a run then
            ends as "pending", and `resume` goes on.
        approval_timeout: seconds that an approver may take; no answer in time is a refusal.
        before_tool_callback: see `set_before_tool_callback`.
        deps: any object, for its tools and sub-agents alone: `ToolContext.deps`.
        output_type: of what type the answers of its runs are, `RunResult.output`: any that msgspec
            or pydantic reads from JSON. The model is told, and asked again for what does not fit.
        output_retries: how often in one run; then `OutputError` leaves the run.
        max_turns: model calls in one run.
        model_settings: what goes into `ModelRequest.settings`.
        ids, clock: makes ids of runs, calls and messages; counts nanoseconds, for durations.
        grace: seconds that handlers, tools and observers have left after a cancellation or a
            close; a handler that still hangs is cut off, and its failure policy decides.
        keep_originals: also store the values that handlers changed or refused, so that
            `toolbus explain` shows differences; secrets that were taken out are among them.

    >>> agent = Agent(ScriptedModel(["Good morning."]), tools=[greet])
    >>> agent.run_sync("Hello.").text
    'Good morning.'
    """

    @overload
    def __init__(
        self: Agent[str],
        model: Model | str,
        *,
        output_type: type[str] | None = None,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self, model: Model | str, *, output_type: type[T], **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any],
        model: Model | str,
        *,
        output_type: object,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(
        self,
        model: Model | str,
        *,
        output_type: Any = None,
        tools: Iterable[Tool | Callable[..., Any] | Toolset] = (),
        components: Iterable[AgentComponent | ToolAdapter] = (),
        bus: EventBus | None = None,
        store: Store | str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        system: str | None = None,
        approver: Approver | CallGate | None = None,
        approval_timeout: float | None = None,
        before_tool_callback: BeforeToolCallback | None = None,
        deps: Any = NO_DEPS,
        max_turns: int = 50,
        output_retries: int = 2,
        model_settings: JsonObject = EMPTY,
        ids: Callable[[], str] = new_id,
        clock: Callable[[], int] = perf_counter_ns,
        grace: float = GRACE,
        keep_originals: bool = False,
    ) -> None:
        self._own_bus, self._own_store = bus is None, is_owned(store)
        self._own_model, sessions = isinstance(model, str), store_of(store)
        bus, scope = EventBus() if bus is None else bus, made_scope(agent_id, session_id, ids)
        self._config = AgentConfig(
            model=model_named(model) if isinstance(model, str) else model,
            bus=bus,
            tools=AgentTools(bus, scope.agent_id, tools),
            store=sessions,
            has_store=store is not None,
            gate=agent_gate(approver, approval_timeout, sessions),
            system=system,
            max_turns=max_turns,
            model_settings=model_settings,
            ids=ids,
            clock=clock,
            keep_originals=keep_originals,
            deps=deps,
            output=output_of(output_type),
            output_retries=output_retries,
        )
        check_config(self._config)
        self._main = AgentSession(self._config, scope)
        # Below another agent each run has a session of its own, and handlers mean that one.
        self._below: ContextVar[AgentSession | None] = ContextVar("toolbus_session", default=None)
        super().__init__(bus, self._config.tools, scope, components, grace)
        self.set_before_tool_callback(before_tool_callback)

    @property
    def messages(self) -> Messages:
        """The transcript so far, a view that does not grow; what is stored is in it once begun."""
        return self._session.transcript.messages

    @property
    def ledger(self) -> tuple[DispatchRecord, ...]:
        """The last 1,000 records of what handlers did in this session."""
        return tuple(self._session.records)

    async def append(self, message: Message | Prompt) -> Message:
        """Append *message* and return it as it was appended; see `Transcript.append`.

        Text, or a list of texts and parts, is what a user says.
        """
        await self._start()
        return await self._work.run(self._session.append(message))

    def enqueue(self, message: Message | Prompt) -> None:
        """Append *message* before the next model call, after all tool messages; returns at once."""
        self._session.enqueue(message)

    async def call_tool(
        self, name: str, arguments: JsonObject | None = None, /, **named: Any
    ) -> ToolCallOutcome:
        """Call a tool as the program, through all handlers; return what became of it.

        The history pairs: an assistant message with this one call is appended first. *named*
        is laid over *arguments*. One that waits for a person is "pending" and stays open: `resume`
        takes it up, and lets the model go on. Raises `AppendError` while a run is under way.
        """
        await self._start()
        merged = {**(arguments or {}), **named}
        call = ToolCall(name=name, arguments=merged)
        return await self._work.run(turns.call_tool(self._main, call))

    def call_tool_sync(
        self, name: str, arguments: JsonObject | None = None, /, **named: Any
    ) -> ToolCallOutcome:
        """Do as `call_tool` does, outside any loop; observers have seen all when it returns."""
        self._check_no_loop("call_tool(name)")
        return asyncio.run(self._alone(self.call_tool(name, arguments, **named)))

    @property
    def output_schema(self) -> JsonObject | None:
        """The JSON schema of its outputs; None: text."""
        output = self._config.output
        return None if output is None else output.value_schema

    @property
    def adopts_bus(self) -> bool:
        """Whether it works on its caller's bus when it is called: it was given none."""
        return self._own_bus

    def as_tool(
        self,
        name: str,
        description: str = "",
        *,
        timeout: float | None = None,
    ) -> AgentTool:
        """Return a tool that runs this agent in a fresh session, below the agent that calls it.

        It works on its caller's bus, so that handlers and guards there hear it: a bus that it was
        given must be that one; else it adopts it, with its own handlers and components, and what
        was subscribed on `agent.bus` itself stays there. Without an approver it asks its caller's.
        After *timeout* seconds the run below is cancelled. Raises `RegistrationError`.
        """
        return AgentTool(self, name, description, timeout)

    async def run_below(self, prompt: str, caller: ToolContext) -> RunResult[Any]:
        """Run in a fresh session, as a sub-agent of the agent that called a tool."""
        await self._start()
        if caller.bus is not None and caller.bus not in self._joined:
            check_caller(self, caller.bus, (*caller.scope.lineage, caller.scope.agent_id))
            self._join(caller.bus)
        run = run_below(self._config, self.scope, prompt, caller, self._below)
        return await self._work.run(run)

    def _state_place(self) -> tuple[Store, str]:
        return self._config.store, self._session.scope.session_id

    @property
    def _session(self) -> AgentSession:
        return self._below.get() or self._main
