"""What the specs of the command share: the command itself, in a process of its own."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.terminal import run_as_person

import toolbus

SOURCE = str(Path(toolbus.__file__).parents[1])


def environment_in(folder):
    """Return an environment of 80 columns, with this toolbus and *folder* for its files."""
    kept = {name: value for name, value in os.environ.items() if "COLOR" not in name}
    (folder / "tmp").mkdir()
    (folder / "here").mkdir(exist_ok=True)
    return kept | {
        "COLUMNS": "80",
        "PYTHONPATH": SOURCE,
        "PYTHONUNBUFFERED": "",
        "PYTHONUTF8": "1",
        "TERM": "xterm",
        "TMPDIR": str(folder / "tmp"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }


def command_in(folder, environment):
    """Return a function that runs `toolbus` with arguments below *folder*."""

    def run(*arguments, program=sys.executable, cwd=".", **variables):
        return subprocess.run(
            [program, "-m", "toolbus", *map(str, arguments)],
            cwd=folder / "here" / cwd,
            env=environment | variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def environment(tmp_path):
    """Return an environment of 80 columns, with this toolbus and its own folder for files."""
    return environment_in(tmp_path)


@pytest.fixture
def command(tmp_path, environment):
    """Return a function that runs `toolbus` with arguments, in a folder of its own."""
    return command_in(tmp_path, environment)


@pytest.fixture(scope="module")
def shared_command(tmp_path_factory):
    """Return a function that runs `toolbus` once for each list of arguments, for all tests."""
    folder = tmp_path_factory.mktemp("shared")
    return functools.cache(command_in(folder, environment_in(folder)))


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
