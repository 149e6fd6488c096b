"""How an agent starts, what the end of its runs waits for, and how it is closed."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from toolbus.agent.task_set import TaskSet
from toolbus.bus.grace import Grace, check_grace
from toolbus.components.participants import Participant
from toolbus.errors import DispatchError
from toolbus.models.protocol import close_model
from toolbus.tasks.closing import Closing
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from toolbus.agent.arguments import AgentConfig
    from toolbus.agent.sessions import AgentSession
    from toolbus.bus.bus import EventBus
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import RunResult, Scope
    from toolbus.tools.toolset import Toolset


class LivingAgent(Participant):
    """A participant that starts with its first step, works in tasks, and is closed once."""

    _config: AgentConfig
    _main: AgentSession
    _own_bus: bool
    _own_store: bool
    _own_model: bool
    _entered = _started = _closed = False

    def __init__(
        self,
        bus: EventBus,
        tools: Toolset,
        scope: Scope,
        components: Iterable[AgentComponent | ToolAdapter],
        grace: float,
    ) -> None:
        self._lock, self._work = LoopLock(), TaskSet("the agent", check_grace(grace))
        self._starting: ContextVar[bool] = ContextVar("toolbus_starting", default=False)
        super().__init__(bus, tools, scope, components)

    async def __aenter__(self) -> Self:
        self._entered = True
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def add(self, component: AgentComponent | ToolAdapter) -> None:
        """Install *component*, or an adapter, as the last; what it requires must be there already.

        Its handlers and guards hold at once, its tools and signatures from the next turn on: an
        adapter that renames arguments also meets the calls that the model has made before.
        If it cannot be installed, nothing of it stays. Raises `RegistrationError`, `ClosedError`,
        and whatever its `install` raises.
        """
        await self._work.run(super().add(component))

    async def aclose(self) -> None:
        """Cancel runs, drain observers, release what components hold, close what is its own.

        Runs and handlers have the time of grace. A cancellation ends the waiting for observers,
        and gives all the rest the time of grace once.
        """
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
        if self._own_bus:
            limit = 0.0 if closing.is_cancelled else None
            await closing.step(partial(self.bus.aclose, limit))
        if self._own_store:
            await closing.step(self._config.store.close)
        if self._own_model:
            await closing.step(partial(close_model, self._config.model))
        closing.end()

    async def _drain(self) -> None:
        for bus in (self.bus, *tuple(self._joined)):
            await bus.drain()

    async def _close_session(self) -> None:
        grace = Grace(self._work.grace)
        grace.begin()
        with grace.here():
            await self._main.close()

    async def _observed(self, run: Coroutine[Any, Any, RunResult[Any]]) -> RunResult[Any]:
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
        # Inside an observer, which would wait for itself, there is nothing to wait for.
        with suppress(DispatchError):
            await self.bus.drain(self._work.grace)

    async def _start(self) -> None:
        """Read the stored session and start the components, once."""
        # A component may use the agent while it is installed.
        if not self._started and not self._starting.get():
            await self._work.run(self._start_once())

    async def _start_once(self) -> None:
        self._starting.set(True)
        async with self._lock.here():
            if self._started:
                return
            await self._main.open()
            await self._install()
            self._started = True
