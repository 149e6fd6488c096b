"""`EventContext`, which a handler is given, and the contexts that a dispatch makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from toolbus.bus.dispatch.details import (
    NO_DETAILS,
    AnswerWindow,
    Details,
    HandlerStep,
    PartNote,
    Rejected,
)
from toolbus.events.catalogue import Ask, Deny, ObserveEvent, Scope, ToolSpec

if TYPE_CHECKING:
    from toolbus.events.catalogue import Event

V_co = TypeVar("V_co", covariant=True)
NO_SCOPE = Scope()


class Assigned:
    """What a handler left in `ctx.output`, in a box that is no handler's result."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


# What stands for an output when there is something else to look at, or when nobody looks any more.
STEPPED, OVER = Assigned(None), Assigned(None)


class Failed:
    """Stands for the result of a handler, or of its predicate, that raised *error*."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


SKIPPED: Any = object()
"""Stands for the result of a handler whose predicate said no."""

QUEUED: Any = object()
"""Stands for the result of an async observer that will have its turn later."""


class EventContext(Generic[V_co]):
    """What a handler is given: the event, the value as earlier handlers left it, and the scope.

    Make one yourself to call a handler in a test. The handlers of a dispatch share one until one
    of them changes something, so write into it in your turn only, and keep its `value`, which
    stays. A handler with a timeout or in a thread has its own. What a handler with its own writes
    after its turn, or any handler once the guards have begun, is dropped.

    >>> def inside_only(ctx):
    ...     return Deny("outside") if ctx.value.arguments["path"].startswith("/") else None
    >>> call = ToolCall(name="read", arguments={"path": "/etc"})
    >>> inside_only(EventContext(events.TOOL_CALL_BEFORE, call)).reason
    'outside'
    """

    __slots__ = ("_assigned", "_details", "_event", "_original", "_scope", "_value")

    def __init__(
        self,
        event: Event,
        value: V_co,
        *,
        scope: Scope = NO_SCOPE,
        tool: ToolSpec | None = None,
        check: Check | None = None,
        signatures: Signatures | None = None,
        window: AnswerWindow | None = None,
    ) -> None:
        self._event, self._scope = event, scope
        self._value = self._original = value
        self._assigned: Assigned | None = None
        self._details: Details | None = Details(tool, check, signatures, window=window)

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
        """The replacement, None while the value is the original; assign to it to replace that."""
        if self._assigned in {None, STEPPED, OVER} or isinstance(self._event, ObserveEvent):
            return None if self._value is self._original else self._value
        return self._assigned.value

    @output.setter
    def output(self, value: object) -> None:
        # What a guard assigns is refused when it returns, so that it cannot swallow the refusal.
        if self._assigned is OVER:
            return
        # In an observer's context it stays as well, so that the observer can be told.
        if value is not None or isinstance(self._event, ObserveEvent):
            self._assigned = Assigned(value)
        else:
            details = self._details or NO_DETAILS
            self._assigned = STEPPED if details.turn_steps or details.notes else None

    @property
    def answer(self) -> Any:
        """What a handler gave instead of going on, or None."""
        return None if self._details is None else self._details.answer

    @property
    def denied(self) -> Deny | None:
        """The refusal, if there is one."""
        return None if self._details is None else self._details.denied

    @property
    def asked(self) -> Ask | None:
        """What guards want to have asked about the final value; several prompts stand on lines.

        It is known when the dispatch is over.
        """
        details = self._details or NO_DETAILS
        if self._assigned is not OVER or not details.asks or details.closed:
            return None
        return Ask.merged([ask for _, ask in details.asks])

    @property
    def askers(self) -> tuple[str, ...]:
        """The names of the guards that asked, in their order."""
        return tuple([name for name, _ in (self._details or NO_DETAILS).asks])

    @property
    def rejected(self) -> Rejected | None:
        """The handler whose replacement the dispatch's check refused, and why."""
        return None if self._details is None else self._details.rejected

    @property
    def scope(self) -> Scope:
        """Who is speaking."""
        return self._scope

    @property
    def tool(self) -> ToolSpec | None:
        """The tool's spec that is in force here; None on events without a tool."""
        return None if self._details is None else self._details.tool

    @property
    def window(self) -> AnswerWindow | None:
        """What was said so far, for a handler with `incremental=True` in mid-answer; else None."""
        return None if self._details is None else self._details.window

    @property
    def steps(self) -> tuple[HandlerStep, ...]:
        """What `step` was told, by this handler or, after a dispatch, by all of them."""
        details = self._details or NO_DETAILS
        return details.steps if self._assigned is OVER else tuple(details.turn_steps or ())

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
        if self._assigned is OVER or isinstance(self._event, ObserveEvent):
            return
        details = self._details or NO_DETAILS
        steps, outer = details.turn_steps or [], details.tool
        before = steps[-1].after if steps else self._value
        inner = details.spec_after(actor, value, tool)
        step = HandlerStep(name, before, value, actor, failed, outer, perf_counter_ns(), detail)
        if steps and inner is outer:
            steps.append(step)
        else:
            self._details = replace(details, tool=inner, turn_steps=[*steps, step])
            self._assigned = self._assigned or STEPPED
        self._check_step(step, inner)

    def note(self, notes: Callable[[], Iterable[PartNote]]) -> None:
        """Say what parts of this handler did, such as the rules of a policy, in this turn.

        The ledger gets an entry for each that *notes* returns, before the handler's own; it is
        called if somebody reads the ledger. Nothing else is changed by it, and a second time
        replaces the first. After the handler's turn, and in an observer, nothing happens.
        """
        if self._assigned is OVER or isinstance(self._event, ObserveEvent):
            return
        self._details = replace(self._details or NO_DETAILS, notes=notes)
        self._assigned = self._assigned or STEPPED

    def _check_step(self, step: HandlerStep, inner: ToolSpec | None) -> None:
        """Raise `Rejected` if the dispatch's check refuses what *step* left under *inner*."""
        # An adapter that leaves the value as it was may break the signature that it was given.
        if step.after is step.before and (inner is step.tool or step.failed is not None):
            return
        details = self._details or NO_DETAILS
        if details.check and (reason := details.check(self, step.after)):
            # Kept as well, because the handler may catch it.
            rejected = Rejected(step.name, reason)
            self._details = replace(details, rejected=rejected)
            raise rejected

    def ends(self, *, judging: bool) -> bool:
        """Return whether no other transformer or observer runs or, if *judging*, no other guard."""
        details = self._details
        if details is None:
            return False
        if details.denied is not None or details.rejected is not None:
            return True
        return details.answer is not None and not judging


