"""Hooks and tool executors by Strands Agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.handlers import functions
from benchmarks.harness import Contender

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LACKS = "a failure stops the rest"


def observe_sync(count: int) -> Contender:
    """Build `registry.invoke_callbacks`; each call has an event of its own, as an agent's has."""
    names = _registry(count, "def handler(event): pass")
    return Contender("strands", "sync(Seen(agent=None))", names, LACKS, count)


def observe_async(count: int) -> Contender:
    """Build `await registry.invoke_callbacks_async`."""
    names = _registry(count, "async def handler(event): pass")
    return Contender("strands", "await awaited(Seen(agent=None))", names, LACKS, count)


def _registry(count: int, source: str) -> dict[str, object]:
    from strands.hooks import BeforeInvocationEvent, HookRegistry

    registry = HookRegistry()
    for handler in functions(count, source):
        registry.add_callback(BeforeInvocationEvent, handler)
    return {
        "sync": registry.invoke_callbacks,
        "awaited": registry.invoke_callbacks_async,
        "Seen": BeforeInvocationEvent,
    }


def tool_call() -> Contender:
    """Build the executor that an agent uses, with a model that is never asked."""
    from opentelemetry.trace import INVALID_SPAN
    from strands import Agent, tool
    from strands.telemetry.metrics import Trace
    from strands.tools.executors import ConcurrentToolExecutor

    @tool
    async def noop(value: int) -> str:
        """Do nothing."""
        return "done"

    agent = Agent(model=_silent_model(), tools=[noop], callback_handler=None)
    executor = ConcurrentToolExecutor()
    use = {"name": "noop", "toolUseId": "c-1", "input": {"value": 1}}

    async def call() -> None:
        results: list[dict[str, object]] = []
        facts = (agent, [use], results, Trace("bench"), INVALID_SPAN, {})
        # As the agent's loop calls it; the public `agent.tool.noop()` starts a thread besides.
        async for _ in executor._execute(*facts):  # noqa: SLF001 - as said
            pass
        if results[0]["status"] != "success":
            raise RuntimeError(results[0])

    lacks = "no transcript, no ledger; a failing hook ends the call; its spans were switched off"
    return Contender("strands executor", "await call()", {"call": call}, lacks)


def _silent_model() -> Any:
    from strands.models import Model

    class Silent(Model):
        def update_config(self, **_: object) -> None: ...

        def get_config(self) -> dict[str, object]:
            return {}

        async def structured_output(self, *_: object, **__: object) -> AsyncGenerator[Any, None]:
            yield {}

        async def stream(self, *_: object, **__: object) -> AsyncGenerator[Any, None]:
            yield {}

    return Silent()
