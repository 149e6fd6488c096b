"""Settings of hosts that end or weaken hooks, by the table."""

import json

import pytest

from toolbus.hosts.doctor.vendors import inspect_settings, vendors
from toolbus.hosts.install.host_files import HOSTS

FILES, SERVERS = "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "MAX_MCP_OUTPUT_TOKENS"


def named(tmp_path, monkeypatch, host, origin, env):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    project = tmp_path / "project"
    folder = tmp_path / "home" if origin == "user" else project
    file = folder / ".claude/settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"env": env}))
    texts = [finding.text for finding in inspect_settings(host, [project])]
    return [name for name in (FILES, SERVERS) if any(f"set env.{name}" in text for text in texts)]


@pytest.mark.parametrize(
    ("origin", "env", "names"),
    [
        ("user", {}, [FILES, SERVERS]),
        ("user", {FILES: "10000000"}, [SERVERS]),
        ("user", {FILES: "10000000", SERVERS: "20000000"}, []),
        ("user", {FILES: "25000", SERVERS: "many"}, [FILES, SERVERS]),
        ("project", {FILES: "10000000", SERVERS: "10000000"}, [FILES, SERVERS]),
    ],
)
def test_results_counted_before_any_hook_are_named(tmp_path, monkeypatch, origin, env, names):
    assert named(tmp_path, monkeypatch, "claude-code", origin, env) == names
    assert named(tmp_path, monkeypatch, "codex", origin, env) == []


def test_every_host_has_a_row():
    assert vendors().keys() == HOSTS.keys()


def test_what_codex_tells_no_hook_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))

    texts = [finding.text for finding in inspect_settings("codex", [])]

    assert ["features.hooks" in text for text in texts] == [True, False]
    assert ["when Codex stops waiting" in text for text in texts] == [False, True]
