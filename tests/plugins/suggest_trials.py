"""Trials of suggested rules: a policy with them, and its verdicts on calls of made sessions."""

from __future__ import annotations

import os
from datetime import date
from typing import TYPE_CHECKING, Any

from tests.plugins.habits import HABITS, SESSIONS, STRANGERS, TRAPS, Probe
from tests.plugins.made_sessions import at_home

from toolbus import ToolCall
from toolbus.events.catalogue import Scope
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.policy.shared_facts import StatedFacts
from toolbus.suggest.evidence import read_asked_calls
from toolbus.suggest.policy_text import edit_policy
from toolbus.suggest.proposals import propose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from tests.plugins.made_sessions import MadeCall

    from toolbus.store.store_reader import StoreReader
    from toolbus.suggest.evidence import AskedCall
    from toolbus.suggest.proposals import Proposal

TODAY = date(2026, 12, 1)
FIRST_NEWER = 2 * SESSIONS // 3
"""The number of the first session that rules do not come from."""

INNOCENT = frozenset({"habit", "once"})
"""The kinds of calls that a person wishes to have answered."""

UNSEEN = 77
"""A number that no call of a habit has in the made sessions."""


class Trial:
    """The *proposals* from some sessions, and the *policy* of *project* with all of them."""

    def __init__(self, proposals: tuple[Proposal, ...], policy: PolicyFile, project: Path) -> None:
        self.proposals, self.policy, self.project = proposals, policy, project
        self._rules = policy.read()
        self._reader = CallReader(self._rules, LineCache())

    def verdict(self, tool: str, arguments: Any, folder: str = ".") -> str:
        """Return the verdict on a call, made in a *folder* below the project, or elsewhere."""
        call = ToolCall(id="tried", name=tool, arguments=arguments)
        place = os.path.normpath(self.project / folder)
        scope = Scope(session_id="tried", folder=place, project=str(self.project))
        with at_home(self.project):
            facts = self._reader.facts(call, None, scope, place, origins=StatedFacts())
            return CallJudge(self._rules).judge(facts).verdict

    def lost_habits(self) -> list[str]:
        """Return the names of the habits that still ask."""
        return [habit.name for habit in HABITS if self.verdict(*habit.call(UNSEEN)) != "allow"]

    def covered_probes(self, probes: Iterable[Probe] = ()) -> list[str]:
        """Return the probes of traps, or *probes*, that are allowed."""
        chosen = probes or [probe for trap in (*TRAPS, STRANGERS) for probe in trap.probes]
        return [probe.shown for probe in chosen if self.verdict(*probe) == "allow"]

    def answered(
        self, calls: Iterable[MadeCall], kinds: Collection[str] = INNOCENT
    ) -> tuple[int, int]:
        """Return the number of questions about *calls* of these *kinds*, and of those now gone."""
        chosen = [call for call in calls if call.kind in kinds]
        known: dict[str, bool] = {}
        for call in chosen:
            if str(call[:2]) not in known:
                known[str(call[:2])] = self.verdict(call.tool, call.arguments) == "allow"
        return len(chosen), sum([known[str(call[:2])] for call in chosen])


def older_part(asked: Iterable[AskedCall]) -> list[AskedCall]:
    """Return the *asked* calls of the older two thirds of the days."""
    return [call for call in asked if int(call.session_id[-2:]) < FIRST_NEWER]


def newer_calls(sessions: Sequence[Sequence[MadeCall]]) -> list[MadeCall]:
    """Return the calls of the newer third of *sessions*."""
    return [call for calls in sessions[FIRST_NEWER:] for call in calls]


def older_calls(sessions: Sequence[Sequence[MadeCall]]) -> list[MadeCall]:
    """Return the calls of the older two thirds of *sessions*."""
    return [call for calls in sessions[:FIRST_NEWER] for call in calls]


def try_rules(asked: Sequence[AskedCall], project: Path) -> Trial:
    """Return the trial of the rules that *asked* calls suggest for the policy of *project*."""
    policy = PolicyFile(project / "policy.toml")
    with at_home(project):
        proposals = propose(asked, policy).proposals
        return Trial(proposals, edit_policy(policy, proposals, TODAY), project)


def try_store(reader: StoreReader, project: Path) -> Trial:
    """Return the trial of the rules that the sessions of *reader* suggest."""
    with at_home(project):
        asked = list(read_asked_calls(reader))
    return try_rules(asked, project)
