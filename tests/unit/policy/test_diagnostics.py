import pytest

from toolbus.policy.rules.policy_file import PolicyFile, read_table
from toolbus.policy.shell.syntax import SyntaxRefusedError
from toolbus.policy.tools import diagnostics


@pytest.mark.parametrize(("key", "warnings"), [("command", 1), ("tools", 0)])
def test_a_rule_for_commands_wants_what_reads_them(tmp_path, monkeypatch, key, warnings):
    def find_shfmt():
        raise SyntaxRefusedError("it is not installed")

    monkeypatch.setattr(diagnostics, "find_shfmt", find_shfmt)
    file = tmp_path / "policy.toml"
    file.write_text(f'[[rule]]\nname = "r"\nverdict = "deny"\n{key} = ["git"]\n')

    found = diagnostics.check_policy(PolicyFile(file))

    told = "it is not installed; until then most commands need approval"
    assert found == [diagnostics.Diagnostic(None, "warning", told)] * warnings


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


ALLOW, DENY = {"verdict": "allow"}, {"verdict": "deny"}


@pytest.mark.parametrize(
    ("wider", "narrower", "expected"),
    [
        (DENY | {"reads": ["a", "b"]}, DENY | {"reads": "a", "command": "cat"}, True),
        (DENY | {"reads": "a"}, DENY | {"reads": ["a", "b"]}, False),
        (DENY | {"outside": "a"}, DENY | {"outside": ["a", "b"]}, True),
        (DENY | {"hosts": "*.org"}, ALLOW | {"hosts": "a.org"}, False),
        (DENY | {"tools": "m*"}, ALLOW | {"tools": "mail", "agent": "x"}, True),
        (ALLOW | {"command": "x"}, ALLOW | {"command": "x", "effects": "read"}, False),
        (ALLOW | {"command": "x", "effects": "read"}, ALLOW | {"command": "x"}, False),
        (ALLOW | {"reads": "a"}, ALLOW | {"reads": "a", "hosts": "b.org"}, False),
        (ALLOW | {"reads": ["a", "b"]}, ALLOW | {"reads": "a"}, True),
        (DENY | {"repeats": 2}, DENY | {"repeats": 2, "tools": "x"}, True),
        (DENY | {"repeats": 2}, ALLOW | {"repeats": 2}, False),
        (DENY | {"arguments": {"a": 1}}, DENY | {"arguments": {"a": True}}, False),
    ],
)
def test_a_rule_covers_another_only_if_it_certainly_speaks_too(wider, narrower, expected):
    table = {"rule": [wider | {"name": "wider"}, narrower | {"name": "narrower"}]}

    assert diagnostics.covers(*read_table(table).rules) is expected
