"""What a component is installed on, as a protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from toolbus.bus.bus import EventBus
    from toolbus.components.state import State
    from toolbus.events.catalogue import Scope
    from toolbus.tools.toolset import Toolset


class Host(Protocol):
    """What a component is installed on: an agent, or anything else that offers these four."""

    @property
    def bus(self) -> EventBus:
        """Where its handlers are subscribed."""

    @property
    def tools(self) -> Toolset:
        """Where its tools are added."""

    @property
    def scope(self) -> Scope:
        """Whose events its handlers hear, sub-agents included; without an agent id: everyone's."""

    def state(self, name: str, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return what is kept under *name* for the session of *scope*, a sub-agent's its own.

        With *shared* it is that of the outermost agent above, one for all below it. Without a
        *scope* it is that of the host itself; raises `RegistrationError` if it has many, as the
        proxy. Names are shared by all components of a host: `AgentComponent.state` gives its own.
        """
        ...
