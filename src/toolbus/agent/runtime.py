"""How an agent works, whatever its runs return: it starts once, runs in tasks, and closes once."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct

from toolbus.agent.task_set import Closing, TaskSet
from toolbus.bus.dispatch.deadlines import running_loop
from toolbus.bus.grace import CURRENT, Grace, check_grace
from toolbus.components.participants import Participant
from toolbus.errors import DispatchError, LoopRunningError
from toolbus.messages.records import ToolCall
from toolbus.tasks.loops import LoopLock, set_context

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable

    from toolbus.agent.arguments import AgentConfig
    from toolbus.agent.prompts import Prompt
    from toolbus.agent.sessions import AgentSession
    from toolbus.agent.streaming import Piece
    from toolbus.agent.subagents import AgentTool
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import RunResult, Scope, ToolCallOutcome
    from toolbus.messages.records import JsonObject, Message
    from toolbus.store.protocol import Store
    from toolbus.tools.contexts import ToolContext
    from toolbus.transcript.views import Messages

V = TypeVar("V")


class OwnedParts(Struct, frozen=True):
    """The parts that an agent made for itself, and closes at its end."""

    bus: bool
    store: bool
    model: bool


class AgentRuntime(Participant):
    """A participant with a session: all of `Agent` that does not depend on the type of outputs.

    Importing it loads neither sessions nor runs: a program may define agents that it never makes.
    """

    _entered = _started = _closed = False

    def __init__(
        self,
        config: AgentConfig,
        scope: Scope,
        components: Iterable[AgentComponent | ToolAdapter],
        grace: float,
        owned: OwnedParts,
    ) -> None:
        from toolbus.agent.sessions import AgentSession  # noqa: PLC0415 - with the first agent

        self._config, self._owned = config, owned
        self._main = AgentSession(config, scope)
        # Below another agent each run has a session of its own, and handlers mean that session.
        self._below: ContextVar[AgentSession | None] = ContextVar("toolbus_session", default=None)
        self._lock, self._work = LoopLock(), TaskSet("the agent", check_grace(grace))
        self._starting: ContextVar[bool] = ContextVar("toolbus_starting", default=False)
        super().__init__(config.bus, config.tools, scope, components)

    async def __aenter__(self) -> Self:
        self._entered = True
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def messages(self) -> Messages:
        """The transcript so far, a view that does not grow; with stored messages once begun."""
        return self._session.transcript.messages

    @property
    def ledger(self) -> tuple[DispatchRecord, ...]:
        """The last 1,000 records of what handlers did in this session."""
        return tuple(self._session.records)

    @property
    def output_schema(self) -> JsonObject | None:
        """The JSON schema of its outputs; None: text."""
        output = self._config.output
        return None if output is None else output.value_schema

    @property
    def adopts_bus(self) -> bool:
        """Whether it works on its caller's bus when it is called: it was given none."""
        return self._owned.bus

    async def append(self, message: Message | Prompt) -> Message:
        """Append *message* and return it as it was appended; see `Transcript.append`.

        Text, or a list of texts and parts, is what a user says.
        """
        if not self._started:
            await self._start()
        if self._session.append_may_wait:
            return await self._work.run(partial(self._session.append, message))
        # What does not wait is neither stopped nor left behind, and needs no task of its own.
        self._work.check_open()
        return await self._session.append(message)

    def enqueue(self, message: Message | Prompt) -> None:
        """Append *message* before the next model call, after all tool messages; returns at once."""
        self._session.enqueue(message)

    async def call_tool(
        self, name: str, arguments: JsonObject | None = None, /, **named: Any
    ) -> ToolCallOutcome:
        """Call a tool as the program, through all handlers; return what became of it.

        The history pairs: an assistant message with this one call is appended first. *named*
        is laid over *arguments*. A call that waits for a person is "pending" and stays open:
        `resume` takes it up, and lets the model go on. Raises `AppendError` while a run is under
        way.
        """
        from toolbus.agent.run import call_tool  # noqa: PLC0415 - with the first run

        await self._start()
        call = ToolCall(name=name, arguments={**(arguments or {}), **named})
        return await self._work.run(partial(call_tool, self._main, call))

    def call_tool_sync(
        self, name: str, arguments: JsonObject | None = None, /, **named: Any
    ) -> ToolCallOutcome:
        """Do as `call_tool` does, outside any loop; observers have seen all when it returns."""
        call = partial(self.call_tool, name, arguments, **named)
        return self._run_alone("call_tool(name)", call)

    async def pending(self) -> tuple[str, ...]:
        """Return the ids of the questions on which its session waits; it looks and changes nothing.

        Answered questions are among them until `resume` has heard of the answer.
        """
        from toolbus.agent.open_calls import find_pending  # noqa: PLC0415 - for approvals only

        await self._start()
        return await self._work.run(partial(find_pending, self._main))

    def as_tool(
        self, name: str, description: str = "", *, timeout: float | None = None
    ) -> AgentTool:
        """Return a tool that runs this agent in a fresh session, below the agent that calls it.

        It works on its caller's bus, so that handlers and guards there hear it: a bus that it was
        given must be the same; else it adopts its caller's, with its own handlers and components,
        and what was subscribed on `agent.bus` itself stays there. Without an approver it asks its
        caller's. After *timeout* seconds the run below is cancelled. Raises `RegistrationError`.
        """
        from toolbus.agent.subagents import AgentTool  # noqa: PLC0415 - few agents have sub-agents

        return AgentTool(self, name, description, timeout)

    async def run_below(self, prompt: str, caller: ToolContext) -> RunResult[Any]:
        """Run in a fresh session, as a sub-agent of the agent that called a tool."""
        from toolbus.agent.subagents import check_caller, run_below  # noqa: PLC0415 - as above

        await self._start()
        if caller.bus is not None and caller.bus not in self._joined:
            check_caller(self, caller.bus, (*caller.scope.lineage, caller.scope.agent_id))
            self._join(caller.bus)
        work = partial(run_below, self._config, self.scope, prompt, caller, self._below)
        return await self._work.run(work)

    async def add(self, component: AgentComponent | ToolAdapter) -> None:
        """Install *component*, or an adapter, as the last; what it requires must be there already.

        Its handlers and guards hold at once, its tools and signatures from the next turn on: an
        adapter that renames arguments also meets the calls that the model has made before.
        If it cannot be installed, nothing of it stays. Raises `RegistrationError`, `ClosedError`,
        and whatever its `install` raises.
        """
        await self._work.run(partial(super().add, component))

    async def aclose(self) -> None:
        """Cancel runs, drain observers, release what components hold, close what is its own.

        Runs and handlers have the time of grace. A cancellation ends the waiting for observers,
        and gives all the rest the time of grace once.
        """
        from toolbus.models.protocol import close_model  # noqa: PLC0415 - after the last run

        if self._closed:
            return
        self._work.check_outside()
        self._closed = True
        closing = Closing("the agent", self._work.grace)
        await closing.step(self._work.stop)
        # Guards hold until the last call has ended, components until all was observed.
        await closing.step(self._drain, in_haste=False)
        await closing.step(self._release)
        await closing.step(self._drain, in_haste=False)
        await closing.step(self._close_session)
        self._leave()
        if self._owned.bus:
            limit = 0.0 if closing.is_cancelled else None
            await closing.step(partial(self.bus.aclose, limit))
        if self._owned.store:
            await closing.step(self._config.store.close)
        if self._owned.model:
            await closing.step(partial(close_model, self._config.model))
        closing.end()

    async def _run(
        self, prompt: Prompt | None, context: JsonObject, deps: Any, output_type: Any
    ) -> RunResult[Any]:
        """Run on *prompt*, without a prompt from where the session stands."""
        start = self._run_of(prompt, context, deps, output_type)
        await self._start()
        return await self._observed(partial(start, None))

    async def _stream(
        self, prompt: Prompt | None, context: JsonObject, deps: Any, output_type: Any
    ) -> AsyncGenerator[Piece | RunResult[Any], None]:
        """Do as `_run` does, and give what happens."""
        from toolbus.agent.streaming import stream_of  # noqa: PLC0415 - with the first stream

        start = self._run_of(prompt, context, deps, output_type)
        await self._start()
        async with aclosing(stream_of(lambda show: self._observed(partial(start, show)))) as pieces:
            async for item in pieces:
                yield item

    def _run_of(
        self, prompt: Prompt | None, context: JsonObject, deps: Any, output_type: Any
    ) -> Callable[[Callable[[Piece], None] | None], Coroutine[Any, Any, RunResult[Any]]]:
        """Return a run that gets a function for its pieces; raises `RegistrationError`."""
        from toolbus.agent.outputs import output_of  # noqa: PLC0415 - with the first run
        from toolbus.agent.run import run_session  # noqa: PLC0415 - as above

        output = self._config.output if output_type is None else output_of(output_type)
        return lambda show: run_session(self._main, prompt, context, show, deps, output)

    def _run_alone(self, call: str, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return what *work* returns, in a loop of its own; *call* names its async twin."""
        if running_loop() is not None:
            raise LoopRunningError(f"agent.{call}")
        return asyncio.run(self._alone(work))

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        from toolbus.models.protocol import close_model  # noqa: PLC0415 - after the run

        limit = None
        try:
            return await work()
        except asyncio.CancelledError:
            limit = self._work.grace
            raise
        finally:
            await self.bus.drain(limit)
            await close_model(self._config.model)  # Its loop ends here.

    async def _observed(self, run: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return what *run* returns, or raise what it raises, when observers have seen it."""
        try:
            result = await self._work.run(run)
        except Exception:
            await self._show()
            raise
        await self._show()
        return result

    async def _show(self) -> None:
        """Wait for async observers, for the time of grace, unless `aclose` will."""
        if self._entered or not self.bus.pending:
            return
        # An observer would wait for itself here.
        with suppress(DispatchError):
            await self.bus.drain(self._work.grace)

    async def _start(self) -> None:
        """Read the stored session and start the components, once."""
        # A component may use the agent while it is installed.
        if not self._started and not self._starting.get():
            await self._work.run(self._start_once)

    async def _start_once(self) -> None:
        self._starting.set(True)
        async with self._lock.current():
            if self._started:
                return
            await self._main.open()
            await self._install()
            self._started = True

    async def _drain(self) -> None:
        for bus in (self.bus, *tuple(self._joined)):
            await bus.drain()

    async def _close_session(self) -> None:
        grace = Grace(self._work.grace)
        grace.begin()
        with set_context(CURRENT, grace):
            await self._main.close()

    def _state_place(self) -> tuple[Store, str]:
        return self._config.store, self._session.scope.session_id

    @property
    def _session(self) -> AgentSession:
        return self._below.get() or self._main
