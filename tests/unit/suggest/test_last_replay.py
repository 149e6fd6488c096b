"""The last check of a written policy, a replay: which verdicts go against a person's answer."""

import pytest

from approved_calls import Line, record
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import open_reader
from toolbus.suggest.last_replay import find_conflicts, replay_policy
from toolbus.suggest.recordings import read_recordings

RULE = '[[rule]]\nname = "x"\nverdict = "{}"\ncommand = "docker ps"\n'
ALLOW, DENY = [f'default = "ask"\n{RULE.format(verdict)}' for verdict in ("allow", "deny")]
ASK = 'default = "ask"\n'


@pytest.mark.parametrize(
    ("answer", "before", "after", "is_conflict"),
    [
        ("yes", ASK, DENY, True),
        ("yes", DENY, DENY, False),
        ("yes", ASK, ALLOW, False),
        ("no", ASK, ALLOW, True),
        ("no", DENY, ALLOW, True),
        ("no", ALLOW, ALLOW, False),
        ("no", ASK, DENY, False),
        ("open", ASK, DENY, False),
    ],
)
def test_a_verdict_against_an_answer_is_a_conflict(answer, before, after, is_conflict, tmp_path):
    record(tmp_path / "a.db", tmp_path, [Line("docker ps", answer)])
    file = tmp_path / "policy.toml"

    with open_reader(tmp_path / "a.db", live=True) as reader:
        file.write_text(before)
        recordings = read_recordings([reader], PolicyFile(file))
        old = replay_policy(file, recordings)
        file.write_text(after)
        conflicts = find_conflicts(old, replay_policy(file, recordings), recordings)

    assert conflicts == (["s0-0 of session s0"] if is_conflict else [])
