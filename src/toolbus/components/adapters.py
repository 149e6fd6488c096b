"""Adapters of tools, which change a spec, the arguments of a call, or a response."""

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
"""The reader of an adapter's result: the model, or a reader of the stored copy."""

_ARGUMENTS = {
    "adapt_signature": ("spec",),
    "adapt_parameters": ("call",),
    "adapt_response": ("response", "call"),
    "fill_parameters": ("call",),
}
ADAPTER_METHODS: dict[Any, tuple[str, ...]] = {
    TOOLS_PROVIDE: ("adapt_signature",),
    # Arguments are filled after all handlers; this event selects the adapters for it.
    TOOL_CALL_BEFORE: ("adapt_parameters", "fill_parameters"),
    MESSAGE_APPEND_BEFORE: ("adapt_response",),
}
"""The methods of an adapter for each event."""


class AdapterContext(Struct, frozen=True):
    """The context of an adapter's method, passed to its parameter `ctx`.

    *tool* is the tool's spec for the method's argument, such that the arguments of a call fit its
    input schema; None for an unknown tool. *message_id* is the id of the response's message.
    """

    scope: Scope = NO_SCOPE
    tool: ToolSpec | None = None
    view: View = "model"
    message_id: str = ""


class ToolAdapter:
    """A change to some tools; a subclass overrides any of the four methods.

    Each may be sync or async, and may take one more parameter, `ctx`, an `AdapterContext`; None,
    or the same object, means unchanged. *tools* has glob patterns of names; a higher *priority*
    comes first in a component. When an adapter fails, "closed" withholds the value, "open" leaves
    it unchanged. *name*, by default the class's, appears in the ledger and in texts for the model.

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
        """Return whether to adapt the tool *tool_name*."""
        return matches(self.tools, tool_name)

    # `*args` and `**kwargs` let a type checker accept overrides with `ctx` and without it.

    def adapt_signature(self, spec: ToolSpec, *args: Any, **kwargs: Any) -> Adapted[ToolSpec]:
        """Return the spec for the model; the name must stay."""

    def adapt_parameters(self, call: ToolCall, *args: Any, **kwargs: Any) -> Adapted[ToolCall]:
        """Return the call with arguments for the spec that this adapter received."""

    def adapt_response(
        self, response: ToolResponse, call: ToolCall, *args: Any, **kwargs: Any
    ) -> Adapted[ToolResponse]:
        """Return the response for the model; *call* is the answered call."""

    def fill_parameters(
        self, call: ToolCall, *args: Any, **kwargs: Any
    ) -> Adapted[ToolCall | Deny]:
        """Return the call with values for its tool alone, or `Deny`.

        This is the last step before the tool runs: after all handlers, guards and questions, and
        invisible to them, the ledger, observers and stored copies.
        """


def overrides(adapter: ToolAdapter, *methods: str) -> bool:
    """Return whether *adapter* overrides one of *methods*."""
    return any(getattr(type(adapter), name) is not getattr(ToolAdapter, name) for name in methods)


def asks_for_context(method: Callable[..., Any]) -> bool:
    """Return whether *method* of an adapter has a parameter `ctx`."""
    return "ctx" in inspect.signature(method).parameters


def misspelt_method(adapter: ToolAdapter) -> str | None:
    """Return the problem of a method that is never called because its name is misspelt, or None.

    A name similar to a known method counts. In an adapter without any known method, so does any
    name that begins like one, because a helper would be useless there.
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
                return f"unknown adapter method {name!r}{near}"
            if idle:
                return f"unknown adapter method {name!r}; known: {', '.join(known)}"
    return None


def adapter_problem(adapter: ToolAdapter) -> str | None:
    """Return the problem of an attribute or a method of *adapter*, or None."""
    if adapter.on_error not in {"open", "closed"}:
        return f"on_error must be one of open, closed, not {adapter.on_error!r}"
    if type(adapter.priority) is not int:
        return f"priority must be an integer, not {adapter.priority!r}"
    return signature_problem(adapter) or misspelt_method(adapter)


def signature_problem(adapter: ToolAdapter) -> str | None:
    """Return the problem of a method of *adapter* with the wrong parameters, or None."""
    for name, arguments in _ARGUMENTS.items():
        signature = inspect.signature(getattr(adapter, name))
        try:
            signature.bind(*arguments, **{"ctx": None} if "ctx" in signature.parameters else {})
        except TypeError:
            wanted, actual = ", ".join(arguments), ", ".join(signature.parameters)
            return f"{name} must take ({wanted}) or ({wanted}, ctx), not ({actual})"
    return None
