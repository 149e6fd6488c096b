"""Hooks and tool executors by Strands Agents."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender

LACKS = "a failure stops the rest"


def observe_sync(count: int) -> Contender:
    """Build `registry.invoke_callbacks`."""
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
