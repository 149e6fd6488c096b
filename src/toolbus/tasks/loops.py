"""A lock and context variables for several event loops: `run_sync` creates one per call."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import ContextVar, Token

T = TypeVar("T")


class LoopLock:
    """One lock for any loop that runs; `async with lock.current():`."""

    _loop: asyncio.AbstractEventLoop | None = None
    _lock: asyncio.Lock | None = None

    def current(self) -> asyncio.Lock:
        """Return the lock of the running loop; a lock of a former loop is no longer held."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock


@contextmanager
def set_context(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Set *variable* to *value* in this block."""
    token = variable.set(value)
    try:
        yield value
    finally:
        reset_context(variable, token)


def reset_context(variable: ContextVar[T], token: Token[T]) -> None:
    """Reset *variable* to its value before *token*."""
    # An abandoned coroutine is closed in a foreign context, where the variable was never set.
    with suppress(ValueError):
        variable.reset(token)
