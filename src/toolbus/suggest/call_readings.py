"""The readings of recorded calls by a policy: each call as the policy reads it today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.events.catalogue import Scope
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.projects import project_at
from toolbus.policy.shared_facts import StatedFacts

if TYPE_CHECKING:
    from toolbus.messages.records import ToolCall
    from toolbus.policy.facts import CallReading
    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.policy.rules.records import PolicyRules


class CallReadings:
    """Reads recorded calls by *policy*, as if nothing doubtful was in view of them."""

    def __init__(self, policy: PolicyFile) -> None:
        self._policy, self._memory = policy, LineCache()
        self._readers: dict[str, tuple[PolicyRules, CallReader]] = {}

    def rules_for(self, project: str) -> PolicyRules:
        """Return the rules of a session that began in *project*."""
        return self._reader_for(project)[0]

    def read(self, call: ToolCall, session_id: str, folder: str, project: str) -> CallReading:
        """Return the reading of *call*, made in *folder* in a session that began in *project*."""
        scope = Scope(agent_id="", session_id=session_id, folder=folder, project=project)
        reader = self._reader_for(project)[1]
        return reader.facts(call, None, scope, folder or None, origins=StatedFacts())

    def _reader_for(self, project: str) -> tuple[PolicyRules, CallReader]:
        if project not in self._readers:
            rules = self._policy.read(project_at(project))
            self._readers[project] = rules, CallReader(rules, self._memory)
        return self._readers[project]
