"""The abilities needed by each configured component, and provided by a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.components.call_facts import CallFactSource, describe_unseen
from toolbus.components.needs import needs_of
from toolbus.events.catalogue import (
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    TOOL_CALL_ERROR,
)
from toolbus.hosts.dialects.hook_events import Ability  # A type of records' fields.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.components.components import AgentComponent
    from toolbus.config.targets import LoadedTarget
    from toolbus.events.catalogue import Event
    from toolbus.hosts.dialects.host_dialect import DialectFacts

_UNHEARD = (MODEL_CALL_BEFORE, MODEL_CALL_ERROR, MODEL_CALL_DELTA, TOOL_CALL_ERROR)
"""Events of an agent that no host reports."""

WAYS_ROUND: Mapping[Ability, str] = {
    "ask": "calls that require approval are denied; the question waits in `toolbus approvals`",
    "rewrite_arguments": "calls that would be rewritten are denied",
    "replace_result": "the model reads the original results of tools; put the proxy in front of "
    "MCP servers: toolbus proxy",
    "replace_failure": "the model reads the original output of failed tools; put the proxy in "
    "front of MCP servers (toolbus proxy), deny commands that would print secrets, or have the "
    "model end commands that may fail with `|| true`",
    "add_context": "texts for the model are not delivered",
    "block_prompt": "prompts cannot be blocked",
    "deny": "calls cannot be denied",
    "observe": "its events are not seen",
}
"""The effect of each missing ability, and the workaround for a person."""


class ComponentDelivery(Struct, frozen=True, kw_only=True):
    """The abilities that a component needs, by whether a host provides them.

    Args:
        component: its name in the configuration.
        delivered: abilities without a limit.
        mcp_only: abilities for tools of MCP servers only.
        commands_only: abilities for shell commands only.
        undelivered: abilities without any effect.
        unheard: names of its events without a report of the host.
        unseen: a sentence about the unseen texts, for a component with facts on calls.
    """

    component: str
    delivered: tuple[Ability, ...]
    mcp_only: tuple[Ability, ...] = ()
    commands_only: tuple[Ability, ...] = ()
    undelivered: tuple[Ability, ...] = ()
    unheard: tuple[str, ...] = ()
    unseen: str = ""


def component_deliveries(
    loaded: LoadedTarget, facts: DialectFacts
) -> tuple[ComponentDelivery, ...]:
    """Return the deliveries of each *loaded* component, in the host of *facts*."""
    if loaded.configuration is None:
        return ()
    abilities, deliveries = facts.abilities, []
    for configured in loaded.configuration.configured:
        handled = [*needs_of(loaded.bus, configured.component)]
        needs = {ability for _, needed in handled for ability in needed}
        by_delivery = {
            delivery: tuple(
                [each for each in abilities if each in needs and abilities[each] == delivery]
            )
            for delivery in ("yes", "mcp", "commands", "no")
        }
        deliveries.append(
            ComponentDelivery(
                component=configured.entry.name,
                delivered=by_delivery["yes"],
                mcp_only=by_delivery["mcp"],
                commands_only=by_delivery["commands"],
                undelivered=by_delivery["no"],
                unheard=_unheard(configured.component, [event for event, _ in handled]),
                unseen=_unseen(configured.component, facts),
            )
        )
    return tuple(deliveries)


def _unheard(component: AgentComponent, events: Sequence[Event]) -> tuple[str, ...]:
    # Such a component reads the events of an agent only where its host shows all texts.
    if isinstance(component, CallFactSource):
        return ()
    return tuple(sorted({event.name for event in events if event in _UNHEARD}))


def _unseen(component: AgentComponent, facts: DialectFacts) -> str:
    """Return a sentence about the texts unseen by *component* in the host of *facts*."""
    if not isinstance(component, CallFactSource):
        return ""
    kinds = {*facts.kinds.values()}
    missing = [f"{kind}s, " for kind in ("prompt", "answer") if kind not in kinds]
    texts = f"{''.join(missing)}instructions, memory files, and summaries of earlier turns"
    return describe_unseen(texts)
