"""What of each configured component reaches the model in a host, and what cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.components.adapter_handlers import AdapterHandler, owner_of
from toolbus.components.components import AgentComponent
from toolbus.events.catalogue import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
)
from toolbus.hosts.dialects.hook_events import Ability  # A type of records' fields.

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.config.loading import LoadedTarget
    from toolbus.events.catalogue import Event
    from toolbus.hosts.dialects.hook_events import Delivery

_UNHEARD = (MODEL_CALL_BEFORE, MODEL_CALL_ERROR, MODEL_CALL_DELTA, TOOL_CALL_ERROR)
"""Events of an agent that no host tells of."""

WAYS_ROUND: Mapping[Ability, str] = {
    "ask": "what would be asked is denied; the question waits for `toolbus approvals`",
    "rewrite_arguments": "a call that is to be rewritten is denied",
    "replace_result": "what a tool wrote stays in front of the model; put the proxy in front of "
    "MCP servers: toolbus proxy",
    "replace_failure": "what a failed tool wrote stays in front of the model; put the proxy in "
    "front of MCP servers (toolbus proxy), deny commands that would print secrets, or have the "
    "model end commands that may fail with `|| true`",
    "add_context": "texts for the model are not delivered",
    "block_prompt": "a prompt cannot be stopped",
    "deny": "a call cannot be denied",
    "observe": "its events are not seen",
}
"""What happens instead of what a host cannot be told, and what a person can do."""


class ComponentDelivery(Struct, frozen=True, kw_only=True):
    """What a component does in a host.

    Args:
        component: its name in the configuration.
        delivered: what reaches the model, always.
        mcp_only: what does for tools of MCP servers only.
        commands_only: what does for commands of a shell only.
        undelivered: what does not.
        unheard: names of events that it handles and that are never there.
    """

    component: str
    delivered: tuple[Ability, ...]
    mcp_only: tuple[Ability, ...] = ()
    commands_only: tuple[Ability, ...] = ()
    undelivered: tuple[Ability, ...] = ()
    unheard: tuple[str, ...] = ()


def component_deliveries(
    loaded: LoadedTarget, abilities: Mapping[Ability, Delivery]
) -> tuple[ComponentDelivery, ...]:
    """Return for each component of the *loaded* configuration what a host of *abilities* gives."""
    if loaded.configuration is None:
        return ()
    needs: dict[int, set[Ability]] = {}
    unheard: dict[int, set[str]] = {}
    for event in CATALOGUE:
        for component, ability in _needs(loaded, event):
            if event in _UNHEARD:
                unheard.setdefault(id(component), set()).add(event.name)
            elif ability is not None:
                needs.setdefault(id(component), set()).add(ability)
    return tuple(
        [
            _delivery(
                configured.entry.name,
                needs.get(id(configured.component), set()),
                unheard.get(id(configured.component), set()),
                abilities,
            )
            for configured in loaded.configuration.configured
        ]
    )


def _delivery(
    name: str, needs: set[Ability], unheard: set[str], abilities: Mapping[Ability, Delivery]
) -> ComponentDelivery:
    def those(delivery: str) -> tuple[Ability, ...]:
        return tuple([each for each in abilities if each in needs and abilities[each] == delivery])

    return ComponentDelivery(
        component=name,
        delivered=those("yes"),
        mcp_only=those("mcp"),
        commands_only=those("commands"),
        undelivered=those("no"),
        unheard=tuple(sorted(unheard)),
    )


def _needs(loaded: LoadedTarget, event: Event) -> Iterator[tuple[AgentComponent, Ability | None]]:
    """Yield components that handle *event*, with each ability that they need for that."""
    bus = loaded.bus
    for info, function in zip(bus.handlers(event), bus.functions(event), strict=True):
        component = owner_of(function)
        # A host runs the tool itself, so nothing is filled in as the last step.
        is_idle = isinstance(function, AdapterHandler) and all(
            method.__name__ == "fill_parameters" for _, method in function.methods()
        )
        if not isinstance(component, AgentComponent) or is_idle:
            continue
        yield component, None
        if event is TOOL_CALL_BEFORE:
            abilities: tuple[Ability, ...] = ("deny", "ask")
            if info.kind == "transformer":
                abilities = ("rewrite_arguments",)
        elif event is MESSAGE_APPEND_BEFORE and (not info.roles or "tool" in info.roles):
            abilities = ("replace_result", "replace_failure")
        elif event is RUN_BEFORE:
            abilities = ("block_prompt",)
        else:
            abilities = ()
        yield from [(component, ability) for ability in abilities]
