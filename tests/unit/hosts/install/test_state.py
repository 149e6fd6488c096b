"""Hooks that an older toolbus installed, as a newer one finds them."""

import pytest

from toolbus.hosts.install.host_files import hooks_file
from toolbus.hosts.install.plans import apply_plans, plan_install
from toolbus.hosts.install.state import installed_state


@pytest.mark.parametrize(("folder", "is_filter"), [("user", False), ("user-1234-filter", True)])
def test_hooks_of_an_older_toolbus_are_to_be_installed_again(
    tmp_path, monkeypatch, folder, is_filter
):
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    apply_plans([plan_install("gemini-cli")])
    whole, file = installed_state("gemini-cli"), hooks_file("gemini-cli")
    file.write_text(file.read_text().replace("/gemini-cli.user/", f"/{folder}/"))

    state = installed_state("gemini-cli")
    apply_plans([plan_install("gemini-cli")])

    assert (whole.presence, state.presence, state.script) == ("installed", "changed", None)
    (problem,) = state.problems
    assert "the client of an older toolbus" in problem
    assert ("--filter-shell, which was removed" in problem) is is_filter
    assert "run: toolbus hosts install gemini-cli" in problem
    assert installed_state("gemini-cli") == whole
