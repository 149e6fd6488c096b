import pytest

from toolbus.policy.rules.documents import PolicyFile
from toolbus.policy.shell.syntax import SyntaxRefusedError
from toolbus.policy.tools import checking


@pytest.mark.parametrize(("key", "warnings"), [("command", 1), ("tools", 0)])
def test_a_rule_for_commands_wants_what_reads_them(tmp_path, monkeypatch, key, warnings):
    def find_shfmt():
        raise SyntaxRefusedError("it is not installed")

    monkeypatch.setattr(checking, "find_shfmt", find_shfmt)
    file = tmp_path / "policy.toml"
    file.write_text(f'[[rule]]\nname = "r"\nverdict = "deny"\n{key} = ["git"]\n')

    remarks = checking.check_policy(PolicyFile(file))

    told = "it is not installed; until then most commands are asked about"
    assert remarks == [checking.Remark(None, "warning", told)] * warnings
