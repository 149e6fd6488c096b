"""The demo's world, on paper and on disk."""

import re

import pytest

from toolbus.cli.demo.components import Redact
from toolbus.cli.demo.world import CONFIG, LOG, SCRIPT, World, make_repository
from toolbus.settings.usage_error import UsageError


@pytest.mark.parametrize("seed", range(20))
def test_every_world_has_what_the_session_needs(seed):
    world = World(seed)

    config, log = world.files[CONFIG], world.files[LOG]
    assert world.files == World(seed).files != World(seed + 1).files
    assert all(secret in config for secret in world.credentials)
    assert not any(secret in Redact().redact(config) for secret in world.credentials)
    assert any(secret in log for secret in world.credentials)
    assert 3_000 <= len(log.splitlines()) <= 6_000
    assert len(re.findall(r"ERROR .* batch of \d+", log)) == 4
    assert f"batches of {world.batch} rows" in world.files[SCRIPT]


def test_the_prepared_answers_hold_calls_and_no_credential():
    world = World(1)

    answers = world.answers()

    ids = [call.id for answer in answers for call in answer.tool_calls]
    assert len(ids) == len(set(ids)) == 9
    assert not answers[-1].tool_calls
    assert not any(secret in str(answers) for secret in world.credentials)


def test_a_git_that_fails_is_told_with_its_words(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\necho 'no  licence\nyet' >&2\nexit 69\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    with pytest.raises(UsageError, match=r"git init .* failed: no licence yet$"):
        make_repository(World(1).files, tmp_path)
