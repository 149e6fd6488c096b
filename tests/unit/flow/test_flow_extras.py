"""The extra that the component needs, and the extras that include it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path


def test_a_missing_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['phonenumbers'] = None\n"
        "from toolbus.flow import FlowGuard; FlowGuard()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "`pip install '.[flow]'`" in done.stderr.splitlines()[-1]


def test_the_extra_of_the_starting_policy_has_that_of_flow() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    assert extras["flow"] == ["toolbus[personal,redact]"]
    assert "toolbus[flow]" in extras["policy"]
