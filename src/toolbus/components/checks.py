"""What is wrong with components before they are set up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolbus.components.components import AgentComponent
from toolbus.components.lone_adapters import component_of, stands_for
from toolbus.errors import RegistrationError


def check_no_class(kind: str, candidate: Any) -> None:
    """Raise `RegistrationError` for a class in place of an instance, a *kind* of thing."""
    if isinstance(candidate, type):
        reason = f"it is a class; give an instance, `{candidate.__name__}(…)`"
        raise RegistrationError(f"{kind} {candidate.__name__!r}", reason)


def check_components(
    components: Any, installed: tuple[AgentComponent, ...] = ()
) -> tuple[AgentComponent, ...]:
    """Return *components*, an adapter among them in a component of its own.

    Raises `RegistrationError` for what is neither, and for what is there or *installed* already.
    """
    if not isinstance(components, Iterable) or isinstance(components, str):
        raise RegistrationError("components", f"expected several, in a list, not {components!r}")
    checked: tuple[AgentComponent, ...] = ()
    for candidate in components:
        check_no_class("component", candidate)
        component = component_of(candidate)
        if not isinstance(component, AgentComponent):
            reason = "expected an AgentComponent or a ToolAdapter"
            raise RegistrationError(f"component {candidate!r}", reason)
        if any(stands_for(each, candidate) for each in (*installed, *checked)):
            reason = "it is installed already; make another one"
            raise RegistrationError(f"component {component.name!r}", reason)
        checked = (*checked, component)
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
