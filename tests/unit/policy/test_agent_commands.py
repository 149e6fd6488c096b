"""Shell commands as agents send them: what of them "allow what only reads" allows."""

import json
from collections import Counter
from pathlib import Path

import pytest

from toolbus.policy.programs.effects import effects_of
from toolbus.policy.shell.reading import read_command

FOLDER = Path(__file__).parents[2] / "data" / "agent_commands"
READING = {"read", "network"}


def is_allowed(line):
    reading = read_command(line)
    judged = [effects_of(command) for command in reading.commands]
    return not reading.unreadable and all(
        each.effects <= READING and not each.unknown for each in judged
    )


@pytest.mark.full
@pytest.mark.parametrize(("name", "least", "most"), [("seen", 345, 8), ("unseen", 354, 4)])
def test_most_that_reads_is_allowed_and_little_else(name, least, most):
    rows = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()]

    allowed = Counter(row["reads_only"] for row in rows if is_allowed(row["command"]))

    assert allowed[True] >= least
    assert allowed[False] <= most
