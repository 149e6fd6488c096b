"""One event on one bus: its handlers in order, and blinker's signal that holds them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

from toolbus.dispatch.bindings import Binding
from toolbus.errors import DispatchDepthError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blinker import Signal

    from toolbus.events import Event

MAX_DEPTH = 16


class Channel:
    """One event on one bus."""

    __slots__ = ("_bindings", "_depth", "_lock", "_order", "event", "signal")

    def __init__(self, event: Event, signal: Signal) -> None:
        self.event, self.signal = event, signal
        self._bindings: tuple[Binding, ...] | None = ()
        self._depth: ContextVar[int] = ContextVar(event.name, default=0)
        self._order, self._lock = count(), threading.Lock()

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """All handlers in the order in which they run."""
        return self._sorted() if self._bindings is None else self._bindings

    def add(self, binding: Binding) -> None:
        """Put *binding* into its place."""
        with self._lock:
            binding.order = next(self._order)
            self.signal.connect(binding, sender=binding.sender or self.signal.ANY, weak=False)
            self._bindings = None

    def remove(self, binding: Binding) -> None:
        """Take *binding* out; one that is not there is ignored."""
        with self._lock:
            self.signal.disconnect(binding)
            self._bindings = None

    def strangers(self, agent_id: str) -> list[Callable[..., Any]]:
        """Return the plain blinker receivers that hear *agent_id*."""
        if len(self.signal.receivers) == len(self.bindings):
            return []
        heard = list(self.signal.receivers_for(agent_id))
        return [receiver for receiver in heard if not isinstance(receiver, Binding)]

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Count a dispatch inside a dispatch of the same event."""
        depth = self._depth.get()
        if depth >= MAX_DEPTH:
            raise DispatchDepthError(self.event.name, depth)
        token = self._depth.set(depth + 1)
        try:
            yield
        finally:
            self._depth.reset(token)

    def _sorted(self) -> tuple[Binding, ...]:
        # Sorted at the first dispatch after a change, and swapped in whole under the lock, so that
        # a dispatch neither sorts nor locks, and no change is lost to a sort under way.
        with self._lock:
            mine = [one for one in list(self.signal.receivers.values()) if isinstance(one, Binding)]
            for dead in [binding for binding in mine if not binding.alive]:
                self.signal.disconnect(dead)
                mine.remove(dead)
            self._bindings = tuple(sorted(mine, key=lambda binding: binding.rank))
            return self._bindings
