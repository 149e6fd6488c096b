"""What a handler is given, `EventContext`, and how those of one dispatch follow each other."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from toolbus.bus.dispatch.details import (
    NO_DETAILS,
    OVER,
    STEPPED,
    Assigned,
    Details,
    Rejected,
    Step,
)
from toolbus.events.catalogue import Ask, ObserveEvent, Scope

if TYPE_CHECKING:
    from toolbus.events.catalogue import Deny, Event, ToolSpec

V_co = TypeVar("V_co", covariant=True)
_NO_SCOPE = Scope()


class EventContext(Generic[V_co]):
    """What a handler is given: the event, the value as earlier handlers left it, and the scope.

    Make one yourself to call a handler in a test. The sync handlers of a dispatch share one until
    one of them changes something, so write into it in your turn only, and keep its `value`, which
    stays. What an async handler writes after its turn, or anybody once the guards have begun,
    reaches nobody.
    """

    __slots__ = ("_event", "_mine", "_more", "_original", "_output", "_scope", "_value")

    def __init__(
        self,
        event: Event,
        value: V_co,
        *,
        scope: Scope = _NO_SCOPE,
        tool: ToolSpec | None = None,
        check: Check | None = None,
        signatures: Signatures | None = None,
    ) -> None:
        self._event, self._scope = event, scope
        self._value = self._original = value
        self._output: Any = None
        self._mine: Assigned | None = None
        self._more: Details | None = Details(tool, check, signatures)

    @property
    def event(self) -> Event:
        """The event that is dispatched."""
        return self._event

    @property
    def value(self) -> V_co:
        """The value as earlier handlers left it."""
        return self._value

    @property
    def original(self) -> V_co:
        """The value as it was dispatched."""
        return self._original

    @property
    def output(self) -> Any:
        """The replacement, None until somebody replaced; assign to it to replace the value."""
        if self._mine in {None, STEPPED, OVER} or isinstance(self._event, ObserveEvent):
            return self._output
        return self._mine.value

    @output.setter
    def output(self, value: object) -> None:
        # What a guard assigns is refused when it returns, so that it cannot swallow the refusal.
        if self._mine is OVER:
            return
        # In an observer's context it stays as well, so that the observer can be told.
        if value is not None or isinstance(self._event, ObserveEvent):
            self._mine = Assigned(value)
        else:
            self._mine = STEPPED if self._details.own else None

    @property
    def answer(self) -> Any:
        """What a handler gave instead of going on, or None."""
        return None if self._more is None else self._more.answer

    @property
    def denied(self) -> Deny | None:
        """The refusal, if there is one."""
        return None if self._more is None else self._more.denied

    @property
    def asked(self) -> Ask | None:
        """What guards want to have asked about the final value; several prompts stand on lines.

        It is known when the dispatch is over.
        """
        more = self._details
        if self._mine is not OVER or more.closed or not more.asks:
            return None
        return Ask("\n".join(more.asks))

    @property
    def rejected(self) -> Rejected | None:
        """The handler whose replacement the dispatch's check refused, and why."""
        return None if self._more is None else self._more.rejected

    @property
    def scope(self) -> Scope:
        """Who is speaking."""
        return self._scope

    @property
    def tool(self) -> ToolSpec | None:
        """The tool's spec that is in force here; None on events without a tool."""
        return None if self._more is None else self._more.tool

    @property
    def steps(self) -> tuple[Step, ...]:
        """What `step` was told, by this handler or, after a dispatch, by all of them."""
        more = self._details
        return more.steps if self._mine is OVER else tuple(more.own or ())

    def step(
        self,
        name: str,
        value: object,
        *,
        actor: object = None,
        failed: str | None = None,
        detail: str | None = None,
        tool: ToolSpec | None = None,
    ) -> None:
        """Say that *name*, one of several parts of this handler, left *value*.

        The ledger gets an entry for it. The spec in force becomes *tool*, or the one that *actor*,
        an adapter, was given; the dispatch's check judges the value, and blames *name*. *detail*
        tells operators why it *failed*. After the handler's turn, and in an observer, nothing
        happens.
        """
        if self._mine is OVER or isinstance(self._event, ObserveEvent):
            return
        more = self._more or NO_DETAILS
        own, outer = more.own, more.tool
        before = own[-1].after if own else self._value
        given = (more.signatures(actor, value) if more.signatures else tool) or outer
        step = Step(name, before, value, actor, failed, outer, perf_counter_ns(), detail)
        if own and given is outer:
            own.append(step)
        else:
            self._more = more = replace(more, tool=given, own=[*(own or ()), step])
            self._mine = self._mine or STEPPED
        # An adapter that leaves the value as it was may break the signature that it was given.
        moved = value is not before or (given is not outer and failed is None)
        if moved and more.check and (reason := more.check(self, value)):
            # Kept as well, because the handler may catch it.
            rejected = Rejected(name, reason)
            self._more = replace(more, rejected=rejected)
            raise rejected

    @property
    def _details(self) -> Details:
        return self._more or NO_DETAILS


class Turn(EventContext[Any]):
    """A context that is made for a dispatch, by the functions below, which fill it."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self) -> None: ...
    else:
        # There is one per dispatch at least, so it is made without a detour through ours.
        __init__ = object.__init__


def begun(event: Event, value: object, scope: Scope, more: Details | None) -> EventContext[Any]:
    """Return the context in which a dispatch begins."""
    fresh = Turn()
    fresh._event, fresh._scope, fresh._more = event, scope, more
    fresh._value = fresh._original = value
    fresh._output = fresh._mine = None
    return fresh


def shown(context: EventContext[Any]) -> EventContext[Any]:
    """Return a context that shows what *context* does, for one observer alone."""
    fresh = Turn()
    fresh._event, fresh._scope, fresh._more = context._event, context._scope, context._more
    fresh._value, fresh._original = context._value, context._original
    fresh._output = context._output
    fresh._mine = None if isinstance(context._event, ObserveEvent) else OVER
    return fresh


def following(
    turn: EventContext[Any], value: object, output: object, more: Details | None
) -> EventContext[Any]:
    """End *turn*, and return the context of the one after it."""
    fresh = Turn()
    fresh._event, fresh._scope, fresh._original = turn._event, turn._scope, turn._original
    fresh._value, fresh._output, fresh._more, fresh._mine = value, output, more, None
    turn._mine = OVER
    return fresh


def again(turn: EventContext[Any]) -> EventContext[Any]:
    """End *turn*, which changed nothing, and return one that shows the same."""
    fresh = Turn()
    fresh._event, fresh._scope, fresh._more = turn._event, turn._scope, turn._more
    fresh._value, fresh._original, fresh._output = turn._value, turn._original, turn._output
    fresh._mine, turn._mine = None, OVER
    return fresh


Check: TypeAlias = Callable[[EventContext[Any], Any], str | None]
"""Judges a replacement: gets the turn's context and the new value, returns why it is refused."""

Signatures: TypeAlias = Callable[[object, Any], "ToolSpec | None"]
"""Tells the spec that an adapter was given for the tool of a call, None if that is not known."""
