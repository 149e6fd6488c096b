"""One event on one bus: its handlers in order, blinker's signal that holds them, and its plans."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args

from toolbus.bus.nesting import Nesting
from toolbus.dispatch.bindings import Binding
from toolbus.dispatch.showing import tell
from toolbus.dispatch.unrolled import Verb
from toolbus.errors import DispatchError
from toolbus.events import ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from blinker import Signal

    from toolbus.dispatch.contexts import EventContext
    from toolbus.events import Event

T = TypeVar("T")


class Channel:
    """One event on one bus; *do*, *observe*, *apply* and *apply_sync* dispatch it.

    Each of the four is a plan: made by *planner* at the first dispatch after a change, and from
    then on the very thing that is called.
    """

    __slots__ = (
        *("_bindings", "_first", "_lock", "_order", "_planner", "_version"),
        *("apply", "apply_sync", "do", "event", "heard", "nesting", "observe", "signal", "verbs"),
    )

    do: Callable[..., None]
    observe: Callable[..., Coroutine[Any, Any, None]]
    apply: Callable[..., Coroutine[Any, Any, EventContext[Any]]]
    apply_sync: Callable[..., EventContext[Any]]

    def __init__(self, event: Event, signal: Signal, planner: Planner) -> None:
        self.event, self.signal, self.verbs = event, signal, _verbs(event)
        self._planner, self.nesting = planner, Nesting(event.name)
        # Reentrant, because blinker tells its listeners of a change while it is made.
        self._order, self._lock = count(), threading.RLock()
        self._first = {verb: partial(self._dispatch_first, verb) for verb in get_args(Verb)}
        self.outdate()
        signal.receiver_connected.connect(self._receiver_changed, weak=False)
        signal.receiver_disconnected.connect(self._receiver_changed, weak=False)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """All handlers in the order in which they run."""
        bindings = self._bindings
        return self._keep("_bindings", self._sorted) if bindings is None else bindings

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
        """Have the order and the plans made anew before the next dispatch; takes no lock."""
        self._version = object()
        self._bindings: tuple[Binding, ...] | None = None
        self.heard: bool | None = None
        for verb, first in self._first.items():
            setattr(self, verb, first)

    def listen(self, ask: Callable[[Channel], bool]) -> bool:
        """Return what *ask* says of this channel; it is *heard* until the next change."""
        return self._keep("heard", lambda: ask(self))

    def strangers(self) -> list[Callable[..., Any]]:
        """Return the plain blinker receivers, whomever they hear."""
        return [one for one in self._receivers() if not isinstance(one, Binding)]

    def tell(self, context: EventContext[Any]) -> None:
        """Show the end of a dispatch to the strangers that hear who spoke."""
        if not self.signal.is_muted:
            heard = list(self.signal.receivers_for(context.scope.agent_id))
            tell([one for one in heard if not isinstance(one, Binding)], context)

    def _dispatch_first(self, verb: Verb, *arguments: Any) -> Any:
        """Make the plan for *verb*, put it into its place, and call it."""
        if verb not in self.verbs:
            instead = "` or `".join(self.verbs)
            raise DispatchError(self.event.name, f"use `{instead}`, not `{verb}`")
        return self._keep(verb, lambda: self._planner(self, verb))(*arguments)

    def _keep(self, name: str, make: Callable[[], T]) -> T:
        """Return what *make* gives, and keep it as the attribute *name* until the next change."""
        with self._lock:
            version = self._version
            made = make()
            setattr(self, name, made)
            # Without the lock, the garbage collector may have ended a weak handler meanwhile.
            if self._version is not version:
                self.outdate()
            return made

    def _sorted(self) -> tuple[Binding, ...]:
        # Sorted at the first dispatch after a change, and swapped in whole under the lock, so that
        # a dispatch neither sorts nor locks, and no change is lost to a sort under way.
        held = [one for one in self._receivers() if isinstance(one, Binding)]
        for binding in held:
            if binding.ended:
                self._disconnect(binding)
        mine = [binding for binding in held if not binding.ended]
        return tuple(sorted(mine, key=lambda binding: binding.rank))

    def _receivers(self) -> list[Callable[..., Any]]:
        return list(self.signal.receivers.values())

    def _receiver_changed(self, _: object, /, receiver: Callable[..., Any], **__: object) -> None:
        if not isinstance(receiver, Binding):
            self.outdate()

    def _disconnect(self, binding: Binding) -> None:
        # Blinker walks its senders, and raises if a stranger connects with a new one meanwhile.
        # The binding has ended all the same, and is taken out with the next change.
        with suppress(RuntimeError):
            self.signal.disconnect(binding)


Planner: TypeAlias = "Callable[[Channel, Verb], Callable[..., Any]]"
"""Makes the function that dispatches a channel's event."""


def _verbs(event: Event) -> tuple[Verb, ...]:
    match event:
        case TransformEvent():
            return "apply", "apply_sync"
        case ObserveEvent(awaited=True):
            return ("observe",)
    return ("do",)
