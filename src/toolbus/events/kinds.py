"""The two kinds of events, and the scope of a dispatch."""

from __future__ import annotations

from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

from msgspec import Struct

from toolbus.errors import RegistrationError
from toolbus.messages.fields import freeze_items, freeze_objects
from toolbus.messages.immutable import EMPTY, JsonObject

if TYPE_CHECKING:
    from toolbus.events.verdicts import Deny

V = TypeVar("V")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")


class Scope(Struct, frozen=True, kw_only=True):
    """The sender of a dispatch: an agent in a session, a run and a turn.

    *lineage* names the agents above a sub-agent, the outermost first. *root_session_id* is the
    session of the outermost agent, *parent_session_id* the session of the agent directly above,
    whose call *parent_call_id* runs the sub-agent; all three are "" without an agent above.
    *context* is the caller's argument of `run`: user, tenant, language. Relative paths of calls
    start at *folder*; the session began in *project*, a real path; "" is the process's folder.

    >>> Scope(agent_id="writer", session_id="s", context={"user": "jane"}).context["user"]
    'jane'
    """

    agent_id: str = ""
    session_id: str = ""
    run_id: str = ""
    turn: int = 0
    lineage: tuple[str, ...] = ()
    root_session_id: str = ""
    parent_session_id: str = ""
    parent_call_id: str = ""
    context: JsonObject = EMPTY
    folder: str = ""
    project: str = ""

    def __post_init__(self) -> None:
        freeze_items(self, "lineage", str)
        freeze_objects(self, "context")


class TransformEvent(Generic[V, R]):
    """A point where handlers may replace the value, answer or deny; dispatched with `apply`.

    *value* is the type of the value, *answer* the type that ends the dispatch in place of a value.
    With *asks* guards may return `Ask`. With *strict* a result of any other type denies, whatever
    the handler's policy, because a refusal may have been meant. `R` is the type of all results
    but None.

    >>> PRICE: TransformEvent[int, int] = TransformEvent("price:before", int)
    >>> handle = EventBus().on(PRICE, lambda ctx: ctx.value + 1)
    """

    __slots__ = ("_accepted", "_items", "answer", "asks", "name", "strict", "value")

    @overload
    def __init__(
        self: TransformEvent[T, T | Deny], name: str, value: type[T], *, strict: bool = False
    ) -> None: ...
    @overload
    def __init__(
        self: TransformEvent[T, T | A | Deny],
        name: str,
        value: type[T],
        *,
        answer: type[A],
        asks: bool = False,
        strict: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        value: object,
        *,
        answer: object = None,
        asks: bool = False,
        strict: bool = False,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        value: object,
        *,
        answer: object = None,
        asks: bool = False,
        strict: bool = False,
    ) -> None:
        self.name, self.value, self.asks, self.strict = name, value, asks, strict
        self.answer = () if answer is None else _checked_classes(name, answer)
        self._accepted = _checked_classes(name, value)
        is_sequence = get_origin(value) is tuple and get_args(value)[1:] == (...,)
        self._items = _checked_classes(name, get_args(value)[0]) if is_sequence else None

    def __repr__(self) -> str:
        return f"<TransformEvent {self.name}>"

    def accepts(self, value: object) -> bool:
        """Return whether *value* is of the event's type; for `tuple[X, ...]` check every item."""
        if self._items is None or not isinstance(value, tuple):
            return isinstance(value, self._accepted)
        return all(isinstance(item, self._items) for item in value)

    def takes(self, kind: type) -> bool:
        """Return whether every value of the class *kind* is of the event's type."""
        return self._items is None and issubclass(kind, self._accepted)


class ObserveEvent(Generic[V]):
    """A point that handlers observe and cannot change.

    It is dispatched with `do`, or with `observe` if it is *awaited*.

    >>> SOLD: ObserveEvent[str] = ObserveEvent("sold", str)
    >>> handle = EventBus().on(SOLD, lambda ctx: print("sold", ctx.value))
    """

    __slots__ = ("awaited", "name", "value")

    @overload
    def __init__(
        self: ObserveEvent[T], name: str, value: type[T], *, awaited: bool = False
    ) -> None: ...
    @overload
    def __init__(self, name: str, value: object, *, awaited: bool = False) -> None: ...
    def __init__(self, name: str, value: object, *, awaited: bool = False) -> None:
        self.name, self.value, self.awaited = name, value, awaited

    def __repr__(self) -> str:
        return f"<ObserveEvent {self.name}>"


Event: TypeAlias = TransformEvent[Any, Any] | ObserveEvent[Any]


def _checked_classes(event: str, annotation: Any) -> tuple[type, ...]:
    """Return the classes of *annotation* for `isinstance`; raises `RegistrationError`."""
    kinds = classes_of(annotation)
    try:
        for kind in kinds:
            isinstance(None, kind)
    except TypeError:
        reason = f"no value can be checked against {annotation!r}; use a class or a union of them"
        raise RegistrationError(f"event {event!r}", reason) from None
    return kinds


def classes_of(annotation: Any) -> tuple[type, ...]:
    """Return the classes of *annotation*: a class, a union of them, a generic, None or Any."""
    if get_origin(annotation) in {Union, UnionType}:
        return tuple([kind for arg in get_args(annotation) for kind in classes_of(arg)])
    if annotation is Any:
        return (object,)
    if annotation is None:
        return (type(None),)
    return (get_origin(annotation) or annotation,)
