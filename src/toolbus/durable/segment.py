"""A segment of a run: an agent that goes on from its transcript, one step at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.durable.engine import Workflow
    from toolbus.durable.runs import AgentFactory
    from toolbus.store.protocol import Store


def durable(make_agent: AgentFactory, store: Store) -> Workflow:
    """Return the workflow that runs segments of the agents of *make_agent* in *store*."""
    raise NotImplementedError
