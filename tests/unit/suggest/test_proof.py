"""The proof of suggested rules: the figures of older and newer sessions, and the blame."""

import asyncio
from pathlib import Path

import pytest

from approved_calls import Line, record, record_in
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import MemoryStore, open_reader
from toolbus.suggest.proof import ProofFigures, find_removals, prove
from toolbus.suggest.recordings import read_recordings

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
command = "ls"
reads = ["./**"]
prompt = "skip"
[[rule]]
name = "secrets"
verdict = "deny"
touches = [".env"]
[[rule]]
name = "strangers"
verdict = "ask"
in_view = "untrusted"
"""
NEW = '[[rule]]\nname = "{0}"\nverdict = "allow"\nexactly = "{0}"\n'


def file(text):
    return PolicyFile(Path("policy.toml"), text.encode())


@pytest.fixture
def proof(tmp_path, monkeypatch):
    """Return a function that proves new rules on sessions that began in a folder."""
    monkeypatch.chdir(tmp_path)

    def run(*commands, sessions, text=POLICY, stores=1, shown=None):
        for number in range(stores):
            record(f"{number}.db", tmp_path, *sessions, first=number * len(sessions))
        before = file(text)
        after = file("".join([text, *map(NEW.format, commands)]))
        readers = [open_reader(f"{number}.db", live=True) for number in range(stores)]
        recordings = read_recordings(readers, before)
        steps = [] if shown is None else shown
        found = prove(before, after, recordings, lambda text, done: steps.append((text, done)))
        for reader in readers:
            reader.close()
        return found

    return run


def test_older_and_newer_sessions_are_counted_apart(proof):
    lines = [Line("docker ps"), Line("ls", ""), Line("docker images")]

    found = proof("docker ps", sessions=[lines] * 4)

    assert found.older == ProofFigures(calls=9, before=6, after=3)
    assert found.newer == ProofFigures(calls=3, before=2, after=1)
    assert found.total == ProofFigures(calls=12, before=8, after=4)
    assert found.shares == {"docker ps": 4}


def test_sessions_of_several_stores_are_one_row(proof):
    found = proof("docker ps", sessions=[[Line("docker ps")]] * 3, stores=2)

    assert (found.older.calls, found.newer.calls) == (4, 2)


def test_a_store_in_memory_is_read_as_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = MemoryStore()
    asyncio.run(record_in(store, tmp_path, *[[Line("docker ps")]] * 3))

    with store.reader() as reader:
        recordings = read_recordings([reader], file(POLICY))
        after = file(POLICY + NEW.format("docker ps"))
        found = prove(file(POLICY), after, recordings, lambda *_: None)

    assert (found.older.before, found.newer.before, found.total.after) == (2, 1, 0)


def test_a_call_of_two_parts_needs_both_rules(proof):
    lines = [Line("docker ps && docker images"), Line("docker ps && docker info")]

    found = proof("docker ps", "docker images", sessions=[lines])

    assert (found.total.before, found.total.after) == (2, 1)
    assert found.shares == {"docker ps": 1, "docker images": 1}


def test_the_rule_that_allows_a_refused_call_is_blamed(proof):
    lines = [Line("docker ps"), Line("docker images", "no"), Line("docker info", "open")]

    found = proof("docker ps", "docker images", "docker info", sessions=[lines])

    assert (found.allowed, found.blamed, found.denied) == (1, {"docker images"}, 0)


def test_a_deny_rule_beats_the_new_one(proof):
    found = proof("cat .env", sessions=[[Line("cat .env")]])

    assert (found.total.before, found.shares, found.denied) == (0, {}, 0)


def test_the_call_as_the_person_saw_it_counts(proof):
    changed = Line("docker ps", asked="docker images")

    found = proof("docker ps", sessions=[[changed]])

    assert (found.total.before, found.total.after) == (1, 1)


def test_progress_ends_at_the_last_call(proof):
    shown = []

    proof("docker ps", sessions=[[Line("docker ps")]] * 4, shown=shown)

    assert shown[0] == ("calls judged: 1", 0.25)
    assert shown[-1] == ("calls judged: 4", 1.0)


def test_useless_rules_are_not_the_silent_ones(proof):
    found = proof(sessions=[[Line("ls", "")]])

    assert [
        (each.name, each.reason, each.listed) for each in find_removals(file(POLICY), found)
    ] == [
        ("again", "adds nothing to 'listing' (line 2)", False),
        ("secrets", "matched no recorded call, of 1", True),
    ]
