"""What a handler is given, `EventContext`, and what it must not do to a value."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from toolbus.events import Ask, Deny, Scope, TransformEvent
from toolbus.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:
    from toolbus.events import Event, ToolSpec

V_co = TypeVar("V_co", covariant=True)
Role: TypeAlias = Literal["transformer", "guard", "observer", "over"]

_UNSET: Any = object()
_NO_SCOPE = Scope()


class Rejected(Exception):
    """A dispatch's check refused what *handler* left; it ends the dispatch, whatever the policy."""

    def __init__(self, handler: str, reason: str) -> None:
        self.handler, self.reason = handler, reason
        super().__init__(handler, reason)


class Step:
    """What one of several steps of a handler, an adapter, did to the value.

    *tool* is the spec that was in force before it.
    """

    __slots__ = ("actor", "after", "before", "ended_ns", "failed", "name", "tool")

    def __init__(
        self,
        name: str,
        before: object,
        after: object,
        *,
        actor: object,
        failed: str | None,
        tool: ToolSpec | None,
        ended_ns: int,
    ) -> None:
        self.name, self.before, self.after = name, before, after
        self.actor, self.failed, self.tool, self.ended_ns = actor, failed, tool, ended_ns


class EventContext(Generic[V_co]):
    """What a handler is given: the event, the value as earlier handlers left it, and the scope.

    Make one yourself to call a handler in a test. Each transformer has a context of its own, so
    what it writes after its turn reaches nobody.
    """

    __slots__ = (
        "_answer",
        "_asked",
        "_check",
        "_denied",
        "_event",
        "_mine",
        "_original",
        "_output",
        "_rejected",
        "_role",
        "_scope",
        "_signatures",
        "_steps",
        "_tool",
        "_value",
    )

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
        self._event, self._scope, self._tool, self._check = event, scope, tool, check
        self._signatures = signatures
        self._value = self._original = value
        self._output: Any = None
        self._mine: Any = _UNSET
        self._answer: Any = None
        self._denied: Deny | None = None
        self._asked: Ask | None = None
        self._rejected: Rejected | None = None
        self._role: Role = "transformer" if isinstance(event, TransformEvent) else "observer"
        self._steps: tuple[Step, ...] = ()

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
        return self._output if self._mine is _UNSET else self._mine

    @output.setter
    def output(self, value: object) -> None:
        # What a guard assigns is refused when it returns, so that it cannot swallow the refusal.
        match self._role:
            case "transformer" | "guard":
                self._mine = _UNSET if value is None else value
            case "observer":
                self._mine = None

    @property
    def answer(self) -> Any:
        """What a handler gave instead of going on, or None."""
        return self._answer

    @property
    def denied(self) -> Deny | None:
        """The refusal, if there is one."""
        return self._denied

    @property
    def asked(self) -> Ask | None:
        """What guards want to have asked about the final value; several prompts stand on lines."""
        return self._asked

    @property
    def rejected(self) -> Rejected | None:
        """The handler whose replacement the dispatch's check refused, and why."""
        return self._rejected

    @property
    def scope(self) -> Scope:
        """Who is speaking."""
        return self._scope

    @property
    def tool(self) -> ToolSpec | None:
        """The tool's spec that is in force here; None on events without a tool."""
        return self._tool

    @property
    def steps(self) -> tuple[Step, ...]:
        """What `step` was told, by this handler or, after a dispatch, by all of them."""
        return self._steps

    def step(
        self,
        name: str,
        value: object,
        *,
        actor: object = None,
        failed: str | None = None,
        tool: ToolSpec | None = None,
    ) -> None:
        """Say that *name*, one of several parts of this handler, left *value*.

        The ledger gets an entry for it. The spec in force becomes *tool*, or the one that *actor*,
        an adapter, was given; the dispatch's check judges the value, and blames *name*. After
        the handler's turn nothing happens.
        """
        if self._role == "over":
            return
        before, outer = self._steps[-1].after if self._steps else self._value, self._tool
        given = self._signatures(actor, value) if self._signatures else tool
        self._tool = given or outer
        now = perf_counter_ns()
        step = Step(name, before, value, actor=actor, failed=failed, tool=outer, ended_ns=now)
        self._steps = (*self._steps, step)
        # An adapter that leaves the value as it was may break the signature that it was given.
        moved = value is not before or (self._tool is not outer and failed is None)
        if self._check and moved and (reason := self._check(self, value)):
            # Kept as well, because the handler may catch it.
            self._rejected = Rejected(name, reason)
            raise self._rejected

    def _turn(self, role: Role) -> EventContext[V_co]:
        """Return a context for one handler at this point of the dispatch."""
        # Once per handler and dispatch, so without the detour through `__init__`.
        turn: EventContext[V_co] = object.__new__(EventContext)
        turn._event, turn._scope, turn._tool = self._event, self._scope, self._tool
        turn._check, turn._signatures = self._check, self._signatures
        turn._value, turn._original, turn._output = self._value, self._original, self._output
        turn._answer, turn._denied, turn._asked = self._answer, self._denied, self._asked
        turn._rejected, turn._role, turn._mine, turn._steps = self._rejected, role, _UNSET, ()
        return turn

    def _forget_attempt(self) -> bool:
        """Tell whether an observer assigned an output since it was last asked."""
        tried, self._mine = self._mine is not _UNSET, _UNSET
        return tried

    def _take(self, result: object) -> Any:
        """End the turn; return what the handler gave: its *result*, else its output, else None."""
        self._role = "over"
        if result is not None or self._mine is _UNSET:
            return result
        return self._mine


Check: TypeAlias = Callable[[EventContext[Any], Any], str | None]
"""Judges a replacement: gets the turn's context and the new value, returns why it is refused."""

Signatures: TypeAlias = Callable[[object, Any], "ToolSpec | None"]
"""Tells the spec that an adapter was given for the tool of a call, None if that is not known."""


def mismatch(event: TransformEvent[Any, Any], before: Any, after: Any) -> str | None:
    """Return what *after*, a replacement of *before*, must not change and did, or None."""
    if not event.accepts(after):
        return f"returned `{type(after).__name__}`, which the event does not take"
    kept: tuple[str, ...] = ()
    match before:
        case ToolMessage():
            kept = ("role", "id", "tool_call_id")
        case SystemMessage() | UserMessage() | AssistantMessage():
            kept = ("role", "id")
        case ToolCall():
            kept = ("id",)
    for field in kept:
        # An event may take other types than messages as well, and those lack the field.
        if getattr(after, field, None) != getattr(before, field):
            return f"changed the {field}"
    return None
