"""What is wrong with components before they are set up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent
from toolbus.errors import RegistrationError


def check_no_class(kind: str, candidate: Any) -> None:
    """Raise `RegistrationError` for a class in place of an instance, a *kind* of thing."""
    if isinstance(candidate, type):
        reason = f"it is a class; give an instance, `{candidate.__name__}(…)`"
        raise RegistrationError(f"{kind} {candidate.__name__!r}", reason)


def check_components(components: Any) -> tuple[AgentComponent, ...]:
    """Return *components*; raises `RegistrationError` for what is none among them."""
    if not isinstance(components, Iterable) or isinstance(components, str):
        raise RegistrationError("components", f"expected several, in a list, not {components!r}")
    checked = tuple(components)
    for component in checked:
        check_no_class("component", component)
        if isinstance(component, ToolAdapter):
            way_out = "give a component on which `register_tool_adapter` was called"
            raise RegistrationError(f"component {component.name!r}", f"it is an adapter; {way_out}")
        if not isinstance(component, AgentComponent):
            raise RegistrationError(f"component {component!r}", "expected an AgentComponent")
    return checked


def check_requires(components: tuple[AgentComponent, ...]) -> None:
    """Raise `RegistrationError` if one of *components* requires what is not among them."""
    for component in components:
        missing = [
            wanted.__name__
            for wanted in component.requires
            if not any(isinstance(other, wanted) for other in components)
        ]
        if missing:
            reason = f"it requires {', '.join(missing)}; install that too"
            raise RegistrationError(f"component {component.name!r}", reason)
