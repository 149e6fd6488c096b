"""Which file counts where one is trusted and another one stands beside it."""

import pytest

from toolbus.config.snapshots import take_snapshot
from toolbus.config.trust import find_or_missed, trust


@pytest.mark.parametrize("shadow", [None, "toolbus.toml"])
def test_nothing_takes_the_place_of_what_is_trusted(tmp_path, monkeypatch, shadow):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / ".git").mkdir()
    trusted = tmp_path / "pyproject.toml"
    trusted.write_text("[tool.toolbus]\n")
    trust(take_snapshot(trusted))
    trusted.write_text("[project]\n")
    if shadow is not None:
        (tmp_path / shadow).write_text("")

    assert find_or_missed(tmp_path) == trusted
