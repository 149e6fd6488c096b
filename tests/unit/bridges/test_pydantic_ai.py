"""The bridge to Pydantic AI beyond the scenarios: pauses, outside results, prompts, requests."""

import os
import subprocess
from pathlib import Path

import pytest

from framework_environments import QUIET, WORLD, Place, interpreter


@pytest.mark.full
@pytest.mark.parametrize("release", ["oldest", "newest"])
def test_checks_of_pydantic_ai_hold(release, tmp_path):
    place = Place("pydantic_ai", release)
    folder = Path(os.environ.get("TOOLBUS_ENVIRONMENTS", tmp_path), f"pydantic_ai-checks-{release}")

    done = subprocess.run(
        [interpreter(place, folder), str(WORLD / "pydantic_ai_checks.py")],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.split()) >= 30
