"""What a dispatch costs, beside a plain loop over the same handlers."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from toolbus import EventBus
from toolbus.events import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 300
CALLS = 200
SEEN = ObserveEvent("bench:seen", int)
CHANGED = TransformEvent("bench:changed", int)


def bench_do(rounds: int) -> dict[str, float]:
    """One `bus.do`, in loops over the same sync handlers."""
    return {f"{count} handlers": _do(count, rounds) for count in (1, 10, 100)}


def bench_apply_sync(rounds: int) -> dict[str, float]:
    """One `bus.apply_sync`, in loops over the same sync handlers."""
    return {f"{count} handlers": _apply_sync(count, rounds) for count in (1, 10, 100)}


def bench_apply(rounds: int) -> dict[str, float]:
    """One `await bus.apply`, in loops that await the same handlers."""
    return {f"{count} handlers": _apply(count, rounds) for count in (1, 10, 100)}


def _do(count: int, rounds: int) -> float:
    handlers = [_sync_handler() for _ in range(count)]
    bus = EventBus()
    for handler in handlers:
        bus.on(SEEN, handler)

    def loop() -> None:
        for handler in handlers:
            handler(1)

    return _ratio(lambda: bus.do(SEEN, 1), loop, rounds, count)


def _apply_sync(count: int, rounds: int) -> float:
    handlers = [_sync_handler() for _ in range(count)]
    bus = EventBus()
    for handler in handlers:
        bus.on(CHANGED, handler)

    def loop() -> None:
        value = 1
        for handler in handlers:
            if (changed := handler(value)) is not None:
                value = changed

    return _ratio(lambda: bus.apply_sync(CHANGED, 1), loop, rounds, count)


def _apply(count: int, rounds: int) -> float:
    handlers = [_async_handler() for _ in range(count)]
    bus = EventBus()
    for handler in handlers:
        bus.on(CHANGED, handler)

    async def loop() -> None:
        value = 1
        for handler in handlers:
            if (changed := await handler(value)) is not None:
                value = changed

    async def ours() -> None:
        await bus.apply(CHANGED, 1)

    def driven(function: Callable[[], object]) -> Callable[[], None]:
        def drive() -> None:
            with suppress(StopIteration):
                function().send(None)

        return drive

    return _ratio(driven(ours), driven(loop), rounds, count)


def _sync_handler() -> Callable[[object], None]:
    names: dict[str, Callable[[object], None]] = {}
    exec("def handler(value): pass", names)  # noqa: S102 - each handler has code of its own
    return names["handler"]


def _async_handler() -> Callable[[object], object]:
    names: dict[str, Callable[[object], object]] = {}
    exec("async def handler(value): pass", names)  # noqa: S102 - as above
    return names["handler"]


def _ratio(
    ours: Callable[[], object], loop: Callable[[], object], rounds: int, count: int
) -> float:
    """Return the least time of *ours* over that of *loop*, the rounds of both interleaved."""
    calls = max(1, CALLS // count)
    pairs = [(_seconds(ours, calls), _seconds(loop, calls)) for _ in range(rounds)]
    return min(one for one, _ in pairs) / min(one for _, one in pairs)


def _seconds(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start
