"""One event on one bus: its handlers by the sender they hear, blinker's signal, and the plans."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, get_args

from toolbus.bus.dispatch.bindings import Binding
from toolbus.bus.dispatch.observers import notify
from toolbus.bus.dispatch.plans import Verb
from toolbus.errors import DispatchError
from toolbus.events.catalogue import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable

    from blinker import Signal

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import Details
    from toolbus.events.catalogue import Event, Scope

T = TypeVar("T")


class Listeners(NamedTuple):
    """The handlers that hear a speaker, in their order, and the plans that dispatch to them.

    *plain* are the plans by their verbs, *tapped* those for sessions that have a tap.
    """

    bindings: tuple[Binding, ...]
    plain: dict[Verb, Callable[..., Any]]
    tapped: dict[Verb, Callable[..., Any]]


class Channel:
    """One event on one bus; *do*, *observe*, *apply* and *apply_sync* dispatch it.

    If everybody hears the same handlers, each of the four is a plan: made by *planner* at the
    first dispatch after a change, and from then on the very thing that is called. Else it looks
    up the listeners of who speaks. *tapped* are the sessions with a tap of their own.
    """

    do: Callable[..., None]
    observe: Callable[..., Coroutine[Any, Any, None]]
    apply: Callable[..., Coroutine[Any, Any, EventContext[Any]]]
    apply_sync: Callable[..., EventContext[Any]]

    def __init__(
        self, event: Event, signal: Signal, planner: Planner, tapped: Collection[str]
    ) -> None:
        self.event, self.signal, self.verbs = event, signal, _verbs(event)
        self._planner, self._tapped = planner, tapped
        self.permits: deque[None] = deque([None])
        # Reentrant, because blinker tells its listeners of a change while it is made.
        self._order, self._lock = count(), threading.RLock()
        self._by_sender: dict[str | None, dict[Binding, None]] = {}
        self._ended: deque[Binding] = deque()
        self._has_plain_receivers = False
        self._first = {verb: partial(self._dispatch_first, verb) for verb in get_args(Verb)}
        self.outdate()
        signal.receiver_connected.connect(self._receiver_changed, weak=False)
        signal.receiver_disconnected.connect(self._receiver_changed, weak=False)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """All handlers, whomever they hear, in the order in which they run."""
        with self._lock:
            self._forget_ended()
            return _ordered(self._by_sender.values())

    @property
    def handled(self) -> bool:
        """Whether there is a handler, whomever it hears."""
        with self._lock:
            self._forget_ended()
            return bool(self._by_sender)

    @property
    def has_plain_receivers(self) -> bool:
        """Whether there are plain blinker receivers, whomever they hear."""
        if self._has_plain_receivers:
            receivers = list(self.signal.receivers.values())
            self._has_plain_receivers = not all(isinstance(each, Binding) for each in receivers)
        return self._has_plain_receivers

    def add(self, binding: Binding, order: Callable[[int], int] = int) -> None:
        """Put *binding* into its place; *order* makes that of a number that counts them."""
        with self._lock:
            self._forget_ended()
            binding.order = order(next(self._order))
            self._by_sender.setdefault(binding.sender, {})[binding] = None
            self.outdate(binding.sender)
            # As hearing the channel itself, so that blinker never walks ours for those who send.
            self.signal.connect(binding, sender=self, weak=False)

    def replace(self, old: Binding, new: Binding) -> None:
        """Put *new* into the place of *old*."""
        with self._lock:
            self.add(new, lambda _: old.order)
            self.remove(old)

    def remove(self, binding: Binding) -> None:
        """Take *binding* out; one that is not there is ignored."""
        binding.cancelled = True
        self.end(binding)
        with self._lock:
            self._forget_ended()

    def end(self, binding: Binding) -> None:
        """Let *binding*, which will never run again, go; takes no lock."""
        # The garbage collector may call it, in a thread that holds any lock.
        self._ended.append(binding)
        self.outdate(binding.sender)

    def outdate(self, sender: str | None = None) -> None:
        """Have what hears *sender* (None: all) made anew before its next dispatch; no lock."""
        self.version = object()
        self.heard: bool | None = None
        self.awaited: bool | None = None
        if sender is None:
            self._listeners: dict[tuple[str, ...], Listeners] = {}
        for senders in tuple(self._listeners):
            if sender in senders:
                self._listeners.pop(senders, None)
        for verb, first in self._first.items():
            setattr(self, verb, first)

    def keep_heard(self, ask: Callable[[Channel], bool]) -> bool:
        """Return what *ask* says of this channel; it is *heard* until the next change."""
        return self._keep("heard", lambda: ask(self))

    def keep_awaited(self) -> bool:
        """Return whether a handler is async; it is *awaited* until the next change."""
        return self._keep("awaited", lambda: any(each.is_async for each in self.bindings))

    def notify(self, context: EventContext[Any]) -> None:
        """Show the end of a dispatch to the plain blinker receivers that hear who spoke."""
        if not self.signal.is_muted:
            notify(list(self.signal.receivers_for(context.scope.agent_id)), context)

    def listeners(self, scope: Scope) -> Listeners:
        """Return who hears a dispatch under *scope*."""
        among = dict.fromkeys((*scope.lineage, scope.agent_id))
        # Speakers without handlers of their own have the same listeners.
        senders = tuple([sender for sender in among if sender in self._by_sender])
        return self._listeners.get(senders) or self._gather(senders)

    def _gather(self, senders: tuple[str, ...]) -> Listeners:
        """Return who hears *senders*, and keep that for the next dispatch."""
        with self._lock:
            self._forget_ended()
            senders = tuple([sender for sender in senders if sender in self._by_sender])
            version = self.version
            # Sorted at the first dispatch after a change: a dispatch neither sorts nor locks.
            groups = [self._by_sender.get(sender, {}) for sender in (None, *senders)]
            made = Listeners(_ordered(groups), {}, {})
            # Without the lock, the garbage collector may have ended a weak handler meanwhile.
            if self.version is version:
                self._listeners[senders] = made
            return made

    def _route(self, verb: Verb, value: Any, scope: Scope, details: Details | None = None) -> Any:
        """Dispatch to the listeners of who speaks."""
        known = None if scope.lineage else self._listeners.get((scope.agent_id,))
        listeners = known or self.listeners(scope)
        tapped = scope.session_id in self._tapped
        plans = listeners.tapped if tapped else listeners.plain
        plan = plans.get(verb)
        if plan is None:
            plan = plans[verb] = self._planner(self, verb, listeners.bindings, tapped=tapped)
        return plan(value, scope, details)

    def _dispatch_first(self, verb: Verb, *arguments: Any) -> Any:
        """Put what dispatches with *verb* into its place, and call it."""
        if verb not in self.verbs:
            instead = "` or `".join(self.verbs)
            raise DispatchError(self.event.name, f"use `{instead}`, not `{verb}`")
        return self._keep(verb, lambda: self._dispatching(verb))(*arguments)

    def _dispatching(self, verb: Verb) -> Callable[..., Any]:
        self._forget_ended()
        if self._tapped or self._by_sender.keys() - {None}:
            return partial(self._route, verb)
        return self._planner(self, verb, self._gather(()).bindings, tapped=False)

    def _keep(self, name: str, make: Callable[[], T]) -> T:
        """Return what *make* gives, and keep it as the attribute *name* until the next change."""
        with self._lock:
            version = self.version
            made = make()
            setattr(self, name, made)
            if self.version is not version:
                self.outdate()
            return made

    def _forget_ended(self) -> None:
        """Take out what has ended; under the lock."""
        for _ in range(len(self._ended)):
            if not self._ended:
                return  # A finalizer came in between, and has done it.
            binding = self._ended.popleft()
            mine = self._by_sender.get(binding.sender, {})
            mine.pop(binding, None)
            if not mine:
                self._by_sender.pop(binding.sender, None)
            self._disconnect(binding)

    def _receiver_changed(self, _: object, /, receiver: Callable[..., Any], **__: object) -> None:
        if not isinstance(receiver, Binding):
            self._has_plain_receivers = True
            self.outdate()

    def _disconnect(self, binding: Binding) -> None:
        # Blinker walks its senders, and raises if a stranger connects with a new one meanwhile.
        # The binding has ended all the same, and is taken out with the next change.
        try:
            self.signal.disconnect(binding)
        except RuntimeError:
            self._ended.append(binding)


def _ordered(groups: Iterable[Iterable[Binding]]) -> tuple[Binding, ...]:
    alive = [binding for group in groups for binding in group if not binding.ended]
    return tuple(sorted(alive, key=lambda binding: binding.rank))


class Planner(Protocol):
    """Makes the function that dispatches a channel's event to *bindings*, *tapped* or not."""

    def __call__(
        self, channel: Channel, verb: Verb, bindings: tuple[Binding, ...], /, *, tapped: bool
    ) -> Callable[..., Any]:
        """Make it."""


def _verbs(event: Event) -> tuple[Verb, ...]:
    match event:
        case TransformEvent():
            return "apply", "apply_sync"
        case ObserveEvent(awaited=True):
            return ("observe",)
    return ("do",)
