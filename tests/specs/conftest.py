"""What the specs of the command share: the command itself, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.terminal import run_as_person

import toolbus

SOURCE = str(Path(toolbus.__file__).parents[1])


@pytest.fixture
def environment(tmp_path):
    """Return an environment of 80 columns, with this toolbus and its own folder for files."""
    kept = {name: value for name, value in os.environ.items() if "COLOR" not in name}
    (tmp_path / "tmp").mkdir()
    (tmp_path / "here").mkdir(exist_ok=True)
    return kept | {
        "COLUMNS": "80",
        "PYTHONPATH": SOURCE,
        "PYTHONUNBUFFERED": "",
        "PYTHONUTF8": "1",
        "TERM": "xterm",
        "TMPDIR": str(tmp_path / "tmp"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


@pytest.fixture
def command(tmp_path, environment):
    """Return a function that runs `toolbus` with arguments, in a folder of its own."""

    def run(*arguments, program=sys.executable, cwd=".", **variables):
        return subprocess.run(
            [program, "-m", "toolbus", *map(str, arguments)],
            cwd=tmp_path / "here" / cwd,
            env=environment | variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def person(tmp_path, environment):
    """Return a function that runs `toolbus` with arguments as `command` does, at a terminal."""

    def run(*arguments, **variables):
        return run_as_person(
            arguments,
            cwd=tmp_path / "here",
            env=environment | variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run
