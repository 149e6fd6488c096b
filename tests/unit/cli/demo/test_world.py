"""The demo's world, on paper and on disk."""

import re

import pytest

from toolbus.cli.demo.components import Redact
from toolbus.cli.demo.repository import make_repository, write_recording
from toolbus.cli.demo.world import draw_world
from toolbus.models.recordings import read_lines
from toolbus.settings.usage_error import UsageError


@pytest.mark.parametrize("seed", range(20))
def test_every_world_has_what_the_session_needs(seed):
    world = draw_world(seed)

    config, log = world.files[world.config], world.files[world.log]
    assert world == draw_world(seed) != draw_world(seed + 1)
    assert 3 <= len(world.credentials) <= 4
    assert all(secret in config for secret in world.credentials)
    assert not any(secret in Redact().redacted(config) for secret in world.credentials)
    assert any(secret in log for secret in world.credentials)
    assert 3_000 <= len(log.splitlines()) <= 6_000
    assert 3 <= len(re.findall(r"ERROR .* batch of \d+", log)) <= 6
    assert world.mended_script != world.files[world.script]
    assert f"\nBATCH={world.limit}\n" in world.mended_script


def test_the_recording_holds_at_least_ten_calls_and_no_credential(tmp_path):
    world, path = draw_world(1), tmp_path / "session.jsonl"

    write_recording(world, path)

    messages = list(read_lines(path))
    calls = [call for message in messages[1:] for call in message.tool_calls]
    assert len(calls) >= 10
    assert len({call.id for call in calls}) == len(calls)
    assert not messages[-1].tool_calls
    assert not any(secret in path.read_text() for secret in world.credentials)


def test_a_git_that_fails_is_told_with_its_words(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\necho 'no  licence\nyet' >&2\nexit 69\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    with pytest.raises(UsageError, match=r"git init .* failed: no licence yet$"):
        make_repository(draw_world(1), tmp_path)
