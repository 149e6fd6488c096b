"""The fixed tables of commands: their shape, which may not change without a reason in a commit.

All are run by bash in a project folder that has `.env`, `README.md` and a folder `src` without
any `.env`.

- `bypass_commands.jsonl`: ways round a rule that denies a command or the reading of a file, each
  with the published list or report that tells of the trick. No policy with that rule allows one.
- `everyday_commands.jsonl`: what developers run in their own project, and what the policy to
  start with says to it.
- `denied_env_file.jsonl`: what a rule that denies `**/.env` stops, and what it leaves alone;
  `{project}` is the absolute path of the folder.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "data" / "policy"


def rows(name):
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("name", "count"), [("bypass_commands.jsonl", 200), ("everyday_commands.jsonl", 304)]
)
def test_a_table_has_its_rows_and_none_twice(name, count):
    commands = [row["command"] for row in rows(name)]

    assert len(commands) == len({*commands}) == count


def test_each_way_round_names_what_is_denied_and_its_source():
    for row in rows("bypass_commands.jsonl"):
        assert row.keys() == {"command", "rule", "source"}, row
        (kind,) = row["rule"]
        assert kind in {"command", "reads"}, row
        assert len(row["source"]) > 10, row


def test_everyday_commands_are_mostly_allowed_and_never_denied():
    counts = Counter(row["verdict"] for row in rows("everyday_commands.jsonl"))

    assert counts == {"allow": 253, "ask": 51}


def test_a_rule_for_one_file_stops_what_names_it_and_nothing_else():
    table = rows("denied_env_file.jsonl")

    assert Counter(row["stopped"] for row in table) == {True: 8, False: 3}
