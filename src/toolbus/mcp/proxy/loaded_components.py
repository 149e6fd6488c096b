"""What is at work in a proxy, as its command line and its configurations name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.config.approvals import ApprovalSettings
from toolbus.config.loading import load, load_changed, load_configuration, load_nearest
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.components.components import AgentComponent


class LoadedComponents(NamedTuple):
    """The *components*, the *bus*, if one was named, and what is said of *approvals*."""

    bus: EventBus | None
    components: list[AgentComponent]
    approvals: ApprovalSettings


def load_components(
    targets: Sequence[str],
    config: str | None = None,
    *,
    search: bool = False,
    changed: bool = False,
) -> LoadedComponents:
    """Return the components that *config* and then *targets* name, and the bus if one is named.

    A target is `FILE.py[:name]` or a configuration. If none is named, *search* takes what is in
    force here. A *config* that has *changed* has to be trusted. Raises `LoadError`.
    """
    bus, components, approvals = None, [], ApprovalSettings()
    read = load_changed if changed else load_configuration
    loaded = [] if config is None else [read(config)]
    if search and config is None and not targets and (nearest := load_nearest()) is not None:
        loaded.append(nearest)
    for target in (*loaded, *map(load, targets)):
        match target.kind:
            case "agent":
                reason = "an agent, which a proxy has no model for; give its components"
                raise UsageError(f"{target.target} is {reason}")
            case "bus" if bus is not None:
                raise UsageError(f"{target.target} is a second bus; give one, and components")
            case "bus":
                bus = target.bus
        if target.configuration is not None:
            approvals = approvals.before(target.configuration.approvals)
        for component in target.components:
            component.teardown()  # Loading has installed it for show.
            components.append(component)
    return LoadedComponents(bus, components, approvals)
