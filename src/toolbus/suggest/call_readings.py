"""The readings of recorded calls by a policy: each call as the policy reads it today."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from toolbus.events.catalogue import Scope
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import ProjectJudges
from toolbus.policy.shared_facts import StatedFacts

if TYPE_CHECKING:
    from toolbus.policy.facts import CallReading
    from toolbus.policy.rules.judge import CallJudge
    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.suggest.evidence import AskedCall


class ReadCall(NamedTuple):
    """The *reading* of a call, the *judge* of its session, and the project's real path, *base*.

    If the policy is for several projects, the project *is_of_session*.
    """

    reading: CallReading
    judge: CallJudge
    base: str
    is_of_session: bool


class CallReadings:
    """Reads recorded calls by *policy*, as if no doubtful text was in view of them."""

    def __init__(self, policy: PolicyFile) -> None:
        self._judges, self._memory = ProjectJudges(policy.read), LineCache()
        self._folder = os.path.realpath(policy.file.parent)

    def read(self, asked: AskedCall) -> ReadCall:
        """Return the reading of *asked*."""
        scope = Scope(session_id=asked.session_id, folder=asked.folder, project=asked.project)
        judge = self._judges.of(scope)
        reader, origins = CallReader(judge.rules, self._memory), StatedFacts()
        reading = reader.facts(asked.call, None, scope, asked.folder or None, origins=origins)
        project = judge.rules.project
        base = self._folder if project is None else project.folder
        return ReadCall(reading, judge, base, is_of_session=project is not None)
