"""Mistakes in the facts that a row of a table of calls states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from toolbus.errors import ConfigurationError
from toolbus.policy.tools.verdict_tables import read_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            'in_view = { untrustd = ["x"] }',
            "in_view: unknown label 'untrustd'; did you mean 'untrusted'?",
        ),
        (
            'in_view = "untrusted"',
            'in_view: expected a table of labels, such as { untrusted = ["words"] }, got',
        ),
        ('in_view = { untrusted = "x" }', "in_view.untrusted: expected a list of texts, got 'x'"),
        (
            'carries = { secrets = ["x"] }',
            "carries: unknown kind of value 'secrets'; did you mean 'secret'?",
        ),
        (
            'carries = ["card"]',
            "carries: expected a table of kinds, such as { card = [\"words\"] }, got ['card']",
        ),
        ('named = "x"', "named: expected a list of texts, got 'x'"),
    ],
)
def test_a_wrong_fact_names_the_way_out(tmp_path: Path, facts: str, reason: str) -> None:
    table = tmp_path / "calls.toml"
    table.write_text(f'[[call]]\ncommand = "ls"\nverdict = "allow"\n{facts}\n')

    with pytest.raises(ConfigurationError) as caught:
        read_rows(table)

    assert reason in str(caught.value)
