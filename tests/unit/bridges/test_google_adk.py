"""The bridge to Google ADK beyond the scenarios: questions, refusals, live runs, other plugins."""

import os
import subprocess
from pathlib import Path

import pytest

from framework_environments import QUIET, WORLD, Place, interpreter


@pytest.mark.full
@pytest.mark.parametrize("release", ["oldest", "newest"])
def test_checks_of_google_adk_hold(release, tmp_path):
    place = Place("google_adk", release)
    folder = Path(os.environ.get("TOOLBUS_ENVIRONMENTS", tmp_path), f"google_adk-checks-{release}")

    done = subprocess.run(
        [interpreter(place, folder), str(WORLD / "google_adk_checks.py")],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.split()) >= 27
