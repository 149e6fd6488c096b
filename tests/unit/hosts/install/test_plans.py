"""What happens when an installation cannot be written to its end."""

import pytest

from toolbus.errors import ConfigurationError
from toolbus.hosts.install import plans
from toolbus.hosts.install.host_files import hooks_file
from toolbus.hosts.install.plans import apply_plan, plan_install, plan_removal
from toolbus.hosts.install.records import hooks_folder, read_record


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_file_that_changed_meanwhile_leaves_all_as_it_was(home):
    plan = plan_install("codex")
    config = home / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text("a = 1\n")
    before = files(home)

    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        apply_plan(plan)

    assert files(home) == before
    assert read_record("codex", None) is None


def test_who_is_killed_after_the_record_can_be_cleaned(home, monkeypatch):
    hooks = hooks_file("gemini-cli")
    hooks.parent.mkdir()
    hooks.write_text('{"a": 1}')
    monkeypatch.setattr(plans, "write_edits", lambda _: exit_at_once())

    def exit_at_once():
        # As after a SIGKILL nothing is put in order.
        monkeypatch.setattr(plans, "remove_client", lambda *_: None)
        monkeypatch.setattr(plans, "remove_record", lambda *_: None)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_plan(plan_install("gemini-cli"))
    assert read_record("gemini-cli", None) is not None
    monkeypatch.undo()
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))

    apply_plan(plan_removal("gemini-cli"))

    assert files(home) == {hooks: b'{"a": 1}'}


def test_a_failed_new_installation_keeps_the_old_one(home, monkeypatch):
    apply_plan(plan_install("gemini-cli"))
    config = home / "other.toml"
    config.write_text("")
    plan = plan_install("gemini-cli", config=str(config))
    hooks = hooks_file("gemini-cli")
    hooks.write_text(hooks.read_text() + "\n")

    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        apply_plan(plan)

    record = read_record("gemini-cli", None)
    assert record is not None
    assert record.config is None
    assert (hooks_folder() / "user/hook.py").exists()
