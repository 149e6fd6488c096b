"""What the command line does with surroundings that a spec cannot bring about."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import toolbus.cli.demo.demo_command
from toolbus.cli import command_line as cli
from toolbus.cli import parser
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

    monkeypatch.setattr(toolbus.cli.demo.demo_command, "run_demo", run_demo)

    assert cli.main(["demo"]) == 1
    assert capsys.readouterr() == ("", f"error: {getattr(error, 'strerror', error)}\n")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("approvals aprove 8c01", "unknown action 'aprove'; did you mean 'approve'?"),
        ("policy xyz", "unknown action 'xyz'; actions: init, check, explain, test, suggest"),
        ("approvals --stor agent.db", "unknown option '--stor'; did you mean '--store'?"),
        ("run --filter-shell x", "unknown option '--filter-shell'"),
        (
            "approvals approve 8c01 --reason x",
            "'approve' has no option '--reason'; it belongs to deny",
        ),
        ("policy init --tool=x", "'init' has no option '--tool'; it belongs to explain"),
        ("approvals --reason=no", "'--reason' is an option of deny; give it after the action"),
        (
            "policy --folder=x explain p",
            "'--folder' is an option of explain and test; give it after the action",
        ),
    ],
)
def test_a_wrong_action_names_the_nearest(capsys, words, refusal):
    assert cli.main(words.split()) == 2
    program = f"toolbus {words.split()[0]}"
    assert capsys.readouterr().err == f"error: {refusal}; see `{program} --help`\n"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("policy check --jso policy.toml", "unknown option '--jso'; did you mean '--json'?"),
        ("policy suggest x --bogus", "unknown option '--bogus'"),
        ("runs cancel 8c01 --store=x --json", "unknown option '--json'"),
    ],
)
def test_a_wrong_option_of_an_action_names_its_help(capsys, words, refusal):
    assert cli.main(words.split()) == 2
    program = " ".join(["toolbus", *words.split()[:2]])
    assert capsys.readouterr().err == f"error: {refusal}; see `{program} --help`\n"


@pytest.mark.parametrize("words", [["run", "go", "--model=m"], ["proxy", "--", "cat"]])
def test_who_waits_for_an_answer_needs_a_store(capsys, words):
    assert cli.main([words[0], "--approval-wait=5", *words[1:]]) == 2
    assert "--approval-wait needs a store for the questions" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["approvals", "hosts", "policy"])
def test_the_help_of_each_action_says_what_it_is_for(capsys, name):
    assert cli.main([name, "--help"]) == 0
    listed = re.findall(r"^    (\w+)  +(\S.*)$", capsys.readouterr().out, re.MULTILINE)

    assert len(listed) >= 3
    for action, text in listed:
        assert cli.main([name, action, "--help"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert text[1:] in printed
        assert not re.search(r"(--[a-z-]+|FILE) (?=--|$)", printed.partition("options:")[2])


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_an_empty_one(closed):
    words = [sys.executable, "-m", "toolbus", "show", "nothing.db", "s"]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *words], capture_output=True, check=False, text=True
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") == (closed != "2>&-")


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
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


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

    assert parser.program() == words
