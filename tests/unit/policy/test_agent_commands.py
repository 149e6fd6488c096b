"""The shell commands as agents send them are frozen, so that what they measure can be compared."""

import hashlib
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "data/agent_commands"
DIGESTS = {
    "seen": "2e58e3e7d643c0fed47e4131f87c2299f88f308599465cbe5b250a421a699337",
    "unseen": "72b9583fb5a4e88369aab1626606ae0ff18c43f4d62c71b3e7ecbeea52c7c8a4",
}
STRUCTURED = {
    *("variable", "loop", "condition", "cd", "pipeline", "heredoc", "substitution"),
    *("process-substitution", "function"),
}


def records(half):
    return [json.loads(line) for line in (FOLDER / f"{half}.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("half", DIGESTS)
def test_a_half_is_as_it_was_frozen(half):
    content = (FOLDER / f"{half}.jsonl").read_bytes()

    assert hashlib.sha256(content).hexdigest() == DIGESTS[half]
    assert DIGESTS[half] in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize(("half", "parity"), [("seen", 0), ("unseen", 1)])
def test_the_hash_of_a_command_tells_its_half(half, parity):
    hashes = [hashlib.sha256(one["command"].encode()).digest() for one in records(half)]

    assert {digest[-1] % 2 for digest in hashes} == {parity}


def test_there_are_enough_and_no_two_are_equal():
    commands = [one["command"] for half in DIGESTS for one in records(half)]

    assert len(commands) == len({*commands}) >= 1500


def test_three_of_ten_have_a_structure():
    shapes = [{*one["shape"]} for half in DIGESTS for one in records(half)]

    assert sum(bool(shape & STRUCTURED) for shape in shapes) / len(shapes) >= 0.3
