"""The recorded calls of stores: used ids, repeated calls, copies, damaged rows."""

import sqlite3

import pytest

from approved_calls import Line, record
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import open_reader
from toolbus.suggest.recordings import Recordings

POLICY = 'default = "ask"\n'


@pytest.fixture
def read(tmp_path):
    """Return a function that reads stores: the recordings, and the commands of all calls."""

    def run(*stores):
        policy = PolicyFile(tmp_path / "policy.toml", POLICY.encode())
        readers = [open_reader(tmp_path / each, live=True) for each in stores]
        recordings = Recordings(readers, policy)
        calls = [call for step in recordings.read() for call in step]
        for reader in readers:
            reader.close()
        return recordings, [(call.call.arguments["command"], call.answer) for call in calls]

    return run


def change(file, statement):
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


def test_every_asked_call_with_a_used_id_stays(read, tmp_path):
    lines = [
        Line("git push", "no", id="x"),
        Line("gh pr checks", id="x"),
        Line("ls", "", id="x"),
    ]
    record(tmp_path / "a.db", tmp_path, lines)

    recordings, calls = read("a.db")

    assert [call.answer for call in recordings.asked] == ["no", "yes"]
    assert calls == [("git push", "no"), ("gh pr checks", "yes"), ("ls", "unknown")]


def test_the_call_as_the_person_saw_it_counts(read, tmp_path):
    record(tmp_path / "a.db", tmp_path, [Line("docker ps", asked="docker images")])

    assert read("a.db")[1] == [("docker images", "yes")]


def test_a_repeated_call_attaches_to_its_question(read, tmp_path):
    record(tmp_path / "a.db", tmp_path, [Line("docker ps"), Line("docker ps", ""), Line("ls", "")])

    assert read("a.db")[1] == [("docker ps", "yes"), ("ls", "unknown")]


def test_a_copy_of_a_session_adds_no_question(read, tmp_path):
    for store in ("a.db", "b.db"):
        record(tmp_path / store, tmp_path, [Line("docker ps")])

    assert read("a.db", "b.db")[1] == [("docker ps", "yes")]


def test_a_copy_with_another_answer_hides_no_refusal(read, tmp_path):
    for store, answer in (("a.db", "no"), ("b.db", "open")):
        record(tmp_path / store, tmp_path, [Line("docker ps", answer)])

    assert read("a.db", "b.db")[1] == [("docker ps", "no"), ("docker ps", "open")]


@pytest.mark.parametrize(
    ("statement", "damaged"),
    [
        ("UPDATE messages SET body = '{'", 2),
        ("UPDATE ledger SET body = '{'", 2),
        ("UPDATE states SET body = '{'", 2),
        ("UPDATE states SET body = '{}'", 2),
        ("UPDATE states SET body = '{', name = 'other' || key", 0),
    ],
)
def test_damaged_rows_are_counted(read, tmp_path, statement, damaged):
    record(tmp_path / "a.db", tmp_path, [Line("docker ps"), Line("ls")])
    change(tmp_path / "a.db", statement)

    assert read("a.db")[0].damaged == damaged
