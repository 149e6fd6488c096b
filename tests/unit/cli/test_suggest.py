"""Suggested rules that are written: line ends stay, and a conflict restores the file."""

from datetime import date

import pytest

from approved_calls import Line, record
from toolbus.cli.suggest import _write
from toolbus.errors import ConfigurationError
from toolbus.hosts.install.settings_files import read_settings
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import open_reader
from toolbus.suggest.policy_text import edit_policy
from toolbus.suggest.proposals import Proposal
from toolbus.suggest.recordings import read_recordings

POLICY = b'default = "ask"\r\n# A comment.\r\n'


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a rule for a command with a person's answer."""

    def run(answer):
        record(tmp_path / "a.db", tmp_path, [Line("docker ps", answer)])
        file = tmp_path / "policy.toml"
        file.write_bytes(POLICY)
        settings = read_settings(file)
        policy = PolicyFile(file, settings.data)
        with open_reader(tmp_path / "a.db", live=True) as reader:
            recordings = read_recordings([reader], policy)
            rule = {"name": "docker", "verdict": "allow", "command": "docker ps"}
            proposal = Proposal(rule, "exact", tuple(recordings[0].older), 1)
            _write(settings, edit_policy(policy, [proposal], date(2026, 11, 29)), recordings)

    return run


def test_line_ends_stay(write, tmp_path):
    write("yes")

    written = (tmp_path / "policy.toml").read_bytes()
    assert written.startswith(POLICY)
    assert written.count(b"\n") == written.count(b"\r\n")
    assert b'command = "docker ps"\r\n' in written


def test_a_rule_against_a_refusal_is_taken_back(write, tmp_path):
    with pytest.raises(ConfigurationError, match="goes against the answers to s0-0 of session s0"):
        write("no")

    assert (tmp_path / "policy.toml").read_bytes() == POLICY
