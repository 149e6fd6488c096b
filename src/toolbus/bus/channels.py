"""One event on one bus: its handlers in order, and blinker's signal that holds them."""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

from toolbus.dispatch.bindings import Binding
from toolbus.errors import DispatchDepthError
from toolbus.events import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from blinker import Signal

    from toolbus.events import Event

MAX_DEPTH = 16


class Channel:
    """One event on one bus; *verbs* are the ways to dispatch it."""

    __slots__ = ("_bindings", "_depth", "_lock", "_order", "event", "signal", "verbs")

    def __init__(self, event: Event, signal: Signal) -> None:
        self.event, self.signal, self.verbs = event, signal, _verbs(event)
        self._bindings: tuple[Binding, ...] | None = ()
        self._depth: ContextVar[int] = ContextVar(event.name, default=0)
        # Reentrant, because blinker tells its listeners of a change while it is made.
        self._order, self._lock = count(), threading.RLock()

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """All handlers in the order in which they run."""
        bindings = self._bindings
        return self._sorted() if bindings is None else bindings

    def add(self, binding: Binding) -> None:
        """Put *binding* into its place."""
        with self._lock:
            binding.order = next(self._order)
            # For any sender: blinker keeps a set for each sender for ever, and knows no lineage.
            self.signal.connect(binding, weak=False)
            self.outdate()

    def remove(self, binding: Binding) -> None:
        """Take *binding* out; one that is not there is ignored."""
        with self._lock:
            binding.cancelled = True
            self.outdate()
            self._disconnect(binding)

    def outdate(self) -> None:
        """Have the order made anew before the next dispatch."""
        self._bindings = None

    def strangers(self, agent_id: str) -> list[Callable[..., Any]]:
        """Return the plain blinker receivers that hear *agent_id*."""
        mine = self._bindings
        # The order is outdated before blinker forgets a binding, so equal counts of one moment
        # mean that all receivers are ours.
        if mine is not None and len(self.signal.receivers) == len(mine) and mine is self._bindings:
            return []
        if self.signal.is_muted:
            return []
        heard = list(self.signal.receivers_for(agent_id))
        return [receiver for receiver in heard if not isinstance(receiver, Binding)]

    def deeper(self) -> Depth:
        """Count a dispatch inside a dispatch of the same event."""
        return Depth(self.event.name, self._depth)

    def _sorted(self) -> tuple[Binding, ...]:
        # Sorted at the first dispatch after a change, and swapped in whole under the lock, so that
        # a dispatch neither sorts nor locks, and no change is lost to a sort under way.
        with self._lock:
            for binding in self._held():
                if binding.ended:
                    self._disconnect(binding)
            mine = [binding for binding in self._held() if not binding.ended]
            self._bindings = tuple(sorted(mine, key=lambda binding: binding.rank))
            return self._bindings

    def _held(self) -> list[Binding]:
        receivers = list(self.signal.receivers.values())
        return [receiver for receiver in receivers if isinstance(receiver, Binding)]

    def _disconnect(self, binding: Binding) -> None:
        # Blinker walks its senders, and raises if a stranger connects with a new one meanwhile.
        # The binding has ended all the same, and is taken out with the next change.
        with suppress(RuntimeError):
            self.signal.disconnect(binding)


class Depth:
    """A level of dispatches of one event inside each other, as a context manager."""

    __slots__ = ("_depth", "_name", "_token")

    _token: Token[int]

    def __init__(self, name: str, depth: ContextVar[int]) -> None:
        self._name, self._depth = name, depth

    def __enter__(self) -> None:
        depth = self._depth.get()
        if depth >= MAX_DEPTH:
            raise DispatchDepthError(self._name, depth)
        self._token = self._depth.set(depth + 1)

    def __exit__(self, *_: object) -> None:
        # A coroutine that its loop left behind is closed in a foreign context.
        try:  # noqa: SIM105 - `suppress` would cost every dispatch
            self._depth.reset(self._token)
        except ValueError:
            pass


def _verbs(event: Event) -> tuple[str, ...]:
    match event:
        case TransformEvent():
            return "apply", "apply_sync"
        case ObserveEvent(awaited=True):
            return ("observe",)
    return ("do",)
