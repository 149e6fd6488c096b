"""A component's three handlers that run its adapters, for whoever tells people of handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent

if TYPE_CHECKING:
    from collections.abc import Callable

_METHODS = {
    "_on_tools_provide_adapter": ("adapt_signature",),
    # What is filled in comes after all handlers; here it is decided who does it.
    "_on_tool_call_before_adapter": ("adapt_parameters", "fill_parameters"),
    "_on_message_append_before_adapter": ("adapt_response",),
}


def runs_adapters(name: str) -> bool:
    """Tell whether *name*, as the ledger has it, is that of a handler which only runs adapters."""
    return name.rpartition(".")[2] in _METHODS


def adapter_methods(
    handler: Callable[..., Any] | None,
) -> list[tuple[ToolAdapter, Callable[..., Any]]] | None:
    """Return the adapters that *handler* runs, in order, each with its method for this event.

    None for a handler that is no component's own. Adapters without such a method are left out.
    """
    component: Any = getattr(handler, "__self__", None)
    name = getattr(handler, "__name__", "")
    if name not in _METHODS or not isinstance(component, AgentComponent):
        return None
    # Who overrides it has a handler like any other.
    if getattr(type(component), name) is not getattr(AgentComponent, name):
        return None
    return [
        (adapter, getattr(adapter, method))
        for method in _METHODS[name]
        for adapter in _in_order(component, method)
        if getattr(type(adapter), method) is not getattr(ToolAdapter, method)
    ]


def _in_order(component: AgentComponent, method: str) -> tuple[ToolAdapter, ...]:
    # Each undoes what it told the model, the last one first.
    return component.adapters[::-1] if method.endswith("_parameters") else component.adapters
