"""The agent: a model, tools, components and a session on one bus."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from inspect import isawaitable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from toolbus.bus import EventBus
from toolbus.bus.registry import Subscribing, Subscription
from toolbus.components import check_requires
from toolbus.errors import ClosedError, MessageDenied, RegistrationError
from toolbus.events import TOOL_CALL_BEFORE, ModelDelta, RunResult, Scope
from toolbus.ids import new_id
from toolbus.immutable import EMPTY, thaw
from toolbus.lifecycle.approvals import Approvals
from toolbus.locks import LoopLock
from toolbus.messages import AssistantMessage, ToolCall
from toolbus.store.memory import MemoryStore
from toolbus.subagents import AgentTool, check_bus
from toolbus.tools import Toolset
from toolbus.turns import Session, Setting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from toolbus.bus.registry import HandlerOptions
    from toolbus.components import AgentComponent
    from toolbus.dispatch import EventContext
    from toolbus.events import Event, ToolCallOutcome
    from toolbus.ledger import DispatchRecord, HandlerKind
    from toolbus.lifecycle.approvals import Approver
    from toolbus.messages import JsonObject, Message
    from toolbus.models import Model
    from toolbus.store import Store
    from toolbus.tools import Tool, ToolContext
    from toolbus.transcript import Messages

    Changed: TypeAlias = Mapping[str, Any] | None
    BeforeToolCallback: TypeAlias = Callable[
        [str, dict[str, Any]], Changed | Awaitable[Changed]
    ]


class Agent(Subscribing):
    """A model that works with tools, every step of it on a bus.

    Use it in `async with`, or call `aclose` at its end: that drains observers and releases
    what components hold. A store with messages under *session_id* resumes that session.

    Args:
        model: answers; see `toolbus.models`.
        tools: tools or plain functions.
        components: installed in this order.
        bus: shared with other agents, if given; else its own.
        store: where messages are kept; in memory, if none is given.
        session_id: fresh, if none is given.
        agent_id: who it is in every scope; fresh, if none is given.
        system: the system message of a new session.
        approver: decides what guards ask: `approver(ask, call, scope) -> bool | Deny`.
        approval_timeout: seconds that an approver may take; no answer in time is a refusal.
        before_tool_callback: see `set_before_tool_callback`.
        max_turns: model calls in one run.
        model_settings: what goes into `ModelRequest.settings`.
        ids: makes the ids of runs, calls and messages.
        clock: counts nanoseconds, for durations.
    """

    def __init__(
        self,
        model: Model,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        components: Iterable[AgentComponent] = (),
        bus: EventBus | None = None,
        store: Store | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        system: str | None = None,
        approver: Approver | None = None,
        approval_timeout: float | None = None,
        before_tool_callback: BeforeToolCallback | None = None,
        max_turns: int = 50,
        model_settings: JsonObject = EMPTY,
        ids: Callable[[], str] = new_id,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._own_bus, self._own_store = bus is None, store is None
        self.bus, self._store = bus or EventBus(), store or MemoryStore()
        self.tools = Toolset(tools)
        for tool in self.tools:
            check_bus(tool, self.bus)
        self._setting = Setting(
            model=model,
            bus=self.bus,
            tools=self.tools,
            store=self._store,
            approvals=Approvals(approver, approval_timeout),
            system=system,
            max_turns=max_turns,
            model_settings=model_settings,
            ids=ids,
            clock=clock,
        )
        self.scope = Scope(agent_id=agent_id or ids(), session_id=session_id or ids())
        self._session = Session(self._setting, self.scope)
        self._lock, self._started, self._closed = LoopLock(), False, False
        self._callback: Subscription | None = None
        self._components: tuple[AgentComponent, ...] = ()
        self._install(tuple(components))
        if before_tool_callback is not None:
            self.set_before_tool_callback(before_tool_callback)

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def components(self) -> tuple[AgentComponent, ...]:
        """The installed components."""
        return self._components

    @property
    def messages(self) -> Messages:
        """The transcript so far: a view that does not grow; a stored session is in it once begun."""
        return self._session.transcript.messages

    @property
    def ledger(self) -> tuple[DispatchRecord, ...]:
        """The last 1,000 records of what handlers did in this session."""
        return tuple(self._session.records)

    async def run(self, prompt: str, *, context: JsonObject = EMPTY) -> RunResult:
        """Run on *prompt* until the model answers without a tool call; return how it ended.

        Raises what a model or a store raised if no handler of `RUN_ERROR` answers, and
        `MessageDenied` if the prompt was refused at the transcript.

        Args:
            prompt: what the user says.
            context: who asks and how (user, tenant, language): `Scope.context` of every event.
        """
        await self._start()
        return await self._session.run(prompt, context)

    def run_sync(self, prompt: str, *, context: JsonObject = EMPTY) -> RunResult:
        """Do as `run` does, outside any event loop; observers have seen all when it returns."""

        async def run() -> RunResult:
            try:
                return await self.run(prompt, context=context)
            finally:
                await self.bus.drain()

        return asyncio.run(run())

    async def stream(
        self, prompt: str, *, context: JsonObject = EMPTY
    ) -> AsyncIterator[ModelDelta | RunResult]:
        """Run as `run` does, and give each piece of the model's answers, at the end the result.

        Leaving the loop early cancels the run.
        """
        await self._start()
        pieces: asyncio.Queue[ModelDelta | None] = asyncio.Queue()
        run = asyncio.ensure_future(self._session.run(prompt, context, pieces.put_nowait))
        run.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield run.result()
        finally:
            if not run.done():
                run.cancel()
                with suppress(asyncio.CancelledError):
                    await run

    async def append(self, message: Message) -> Message:
        """Append *message* and return it as it was appended; see `Transcript.append`."""
        await self._start()
        return await self._session.transcript.append(message, self.scope)

    def enqueue(self, message: Message) -> None:
        """Append *message* before the next model call, after all tool messages; returns at once."""
        self._session.enqueue(message)

    async def call_tool(
        self, name: str, arguments: JsonObject | None = None, /, **more: Any
    ) -> ToolCallOutcome:
        """Call a tool as the program, past all handlers; return what became of it.

        The history pairs: an assistant message with this one call is appended first. *more*
        is laid over *arguments*.
        """
        await self._start()
        ids = self._setting.ids
        call = ToolCall(id=ids(), name=name, arguments={**(arguments or {}), **more})
        asked = await self.append(AssistantMessage(id=ids(), tool_calls=(call,)))
        if not isinstance(asked, AssistantMessage) or len(asked.tool_calls) != 1:
            raise MessageDenied(asked.role, asked.id, "a handler took the call out of it")
        (outcome,) = await self._session.runner(self.scope).call_all(asked.tool_calls)
        return outcome

    def set_before_tool_callback(self, callback: BeforeToolCallback | None) -> None:
        """Let *callback*, sync or async, see each call first; None takes it away.

        It gets the tool's name and a copy of the arguments, also in sub-agents; a dict that it
        returns is laid over the arguments. If it raises, that is logged and the call goes on.
        """
        if self._callback is not None:
            self._callback.cancel()
            self._callback = None
        if callback is None:
            return

        async def before_tool_callback(ctx: EventContext[ToolCall]) -> ToolCall | None:
            changed = callback(ctx.value.name, thaw(ctx.value.arguments))
            if isawaitable(changed):
                changed = await changed
            return None if changed is None else ctx.value.merge_arguments(changed)

        self._callback = self.on(TOOL_CALL_BEFORE, before_tool_callback)

    async def remove(self, component: AgentComponent) -> None:
        """Take *component* out: its handlers, tools and adapters, then what it holds."""
        rest = tuple([one for one in self._components if one is not component])
        if len(rest) == len(self._components):
            raise RegistrationError(f"component {component.name!r}", "it is not installed here")
        check_requires(rest)
        component.teardown()
        self._components = rest
        if self._started:
            await component.close()

    def as_tool(self, name: str, description: str = "") -> AgentTool:
        """Return a tool that runs this agent in a fresh session, as a sub-agent of the caller.

        Both must share one bus, so that the caller's handlers reach the sub-agent's calls.
        """
        return AgentTool(self, name, description)

    async def run_below(self, prompt: str, caller: ToolContext) -> RunResult:
        """Run in a fresh session, as a sub-agent of the agent that called a tool."""
        await self._start()
        above = caller.scope
        scope = Scope(
            agent_id=self.scope.agent_id,
            session_id=f"{above.session_id}/{caller.call_id}",
            lineage=(*above.lineage, above.agent_id),
        )
        session = Session(self._setting, scope)
        await session.open()
        try:
            return await session.run(prompt, above.context)
        finally:
            await session.close()

    async def aclose(self) -> None:
        """Release what components hold, drain the observers, close what is the agent's own."""
        if self._closed:
            return
        self._closed = True
        for component in reversed(self._components):
            if self._started:
                await component.close()
        await self.bus.drain()
        await self._session.close()
        if self._own_bus:
            await self.bus.aclose()
        if self._own_store:
            await self._store.close()

    async def _start(self) -> None:
        """Read the stored session and install the components, once."""
        if self._closed:
            raise ClosedError("the agent")
        async with self._lock.here():
            if not self._started:
                await self._session.open()
                for component in self._components:
                    await component.install(self)
                self._started = True

    def _install(self, components: tuple[AgentComponent, ...]) -> None:
        check_requires(components)
        try:
            for component in components:
                component.setup(self)
                self._components = (*self._components, component)
        except BaseException:
            for component in self._components:
                component.teardown()
            raise

    def _subscribe(
        self,
        event: Event,
        handler: Callable[..., Any] | None,
        kind: HandlerKind,
        options: HandlerOptions,
    ) -> Any:
        scoped: HandlerOptions = {"sender": self.scope.agent_id, **options}
        subscribe: Any = self.bus.guard if kind == "guard" else self.bus.on
        return subscribe(event, handler, **scoped)
