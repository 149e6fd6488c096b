import pytest

from toolbus.policy.rules.documents import PolicyFile
from toolbus.policy.shell.syntax import SyntaxRefusedError
from toolbus.policy.tools import remarks


@pytest.mark.parametrize(("key", "warnings"), [("command", 1), ("tools", 0)])
def test_a_rule_for_commands_wants_what_reads_them(tmp_path, monkeypatch, key, warnings):
    def find_shfmt():
        raise SyntaxRefusedError("it is not installed")

    monkeypatch.setattr(remarks, "find_shfmt", find_shfmt)
    file = tmp_path / "policy.toml"
    file.write_text(f'[[rule]]\nname = "r"\nverdict = "deny"\n{key} = ["git"]\n')

    found = remarks.check_policy(PolicyFile(file))

    told = "it is not installed; until then most commands are asked about"
    assert found == [remarks.Remark(None, "warning", told)] * warnings


def test_mistakes_around_a_row_that_is_not_a_table_are_found(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text('default = "alow"\nrule = [3, { name = "r", verdict = "dney", tools = 1 }]\n')

    mistakes = PolicyFile(file).mistakes()

    reasons = [mistake.reason.partition(";")[0] for mistake in mistakes]
    assert reasons == [
        "unknown default 'alow'",
        "rule 1: expected a table, got 3",
        "rule 'r': unknown verdict 'dney'",
        "rule 'r': key 'tools': expected a text, or a list of texts, got 1",
    ]
