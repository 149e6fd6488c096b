"""The runtime of an agent, independent of its output type: one start, tasks, and one close."""

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
    """The parts that an agent created itself, and closes at its end."""

    bus: bool
    store: bool
    model: bool


class AgentRuntime(Participant):
    """A participant with a session: all of `Agent` that does not depend on the type of outputs.

    Its import loads neither sessions nor runs, for programs that define agents and never create
    them.
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
        # As a sub-agent, each run has a session of its own, which handlers refer to.
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
        """The transcript so far, a view that does not grow; includes stored messages once begun."""
        return self._session.transcript.messages

    @property
    def ledger(self) -> tuple[DispatchRecord, ...]:
        """The last 1,000 records of dispatches in this session."""
        return tuple(self._session.records)

    @property
    def output_schema(self) -> JsonObject | None:
        """The JSON schema of its outputs; None: text."""
        output = self._config.output
        return None if output is None else output.value_schema

    @property
    def adopts_bus(self) -> bool:
        """Whether it works on its caller's bus as a sub-agent, because it was given none."""
        return self._owned.bus

    async def append(self, message: Message | Prompt) -> Message:
        """Append *message* and return it as it was appended; see `Transcript.append`.

        Text, or a list of texts and parts, becomes a user message.
        """
        if not self._started:
            await self._start()
        if self._session.append_may_wait:
            return await self._work.run(partial(self._session.append, message))
        # An append that cannot wait is neither stopped nor left behind, and needs no task.
        self._work.check_open()
        return await self._session.append(message)

    def enqueue(self, message: Message | Prompt) -> None:
        """Append *message* before the next model call, after all tool messages; returns at once."""
        self._session.enqueue(message)

    async def call_tool(
        self, name: str, arguments: JsonObject | None = None, /, **named: Any
    ) -> ToolCallOutcome:
        """Call a tool as the program, through all handlers; return the outcome.

        To keep the history paired, an assistant message with this call is appended first. *named*
        is merged over *arguments*. A call that waits for a person is "pending" and stays open:
        `resume` runs it, and lets the model go on. Raises `AppendError` during a run.
        """
        from toolbus.agent.run import call_tool  # noqa: PLC0415 - with the first run

        await self._start()
        call = ToolCall(name=name, arguments={**(arguments or {}), **named})
        return await self._work.run(partial(call_tool, self._main, call))

    def call_tool_sync(
        self, name: str, arguments: JsonObject | None = None, /, **named: Any
    ) -> ToolCallOutcome:
        """Call as `call_tool` does, outside any loop; observers have seen all events on return."""
        call = partial(self.call_tool, name, arguments, **named)
        return self._run_alone("call_tool(name)", call)

    async def pending(self) -> tuple[str, ...]:
        """Return the ids of the questions that the session waits for, without changing anything.

        An answered question is included until `resume` has received the answer.
        """
        from toolbus.agent.open_calls import find_pending  # noqa: PLC0415 - for approvals only

        await self._start()
        return await self._work.run(partial(find_pending, self._main))

    def as_tool(
        self, name: str, description: str = "", *, timeout: float | None = None
    ) -> AgentTool:
        """Return a tool that runs this agent in a fresh session, as a sub-agent of the caller.

        It works on its caller's bus, for the handlers and guards there: a bus of its own must be
        the same; without one it adopts its caller's, with its own handlers and components, but
        without subscriptions on `agent.bus` itself. Without an approver it uses its caller's.
        After *timeout* seconds the run below is cancelled. Raises `RegistrationError`.
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
        """Install *component*, or an adapter, after all others, with its requirements in place.

        Its handlers and guards apply at once, its tools and signatures from the next turn on: an
        adapter that renames arguments also gets the calls that the model made before. A failed
        installation is undone. Raises `RegistrationError`, `ClosedError`, and the errors of its
        `install`.
        """
        await self._work.run(partial(super().add, component))

    async def aclose(self) -> None:
        """Cancel runs, drain observers, release the components, close the parts it created.

        Runs and handlers have the grace period. A cancellation ends the wait for observers, and
        leaves all other steps one grace period together.
        """
        from toolbus.models.protocol import close_model  # noqa: PLC0415 - after the last run

        if self._closed:
            return
        self._work.check_outside()
        self._closed = True
        closing = Closing("the agent", self._work.grace)
        await closing.step(self._work.stop)
        # Guards apply until the last call has ended, components until all events were observed.
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
        """Run on *prompt*; without one, go on in the session."""
        start = self._run_of(prompt, context, deps, output_type)
        await self._start()
        return await self._observed(partial(start, None))

    async def _stream(
        self, prompt: Prompt | None, context: JsonObject, deps: Any, output_type: Any
    ) -> AsyncGenerator[Piece | RunResult[Any], None]:
        """Run as `_run` does, and yield the pieces."""
        from toolbus.agent.streaming import stream_of  # noqa: PLC0415 - with the first stream

        start = self._run_of(prompt, context, deps, output_type)
        await self._start()
        async with aclosing(stream_of(lambda show: self._observed(partial(start, show)))) as pieces:
            async for item in pieces:
                yield item

    def _run_of(
        self, prompt: Prompt | None, context: JsonObject, deps: Any, output_type: Any
    ) -> Callable[[Callable[[Piece], None] | None], Coroutine[Any, Any, RunResult[Any]]]:
        """Return a run that takes a function for its pieces; raises `RegistrationError`."""
        from toolbus.agent.outputs import output_of  # noqa: PLC0415 - with the first run
        from toolbus.agent.run import run_session  # noqa: PLC0415 - as above

        output = self._config.output if output_type is None else output_of(output_type)
        return lambda show: run_session(self._main, prompt, context, show, deps, output)

    def _run_alone(self, call: str, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the result of *work* in a loop of its own; *call* is its async twin."""
        if running_loop() is not None:
            raise LoopRunningError(f"agent.{call}")
        return asyncio.run(self._run_in_new_loop(work))

    async def _run_in_new_loop(self, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
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
        """Return the result of *run*, or raise its error, once observers have seen its events."""
        try:
            result = await self._work.run(run)
        except Exception:
            await self._show()
            raise
        await self._show()
        return result

    async def _show(self) -> None:
        """Wait for async observers, at most for the grace period, unless `aclose` will."""
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
