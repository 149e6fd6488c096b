"""Adapters change a tool's spec, a call's arguments or a response; a handler applies them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from toolbus.bus.dispatch.contexts import NO_SCOPE
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    Scope,
    ToolSpec,
)
from toolbus.events.subjects import matches
from toolbus.settings.hints import nearest

if TYPE_CHECKING:
    from toolbus.events.catalogue import Deny
    from toolbus.messages.records import ToolCall, ToolResponse

T = TypeVar("T")
Adapted: TypeAlias = T | Awaitable[T | None] | None
View: TypeAlias = Literal["model", "store"]
"""Who reads what an adapter leaves: the model, or who opens the stored copy."""

_ARGUMENTS = {
    "adapt_signature": ("spec",),
    "adapt_parameters": ("call",),
    "adapt_response": ("response", "call"),
    "fill_parameters": ("call",),
}
ADAPTER_METHODS: dict[Any, tuple[str, ...]] = {
    TOOLS_PROVIDE: ("adapt_signature",),
    # Filling comes after all handlers; here its adapter is chosen.
    TOOL_CALL_BEFORE: ("adapt_parameters", "fill_parameters"),
    MESSAGE_APPEND_BEFORE: ("adapt_response",),
}
"""The methods by which an adapter takes part in an event."""


class AdapterContext(Struct, frozen=True):
    """Who speaks while an adapter runs, for a method that takes `ctx`.

    *tool* is the tool's spec in force for what the method is given: arguments of a call fit its
    input schema. It is None if nobody knows the tool. *message_id* is that of the message which
    holds a response.
    """

    scope: Scope = NO_SCOPE
    tool: ToolSpec | None = None
    view: View = "model"
    message_id: str = ""


class ToolAdapter:
    """A change to some tools; a subclass writes what it needs of the four methods.

    Each may be sync or async, and may take one more parameter, `ctx`, an `AdapterContext`; None,
    or the same object, means unchanged. *tools* is a glob pattern of names, or several; a higher
    *priority* comes first in a component. When an adapter fails, "closed" withholds what it was to
    change, "open" leaves that as it was. *name* stands in the ledger and before the model; if the
    class does not say, it is that of the class.

    >>> class Shorten(ToolAdapter):
    ...     tools = "read_*"
    ...     def adapt_response(self, response, call):
    ...         return response.map_text(lambda text: text[:100])
    """

    name: str = "ToolAdapter"
    tools: tuple[str, ...] | str = ("*",)
    priority: int = 100
    on_error: Literal["open", "closed"] = "closed"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def should_adapt(self, tool_name: str) -> bool:
        """Tell whether the tool *tool_name* is one of those to adapt."""
        return matches(self.tools, tool_name)

    # `*args` and `**kwargs` let a type checker accept overrides with `ctx` and without it.

    def adapt_signature(self, spec: ToolSpec, *args: Any, **kwargs: Any) -> Adapted[ToolSpec]:
        """Return what the model is told of the tool; its name stays."""

    def adapt_parameters(self, call: ToolCall, *args: Any, **kwargs: Any) -> Adapted[ToolCall]:
        """Return the call with arguments for the signature that this adapter was given."""

    def adapt_response(
        self, response: ToolResponse, call: ToolCall, *args: Any, **kwargs: Any
    ) -> Adapted[ToolResponse]:
        """Return the response that the model reads; *call* is the call that it answers."""

    def fill_parameters(
        self, call: ToolCall, *args: Any, **kwargs: Any
    ) -> Adapted[ToolCall | Deny]:
        """Return the call with what its tool alone gets, or `Deny`.

        The last step before the tool runs: after all handlers, guards and questions. Neither they
        nor the ledger, observers and stored copies see what it returns.
        """


def overrides(adapter: ToolAdapter, *methods: str) -> bool:
    """Return whether *adapter* has one of *methods* of its own."""
    return any(getattr(type(adapter), name) is not getattr(ToolAdapter, name) for name in methods)


def asks_for_context(method: Callable[..., Any]) -> bool:
    """Tell whether *method*, one of an adapter's, has a parameter `ctx`."""
    return "ctx" in inspect.signature(method).parameters


def with_context(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return *method*, one of an adapter's, as one that takes `ctx` in any case."""
    if asks_for_context(method):
        return method

    def without(*arguments: object, ctx: AdapterContext) -> Any:  # noqa: ARG001 - it did not ask
        return method(*arguments)

    return without


def misspelt_method(adapter: ToolAdapter) -> str | None:
    """Return which method of *adapter* is never called, as its name is misspelt, or None.

    A name that is near one of ours is taken for it. If the adapter has none of them, any that
    begins as they do is: a helper would help nobody.
    """
    kind = type(adapter)
    known = [*_ARGUMENTS, "should_adapt"]
    idle = not overrides(adapter, *_ARGUMENTS)
    for name in sorted(set(dir(kind)).difference(dir(ToolAdapter))):
        if (
            ("adap" in name or "fill" in name)
            and not name.startswith("_")
            and callable(getattr(kind, name))
        ):
            if near := nearest(name, known, 0.8):
                return f"it has no use for a method {name!r}{near}"
            if idle:
                return f"it has no use for a method {name!r}; known: {', '.join(known)}"
    return None


def adapter_problem(adapter: ToolAdapter) -> str | None:
    """Return what is wrong with the attributes or methods of *adapter*, or None."""
    if adapter.on_error not in {"open", "closed"}:
        return f"on_error must be one of open, closed, not {adapter.on_error!r}"
    if type(adapter.priority) is not int:
        return f"priority must be an integer, not {adapter.priority!r}"
    return signature_problem(adapter) or misspelt_method(adapter)


def signature_problem(adapter: ToolAdapter) -> str | None:
    """Return which method of *adapter* could never be called, and why, or None."""
    for name, arguments in _ARGUMENTS.items():
        signature = inspect.signature(getattr(adapter, name))
        try:
            signature.bind(*arguments, **{"ctx": None} if "ctx" in signature.parameters else {})
        except TypeError:
            wanted, actual = ", ".join(arguments), ", ".join(signature.parameters)
            return f"{name} must take ({wanted}) or ({wanted}, ctx), not ({actual})"
    return None
