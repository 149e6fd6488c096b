"""What Claude Code sends away before its hooks, and the settings that keep it here."""

from pathlib import Path

import pytest

from toolbus.hosts.doctor.host_settings import HostSettings
from toolbus.hosts.doctor.inspections import inspect_settings

FILES, SERVERS = "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "MAX_MCP_OUTPUT_TOKENS"


def named(host, origin, env):
    settings = HostSettings(file=Path("settings.json"), origin=origin, value={"env": env})
    texts = [finding.text for finding in inspect_settings(host, [settings], [])]
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
def test_results_that_are_counted_before_any_hook_are_named(origin, env, names):
    assert named("claude-code", origin, env) == names
    assert named("codex", origin, env) == []


def test_what_codex_tells_no_hook_is_named():
    texts = [finding.text for finding in inspect_settings("codex", [], [])]

    assert ["features.hooks" in text for text in texts] == [True, False]
    assert ["while it still runs" in text for text in texts] == [False, True]