class DispatchContext(EventContext[Any]):
    """A context that is made for a dispatch, by the loop and by the functions below, which fill it.

    There is one per dispatch at least, so it is made without a detour through the constructor.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self) -> None: ...
    else:
        __init__ = object.__init__


def copy_context(context: EventContext[Any]) -> EventContext[Any]:
    """Return a context that shows what *context* does."""
    fresh = DispatchContext()
    fresh._event, fresh._scope, fresh._details = context._event, context._scope, context._details
    fresh._value, fresh._original = context._value, context._original
    fresh._assigned = None
    return fresh


def observer_context(context: EventContext[Any]) -> EventContext[Any]:
    """Return a context that shows what *context* does, for one observer alone."""
    fresh = copy_context(context)
    if not isinstance(context._event, ObserveEvent):
        fresh._assigned = OVER
    return fresh


@contextmanager
def own_context(shared: EventContext[Any]) -> Iterator[EventContext[Any]]:
    """Give one handler a context of its own, since it may go on after its turn.

    At the end of the turn *shared* has what was written into it, and later writes are dropped.
    """
    alone = copy_context(shared)
    try:
        yield alone
    finally:
        shared._assigned, shared._details = alone._assigned, alone._details
        alone._assigned = OVER


def next_context(
    ended: EventContext[Any], value: object, details: Details | None
) -> EventContext[Any]:
    """Return the context of the turn after that of *ended*, which takes no more."""
    fresh = DispatchContext()
    fresh._event, fresh._scope, fresh._original = ended._event, ended._scope, ended._original
    fresh._value, fresh._details, fresh._assigned = value, details, None
    ended._assigned = OVER
    return fresh


Check: TypeAlias = Callable[[EventContext[Any], Any], str | None]
"""Judges a replacement: gets the turn's context and the new value, returns why it is refused."""

Signatures: TypeAlias = Callable[[object, Any], "ToolSpec | None"]
"""Tells the spec that an adapter was given for the tool of a call, None if that is not known."""
