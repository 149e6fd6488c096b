"""The flow component: labels for the texts of a session, and facts about calls for rules."""

from __future__ import annotations

from toolbus.components.components import AgentComponent


class FlowGuard(AgentComponent):
    """Labels the texts of sessions, and tells rules where the words of a call came from."""
