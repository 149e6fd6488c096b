"""The bridge to the OpenAI Agents SDK beyond the scenarios: pauses, sub-agents, cancelled runs."""

import os
import subprocess
from pathlib import Path

import pytest

from framework_environments import QUIET, WORLD, Place, interpreter


@pytest.mark.full
@pytest.mark.parametrize("release", ["oldest", "newest"])
def test_checks_of_the_openai_agents_sdk_hold(release, tmp_path):
    place = Place("openai_agents", release)
    base = Path(os.environ.get("TOOLBUS_ENVIRONMENTS", tmp_path))

    done = subprocess.run(
        [
            interpreter(place, base / f"openai-agents-checks-{release}"),
            str(WORLD / "openai_agents_checks.py"),
        ],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.split()) >= 35
