"""What happens when an installation cannot be written to its end."""

import os

import pytest

from toolbus.errors import ConfigurationError
from toolbus.hosts.install import plans
from toolbus.hosts.install.host_files import hooks_file
from toolbus.hosts.install.plans import apply_plans, plan_install, plan_removal
from toolbus.hosts.install.records import install_folder, read_record


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
        apply_plans([plan])

    assert files(home) == before
    assert read_record(install_folder("codex", None)) is None


def test_partial_files_of_a_killed_installation_are_removed(home):
    config = home / ".codex/config.toml"
    config.parent.mkdir()
    killed, current = [config.with_name(f".toolbus-partial-{name}") for name in ("a", "b")]
    kept = config.with_name(".toolbus-settings")
    for path in (killed, current, kept):
        path.write_text("a = 1\n")
    for path in (killed, kept):
        os.utime(path, (0, 0))

    apply_plans([plan_install("codex")])

    assert [path.exists() for path in (killed, current, kept)] == [False, True, True]


def test_a_failure_of_one_host_leaves_the_others_as_they_were(home):
    plans = [plan_install(host) for host in ("pi", "gemini-cli")]
    hooks_file("gemini-cli").parent.mkdir()
    hooks_file("gemini-cli").write_text("{}")
    before = sorted(home.rglob("*"))

    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        apply_plans(plans)

    assert sorted(home.rglob("*")) == before


def test_who_is_killed_after_the_record_can_be_cleaned(home, monkeypatch):
    hooks = hooks_file("gemini-cli")
    hooks.parent.mkdir()
    hooks.write_text('{"a": 1}')
    write, killed = plans.replace_settings, []

    def write_until_hooks(file, data):
        # As after a SIGKILL nothing is put in order.
        if file.path == hooks or killed:
            killed.append(file)
            raise KeyboardInterrupt
        write(file, data)

    monkeypatch.setattr(plans, "replace_settings", write_until_hooks)

    with pytest.raises(KeyboardInterrupt):
        apply_plans([plan_install("gemini-cli")])
    assert read_record(install_folder("gemini-cli", None)) is not None
    monkeypatch.undo()
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))

    apply_plans([plan_removal("gemini-cli")])

    assert files(home) == {hooks: b'{"a": 1}'}


def test_a_failed_new_installation_keeps_the_old_one(home):
    apply_plans([plan_install("gemini-cli")])
    hooks, settings = hooks_file("gemini-cli"), install_folder("gemini-cli", None) / "settings"
    hooks.write_text(hooks.read_text().replace("exit 0", "exit 1"))
    config = home / "other.toml"
    config.write_text("")
    plan = plan_install("gemini-cli", config=str(config))
    hooks.write_text(hooks.read_text() + "\n")
    before = files(home)

    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        apply_plans([plan])

    assert files(home) == before
    assert b"config=" not in before[settings]


def test_a_file_of_ours_that_others_may_read_is_closed(home):
    apply_plans([plan_install("gemini-cli")])
    settings = install_folder("gemini-cli", None) / "settings"
    settings.chmod(0o644)

    apply_plans([plan_install("gemini-cli")])

    assert settings.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["link", "open"])
def test_a_client_that_others_may_lead_or_write_is_refused(home, damage):
    folder = install_folder("gemini-cli", None)
    folder.mkdir(parents=True)
    (home / "victim").write_text("kept")
    if damage == "link":
        (folder / "settings").symlink_to(home / "victim")
    else:
        folder.chmod(0o777)

    with pytest.raises(ConfigurationError, match="symlink" if damage == "link" else "others may"):
        plan_install("gemini-cli")

    assert (home / "victim").read_text() == "kept"
