"""`EventContext`, the argument of every handler, and the contexts of one dispatch."""

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
    """A handler's assignment to `ctx.output`, in a box that no handler can return."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


# Placeholders for an output: steps or notes were reported; later writes are dropped.
STEPPED, OVER = Assigned(None), Assigned(None)


class Failed:
    """The result of a handler, or of its predicate, that raised *error*."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


SKIPPED: Any = object()
"""The result of a handler whose predicate returned False."""

QUEUED: Any = object()
"""The result of an async observer whose turn comes later."""


class EventContext(Generic[V_co]):
    """The argument of a handler: the event, the value after earlier handlers, and the scope.

    Create one to call a handler in a test. The handlers of a dispatch share a context until a
    handler changes the value, so write to it only during your turn, and keep its `value`, which is
    immutable. A handler with a timeout or in a thread has a context of its own. Writes after the
    turn of such a handler, or after the guards have begun, are dropped.

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
        """The dispatched event."""
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
        # A guard's assignment is refused when it returns, so that it cannot swallow the refusal.
        if self._assigned is OVER:
            return
        # An observer's assignment is kept as well, for a warning.
        if value is not None or isinstance(self._event, ObserveEvent):
            self._assigned = Assigned(value)
        else:
            details = self._details or NO_DETAILS
            self._assigned = STEPPED if details.turn_steps or details.notes else None

    @property
    def answer(self) -> Any:
        """The answer of a handler in place of a value, or None."""
        return None if self._details is None else self._details.answer

    @property
    def denied(self) -> Deny | None:
        """The denial, or None."""
        return None if self._details is None else self._details.denied

    @property
    def asked(self) -> Ask | None:
        """The question of the guards about the final value, one line per prompt, or None.

        It is available after the dispatch.
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
        """The handler whose replacement the dispatch's check refused, and the reason."""
        return None if self._details is None else self._details.rejected

    @property
    def scope(self) -> Scope:
        """The sender: its agent, session, run and turn."""
        return self._scope

    @property
    def tool(self) -> ToolSpec | None:
        """The current spec of the tool; None on events without a tool."""
        return None if self._details is None else self._details.tool

    @property
    def window(self) -> AnswerWindow | None:
        """The answer so far, for a handler with `incremental=True` in mid-answer; else None."""
        return None if self._details is None else self._details.window

    @property
    def steps(self) -> tuple[HandlerStep, ...]:
        """The reported steps of this handler or, after a dispatch, of all handlers."""
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
        """Report that *name*, a part of this handler, left *value*.

        The ledger gets an entry for it. The current spec becomes *tool*, or the spec that *actor*,
        an adapter, received; the dispatch's check judges the value, and blames *name*. *detail*
        explains a *failed* step to operators. After the handler's turn, and in an observer, this
        has no effect.
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
        """Report the work of parts of this handler, such as the rules of a policy, in this turn.

        The ledger gets an entry for each note that *notes* returns, before the handler's own;
        *notes* is called only with a tap. A second call replaces the first. After the handler's
        turn, and in an observer, this has no effect.
        """
        if self._assigned is OVER or isinstance(self._event, ObserveEvent):
            return
        self._details = replace(self._details or NO_DETAILS, notes=notes)
        self._assigned = self._assigned or STEPPED

    def _check_step(self, step: HandlerStep, inner: ToolSpec | None) -> None:
        """Raise `Rejected` if the dispatch's check refuses the value after *step* under *inner*."""
        # An adapter that leaves the value as it was may break the signature that it received.
        if step.after is step.before and (inner is step.tool or step.failed is not None):
            return
        details = self._details or NO_DETAILS
        if details.check and (reason := details.check(self, step.after)):
            # Kept as well, because the handler may catch it.
            rejected = Rejected(step.name, reason)
            self._details = replace(details, rejected=rejected)
            raise rejected

    def ends(self, *, judging: bool) -> bool:
        """Return whether no further transformer or observer runs or, if *judging*, no guard."""
        details = self._details
        if details is None:
            return False
        if details.denied is not None or details.rejected is not None:
            return True
        return details.answer is not None and not judging


class DispatchContext(EventContext[Any]):
    """A context made for a dispatch and filled by the loop and the functions below.

    Each dispatch makes at least one, so it is made without the cost of the constructor.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self) -> None: ...
    else:
        __init__ = object.__init__


def copy_context(context: EventContext[Any]) -> EventContext[Any]:
    """Return a new context with the state of *context*."""
    fresh = DispatchContext()
    fresh._event, fresh._scope, fresh._details = context._event, context._scope, context._details
    fresh._value, fresh._original = context._value, context._original
    fresh._assigned = None
    return fresh


def observer_context(context: EventContext[Any]) -> EventContext[Any]:
    """Return a context with the state of *context*, for one observer alone."""
    fresh = copy_context(context)
    if not isinstance(context._event, ObserveEvent):
        fresh._assigned = OVER
    return fresh


@contextmanager
def private_context(shared: EventContext[Any]) -> Iterator[EventContext[Any]]:
    """Give one handler a context of its own, since it may run beyond its turn.

    At the end of the turn its writes are copied to *shared*; later writes are dropped.
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
    """Return the context for the turn after *ended*, which accepts no more writes."""
    fresh = DispatchContext()
    fresh._event, fresh._scope, fresh._original = ended._event, ended._scope, ended._original
    fresh._value, fresh._details, fresh._assigned = value, details, None
    ended._assigned = OVER
    return fresh


Check: TypeAlias = Callable[[EventContext[Any], Any], str | None]
"""A judge of a replacement: from the turn's context and the new value to a reason to refuse it."""

Signatures: TypeAlias = Callable[[object, Any], "ToolSpec | None"]
"""A lookup of the spec that an adapter received for the tool of a call; None if unknown."""
