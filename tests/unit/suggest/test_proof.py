"""The proof of suggested rules: the figures of older and newer sessions, and the blame."""

import asyncio
from pathlib import Path

import pytest

from approved_calls import Line, record, record_in
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import MemoryStore, open_reader
from toolbus.suggest.proof import JudgedCalls, ProofFigures
from toolbus.suggest.recordings import Recordings

POLICY = """\
default = "ask"
[[rule]]
name = "listing"
verdict = "allow"
command = "ls"
reads = ["./**"]
[[rule]]
name = "again"
verdict = "allow"
command = "ls"
reads = ["./**"]
[[rule]]
name = "skipping"
verdict = "allow"
command = "du"
reads = ["./**"]
prompt = "skip"
[[rule]]
name = "unused"
verdict = "allow"
command = "df"
reads = ["./**"]
[[rule]]
name = "secrets"
verdict = "deny"
touches = [".env"]
[[rule]]
name = "strangers"
verdict = "ask"
in_view = "untrusted"
[[rule]]
name = "too often"
verdict = "deny"
command = "wc"
at_most = { calls = 9 }
"""
NEW = '[[rule]]\nname = "{0}"\nverdict = "allow"\nexactly = "{0}"\n'


def file(text):
    return PolicyFile(Path("policy.toml"), text.encode())


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """Return a function that judges the calls of sessions that began in a folder."""
    monkeypatch.chdir(tmp_path)

    def run(*sessions, stores=1, shown=None):
        for number in range(stores):
            record(f"{number}.db", tmp_path, *sessions, first=number * len(sessions))
        readers = [open_reader(f"{number}.db", live=True) for number in range(stores)]
        steps = [] if shown is None else shown
        recordings = Recordings(readers, file(POLICY))
        judged = JudgedCalls(file(POLICY), recordings, lambda *step: steps.append(step))
        for reader in readers:
            reader.close()
        return judged

    return run


@pytest.fixture
def prove(judge):
    """Return a function that proves new rules on sessions that began in a folder."""

    def run(*commands, sessions, stores=1):
        after = file("".join([POLICY, *map(NEW.format, commands)]))
        return judge(*sessions, stores=stores).prove(after)

    return run


def test_older_and_newer_sessions_are_counted_apart(prove):
    lines = [Line("docker ps"), Line("ls", ""), Line("docker images")]

    found = prove("docker ps", sessions=[lines] * 4)

    assert found.older == ProofFigures(calls=9, before=6, after=3)
    assert found.newer == ProofFigures(calls=3, before=2, after=1)
    assert found.total == ProofFigures(calls=12, before=8, after=4)
    assert found.shares == {"docker ps": 4}


def test_one_judgement_proves_several_sets_of_rules(judge):
    judged = judge([Line("docker ps"), Line("docker images")])
    policies = [file(POLICY + NEW.format(command)) for command in ("docker ps", "docker images")]

    found = [judged.prove(policy) for policy in policies]

    assert [each.total.after for each in found] == [1, 1]
    assert [set(each.shares) for each in found] == [{"docker ps"}, {"docker images"}]


def test_sessions_of_several_stores_are_one_row(prove):
    found = prove("docker ps", sessions=[[Line("docker ps")]] * 3, stores=2)

    assert (found.older.calls, found.newer.calls) == (4, 2)


def test_a_store_in_memory_is_read_as_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = MemoryStore()
    asyncio.run(record_in(store, tmp_path, *[[Line("docker ps")]] * 3))

    with store.reader() as reader:
        judged = JudgedCalls(file(POLICY), Recordings([reader], file(POLICY)), lambda *_: None)
    found = judged.prove(file(POLICY + NEW.format("docker ps")))

    assert (found.older.before, found.newer.before, found.total.after) == (2, 1, 0)


def test_a_call_of_two_parts_needs_both_rules(prove):
    lines = [Line("docker ps && docker images"), Line("docker ps && docker info")]

    found = prove("docker ps", "docker images", sessions=[lines])

    assert (found.total.before, found.total.after) == (2, 1)
    assert found.shares == {"docker ps": 1, "docker images": 1}


def test_the_rule_that_allows_a_refused_call_is_blamed(prove):
    lines = [Line("docker ps"), Line("docker images", "no"), Line("docker info", "open")]

    found = prove("docker ps", "docker images", "docker info", sessions=[lines])

    assert (found.allowed, found.blamed, found.denied) == (1, {"docker images"}, 0)


def test_a_rule_that_denies_an_allowed_call_is_counted(judge):
    denying = NEW.format("x").replace("allow", "deny").replace("exactly", "command")

    found = judge([Line("x"), Line("x", "no")]).prove(file(POLICY + denying))

    assert (found.denied, found.allowed) == (1, 0)


def test_a_refused_call_with_hidden_values_counts(prove):
    command = "docker tag a '[email-3]'"

    found = prove(command, sessions=[[Line(command, "no"), Line(command)]])

    assert (found.hidden, found.blamed) == (1, {command})


def test_a_deny_rule_beats_the_new_one(prove):
    found = prove("cat .env", sessions=[[Line("cat .env")]])

    assert (found.total.before, found.shares, found.denied) == (0, {}, 0)


def test_a_limit_is_not_broken_by_the_first_call(prove):
    found = prove("wc -l a", sessions=[[Line("wc -l a")]])

    assert (found.total.before, found.total.after) == (1, 0)


def test_progress_ends_at_the_last_call(judge):
    shown = []

    judge(*[[Line("docker ps")]] * 4, shown=shown)

    assert shown[0] == ("calls judged: 1", 0.125)
    assert shown[-1] == ("calls judged: 4", 1.0)


def test_few_calls_say_nothing_about_silent_rules(judge):
    found = judge([Line("ls", "")]).find_removals()

    assert [each.text for each in found] == ["rule 'again' adds nothing to 'listing' (line 2)"]


def test_silent_rules_are_told_after_many_calls(judge):
    found = judge([Line("ls", "")] * 1_000).find_removals()

    guard = "matched none of 1,000 calls; as a guard it may be why no such call came"
    assert [(each.line, each.text) for each in found][1:] == [
        (18, "rule 'unused' matched none of 1,000 calls"),
        (23, f"rule 'secrets' {guard}"),
    ]
