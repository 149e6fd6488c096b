"""The scenarios of `specs/suggest_sets.md`."""

import asyncio
import json
import random

import pytest
from tests.plugins.habits import CALLS, HABITS, SESSIONS
from tests.plugins.hooked_sessions import HOSTED, OWN, PLANTED, HookedSessions
from tests.plugins.made_sessions import FIRST_DAY, KeptStore, at_home, make_project, record
from tests.plugins.suggest_trials import Trial, newer_calls, older_part, try_rules, try_store

from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import PostgresStore, SqliteStore
from toolbus.store.store_factory import open_reader
from toolbus.suggest.evidence import read_asked_calls
from toolbus.testing.fakes import FakeClock

ENOUGH = 0.8
"""The part of the newer innocent questions that suggested rules must answer."""


class Recorded:
    """The made sessions in memory, without the calls that nobody is asked about."""

    def __init__(self, folder):
        clock = FakeClock(FIRST_DAY)
        self.project, store = make_project(folder), KeptStore(clock=clock)
        self.calls = asyncio.run(record(store, self.project, clock, count=0))
        with at_home(self.project), store.reader() as reader:
            self.asked = list(read_asked_calls(reader))
        self.trial = try_rules(self.asked, self.project)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return Recorded(tmp_path_factory.mktemp("made").resolve())


@pytest.fixture(scope="module")
def plain(recorded):
    return Trial((), PolicyFile(recorded.project / "policy.toml"), recorded.project)


def test_a_person_is_asked_about_each_habit(plain):
    verdicts = {habit.name: plain.verdict(*habit.call(1)) for habit in HABITS}

    assert set(verdicts.values()) == {"ask"}


def test_no_probe_is_allowed_beforehand(plain):
    assert plain.covered_probes() == []


def test_every_habit_becomes_a_rule(recorded):
    assert recorded.trial.lost_habits() == []


def test_no_trap_is_covered(recorded):
    assert recorded.trial.covered_probes() == []


def test_the_rules_are_few(recorded):
    assert 0 < len(recorded.trial.proposals) <= len(HABITS) + 4


def test_most_newer_questions_are_answered(recorded):
    trial = try_rules(older_part(recorded.asked), recorded.project)

    questions, gone = trial.answered(newer_calls(recorded.calls))

    assert questions > 100
    assert gone / questions >= ENOUGH


def test_the_order_of_sessions_does_not_matter(recorded):
    asked = list(recorded.asked)
    random.Random(1).shuffle(asked)

    trial = try_rules(asked, recorded.project)

    rules = [each.rule for each in recorded.trial.proposals]
    assert rules
    assert [each.rule for each in trial.proposals] == rules


@pytest.mark.full
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_all_stores_suggest_alike(kind, request, tmp_path):
    clock, project = FakeClock(FIRST_DAY), make_project(tmp_path)
    store = _open(kind, clock, request, tmp_path)
    async with store:
        calls = await record(store, project, clock)
        with store.reader() as reader:
            with at_home(project):
                asked = list(read_asked_calls(reader))
            trial = try_store(reader, project)
    newer = try_rules(older_part(asked), project)

    assert [len(each) for each in calls] == [CALLS] * SESSIONS
    assert trial.lost_habits() == []
    assert trial.covered_probes() == []
    questions, gone = newer.answered(newer_calls(calls))
    assert gone / questions >= ENOUGH


async def test_a_coding_agent_s_habit_becomes_a_rule(tmp_path):
    hooked = HookedSessions(make_project(tmp_path))
    file = await hooked.record()

    with open_reader(file) as reader:
        trial = try_store(reader, hooked.project)

    verdicts = [trial.verdict("Bash", {"command": line}) for line in (OWN, PLANTED, HOSTED)]
    assert verdicts == ["allow", "ask", "ask"]


def test_the_demo_suggests_nothing(shared_command, tmp_path):
    report = json.loads(shared_command("demo", "--seed", 7, "--json").stdout)
    project = make_project(tmp_path)

    with open_reader(report["transcript"]) as reader:
        asked = list(read_asked_calls(reader))
        trial = try_store(reader, project)

    lines = [call.call.arguments["command"] for call in asked]
    assert any("git push" in line for line in lines)
    assert all(call.unfit for call in asked)
    assert trial.proposals == ()


def _open(kind, clock, request, folder):
    match kind:
        case "sqlite":
            return SqliteStore(folder / "made.db", clock=clock)
        case "postgres":
            return PostgresStore(request.getfixturevalue("database"), clock=clock)
    return KeptStore(clock=clock)
