"""One event on one bus: its ordered handlers, and the plans that dispatch to them."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import deque
from functools import partial
from itertools import chain, count
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.observers import notify
from toolbus.errors import DispatchError
from toolbus.events.catalogue import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from blinker import Signal

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.dispatch.loop import Verb
    from toolbus.events.catalogue import Event, Scope

_RANK = attrgetter("rank")


class Listeners:
    """The ordered handlers for one set of senders, and the plans that dispatch to them.

    The key of a plan is its verb, and whether the session has a tap.
    """

    __slots__ = ("bindings", "plans")

    def __init__(self, bindings: tuple[Binding, ...]) -> None:
        self.bindings = bindings
        self.plans: dict[tuple[Verb, bool], Callable[..., Any]] = {}


class Plans:
    """The plans of a channel by verb, and two cached answers; each is made on first use."""

    __slots__ = ("apply", "apply_sync", "do", "has_async", "has_listeners", "observe")

    apply: Callable[..., Coroutine[Any, Any, EventContext[Any]]]
    apply_sync: Callable[..., EventContext[Any]]
    do: Callable[..., object]
    observe: Callable[..., Coroutine[Any, Any, None]]
    has_async: bool
    has_listeners: bool


class Channel:
    """One event on one bus. *planner* makes its plans; *tapped* has the sessions with a tap.

    No dispatch takes a lock. The channel's `Plans` in *plans* are valid until the next change,
    which puts empty ones in their place: a plan made in between is lost with the old ones. A plan
    for all senders dispatches directly, else it looks up the listeners of the scope.
    *is_busy*: a dispatch is running; `depth` counts any inside it.
    """

    def __init__(
        self,
        event: Event,
        plans: dict[Event, Plans],
        planner: Callable[..., Callable[..., Any]],
        tapped: Collection[str],
    ) -> None:
        self.event, self._plans, self._planner, self._tapped = event, plans, planner, tapped
        self.is_busy = False
        # Reentrant: the garbage collector may end a subscription at any moment.
        self._order, self._lock = count(), threading.RLock()
        self._by_sender: dict[str | None, tuple[Binding, ...]] = {}
        self._scoped: dict[tuple[str, ...], Listeners] = {}
        self._ended: deque[Binding] = deque()
        self._signal: Signal | None = None
        plans[event] = Plans()

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The handlers of all senders, in the order in which they run."""
        with self._lock:
            self._forget_ended()
            return _merged(self._by_sender.values())

    @property
    def handled(self) -> bool:
        """Whether there is a handler of any sender."""
        with self._lock:
            self._forget_ended()
            return bool(self._by_sender)

    @property
    def signal(self) -> Signal:
        """The blinker signal, created on first use; its receivers are plain functions."""
        with self._lock:
            if self._signal is None:
                from blinker import NamedSignal  # noqa: PLC0415 - few buses need it

                self._signal = NamedSignal(self.event.name)
                for change in (self._signal.receiver_connected, self._signal.receiver_disconnected):
                    change.connect(self._receiver_changed, weak=False)
            return self._signal

    @property
    def has_receivers(self) -> bool:
        """Whether there are plain blinker receivers, of any sender."""
        return self._signal is not None and bool(self._signal.receivers)

    def add(self, binding: Binding, order: Callable[[int], int] = int) -> None:
        """Insert *binding* in order; *order* maps its number to its rank within the priority."""
        with self._lock:
            self._forget_ended()
            binding.rank = (*binding.rank[:2], order(next(self._order)))
            others = self._by_sender.get(binding.sender, ())
            place = bisect_right(others, binding.rank, key=_RANK)
            self._by_sender[binding.sender] = (*others[:place], binding, *others[place:])
            self.invalidate(binding.sender)

    def replace(self, old: Binding, new: Binding) -> None:
        """Put *new* into the place of *old*."""
        with self._lock:
            self.add(new, lambda _: old.rank[2])
            self.remove(old)

    def remove(self, binding: Binding) -> None:
        """Remove *binding*; an absent one is ignored."""
        binding.cancelled = True
        self.end(binding)
        with self._lock:
            self._forget_ended()

    def end(self, binding: Binding) -> None:
        """Release *binding*, which will never run again, without a lock."""
        # The garbage collector may call this, in a thread that holds any lock.
        self._ended.append(binding)
        self.invalidate(binding.sender)

    def invalidate(self, sender: str | None = None) -> None:
        """Discard the plans for listeners to *sender* (None: all), without a lock."""
        self._plans[self.event] = Plans()
        scoped = {} if sender is None else self._scoped.copy()
        self._scoped = {senders: each for senders, each in scoped.items() if sender not in senders}

    def cached(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the result of *make*, cached under *key* until the next change."""
        plans = self._plans[self.event]
        if not hasattr(plans, key):
            setattr(plans, key, make())
        return getattr(plans, key)

    def plan(self, verb: Verb) -> Callable[..., Any]:
        """Return the function that dispatches with *verb*; raises `DispatchError` for another."""
        if verb not in (verbs := _verbs(self.event)):
            instead = "` or `".join(verbs)
            raise DispatchError(self.event.name, f"use `{instead}`, not `{verb}`")
        plan: Callable[..., Any] = self.cached(verb, partial(self._make, verb))
        return plan

    def has_async(self) -> bool:
        """Return whether a handler of any sender is async."""
        return any(binding.is_async for binding in self.bindings)

    def notify(self, context: EventContext[Any]) -> None:
        """Report the end of a dispatch to the plain blinker receivers of its agent."""
        if not self.signal.is_muted:
            notify(list(self.signal.receivers_for(context.scope.agent_id)), context)

    def listeners(self, scope: Scope) -> Listeners:
        """Return the listeners of a dispatch under *scope*."""
        among = dict.fromkeys((*scope.lineage, scope.agent_id))
        # Agents without handlers of their own have the same listeners.
        senders = tuple([sender for sender in among if sender in self._by_sender])
        return self._scoped.get(senders) or self._gather(senders)

    def _gather(self, senders: tuple[str, ...]) -> Listeners:
        scoped = self._scoped
        with self._lock:
            self._forget_ended()
            groups = [self._by_sender.get(sender, ()) for sender in (None, *senders)]
        made = scoped[senders] = Listeners(_merged(groups))
        return made

    def _make(self, verb: Verb) -> Callable[..., Any]:
        with self._lock:
            self._forget_ended()
            if self._tapped or self._by_sender.keys() - {None}:
                return partial(self._route, verb)
            bindings = self._by_sender.get(None, ())
        return self._planner(self, verb, bindings, tapped=False)

    def _route(self, verb: Verb, value: Any, scope: Scope, details: Details | None = None) -> Any:
        """Dispatch to the listeners of *scope*."""
        known = None if scope.lineage else self._scoped.get((scope.agent_id,))
        listeners = known or self.listeners(scope)
        tapped = scope.session_id in self._tapped
        plan = listeners.plans.get((verb, tapped))
        if plan is None:
            plan = self._planner(self, verb, listeners.bindings, tapped=tapped)
            listeners.plans[verb, tapped] = plan
        return plan(value, scope, details)

    def _forget_ended(self) -> None:
        """Remove the ended bindings; the caller holds the lock."""
        while self._ended:
            try:
                binding = self._ended.popleft()
            except IndexError:
                return  # A finalizer came in between, and has removed it.
            others = self._by_sender.get(binding.sender, ())
            place = bisect_left(others, binding.rank, key=_RANK)
            if binding not in others[place:]:
                continue
            place = others.index(binding, place)
            self._by_sender[binding.sender] = (*others[:place], *others[place + 1 :])
            if len(others) == 1:
                del self._by_sender[binding.sender]

    def _receiver_changed(self, *_: object, **__: object) -> None:
        self.invalidate()


def _merged(groups: Collection[tuple[Binding, ...]]) -> tuple[Binding, ...]:
    """Return the handlers of the ordered *groups* in one order."""
    filled = [group for group in groups if group]
    if len(filled) == 1:
        return filled[0]
    return tuple(sorted(chain.from_iterable(filled), key=_RANK))


def _verbs(event: Event) -> tuple[Verb, ...]:
    match event:
        case TransformEvent():
            return "apply", "apply_sync"
        case ObserveEvent(awaited=True):
            return ("observe",)
    return ("do",)
