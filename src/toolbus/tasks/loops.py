"""A lock and context variables that outlive an event loop: `run_sync` makes a new one each time."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import ContextVar, Token

T = TypeVar("T")


class LoopLock:
    """One lock in whatever loop runs; `async with lock.current():`."""

    _loop: asyncio.AbstractEventLoop | None = None
    _lock: asyncio.Lock | None = None

    def current(self) -> asyncio.Lock:
        """Return the lock of the running loop; the lock of a former loop is not held any more."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock


@contextmanager
def set_context(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Let *variable* hold *value* in this block."""
    token = variable.set(value)
    try:
        yield value
    finally:
        reset_context(variable, token)


def reset_context(variable: ContextVar[T], token: Token[T]) -> None:
    """Reset *variable* to the value before *token* was given."""
    # A coroutine that its loop left behind is closed in a foreign context, which never held it.
    with suppress(ValueError):
        variable.reset(token)
