"""What the command line does with surroundings that a spec cannot bring about."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import toolbus.demo.demo
from toolbus.cli import command_line as cli
from toolbus.cli import parsing
from toolbus.errors import StoreError

FULL = Path("/dev/full")


def test_a_toolbus_that_is_not_installed_says_so(capsys, monkeypatch):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == "toolbus (not installed)\n"


@pytest.mark.parametrize("error", [StoreError("x.db", "the disk is full"), OSError(5, "broken")])
def test_what_goes_wrong_is_told_in_one_line(capsys, monkeypatch, error):
    def run_demo(*_, **__):
        raise error

    monkeypatch.setattr(toolbus.demo.demo, "run_demo", run_demo)

    assert cli.main(["demo"]) == 1
    assert capsys.readouterr() == ("", f"toolbus: {getattr(error, 'strerror', error)}\n")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_told():
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "toolbus", "--version"],
            env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[3])},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "toolbus: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("called", "words"),
    [
        ("/x/toolbus/__main__.py", (Path(sys.executable).name, "-m", "toolbus")),
        ("toolbus", ("toolbus",)),
        ("", ("toolbus",)),
        ("/on/path/toolbus", ("toolbus",)),
        (".venv/bin/toolbus", (".venv/bin/toolbus",)),
        (f"{Path.cwd()}/.venv/bin/toolbus", (".venv/bin/toolbus",)),
        ("/elsewhere/toolbus", ("/elsewhere/toolbus",)),
    ],
)
def test_commands_to_copy_begin_as_the_person_began(monkeypatch, called, words):
    monkeypatch.setenv("PATH", "/on/path")
    monkeypatch.setattr(sys, "argv", [called])

    assert parsing.program() == words
