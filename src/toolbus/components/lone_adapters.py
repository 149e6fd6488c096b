"""An adapter where a component is wanted: it stands alone in one."""

from __future__ import annotations

from typing import Any

from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent


class AdapterComponent(AgentComponent):
    """The component of one *adapter*, with its name."""

    def __init__(self, adapter: ToolAdapter) -> None:
        self.register_tool_adapter(adapter)

    @property
    def name(self) -> str:
        """The adapter's name."""
        return self.adapters[0].name


def component_of(candidate: Any) -> Any:
    """Return *candidate*, in a component of its own if it is an adapter."""
    return AdapterComponent(candidate) if isinstance(candidate, ToolAdapter) else candidate


def stands_for(component: AgentComponent, candidate: object) -> bool:
    """Tell whether *component* is *candidate*, or that of the adapter *candidate*."""
    if isinstance(component, AdapterComponent) and component.adapters[0] is candidate:
        return True
    return component is candidate
