"""A lock for coroutines that outlives an event loop: `run_sync` makes a new one each time."""

from __future__ import annotations

import asyncio


class LoopLock:
    """One lock in whatever loop runs; `async with lock.here():`."""

    __slots__ = ("_lock", "_loop")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None

    def here(self) -> asyncio.Lock:
        """Return the lock of the running loop; the lock of a former loop is nobody's any more."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
