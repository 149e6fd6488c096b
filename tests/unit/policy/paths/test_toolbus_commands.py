import sys
from pathlib import Path

import pytest

import toolbus
from toolbus.policy.commands import Command, Word
from toolbus.policy.paths.resolver import CallPlace, PathResolver
from toolbus.policy.paths.toolbus_commands import runs_person_command

PACKAGE = Path(toolbus.__file__).parent


def verdict(line, *, folder="/", unknown=(), inside=()):
    program, *words = line.split()
    command = Command(
        Word(program),
        tuple([Word(word, known=word not in unknown) for word in words]),
        inside=tuple(inside),
    )
    return runs_person_command(command, PathResolver(CallPlace(str(folder)))).answer


@pytest.mark.parametrize(
    "line",
    [
        "toolbus trust toolbus.toml",
        "/usr/local/bin/toolbus trust",
        "./toolbus --anything login",
        "toolbus --store s.db pin x",
        "toolbus policy init",
        "toolbus approvals",
        "toolbus anchor hooks.db --to list.jsonl",
        "toolbus copy mine.db hooks.db",
        "toolbus forget hooks.db --before 2026-01-31",
        "toolbus ui agent.db",
        "python -m toolbus trust x",
        "python3.12 -I -m toolbus trust x",
        "python -Imtoolbus trust x",
        "python -X dev -m toolbus.cli hosts",
        f"python {PACKAGE}/__main__.py trust x",
        f"python {PACKAGE} trust x",
        f"{sys.executable} -m toolbus trust x",
        "uv run toolbus trust x",
        "uv run python -m toolbus trust x",
        "uvx --from toolbus toolbus trust",
        "coverage run -m toolbus trust x",
        "xargs toolbus trust",
    ],
)
def test_what_speaks_for_a_person_is_never_run(line):
    assert verdict(line) == "yes"


@pytest.mark.parametrize(
    "line",
    [
        "toolbus check s.db",
        "toolbus policy check policy.toml",
        "toolbus --help",
        "toolbus run agent.py --store s.db",
        "python -m pytest tests/toolbus trust",
        "python -m json.tool trust",
        "grep -rn toolbus trust",
        "git add toolbus trust",
        "cat toolbus trust",
    ],
)
def test_what_does_not_may_be(line):
    assert verdict(line) == "no"


@pytest.mark.parametrize(
    "line", ["TOOLBUS trust x", "bin/Toolbus trust x", "PYTHON -m toolbus pin"]
)
def test_a_disk_may_ignore_the_case_of_a_program(line):
    assert verdict(line) == "yes"


def test_what_is_not_known_is_asked_about():
    assert verdict("toolbus $x", unknown={"$x"}) == "maybe"
    assert verdict("toolbus policy $x", unknown={"$x"}) == "yes"
    assert verdict("toolbus policy") == "maybe"
    assert verdict("toolbus", inside=["xargs"]) == "maybe"
    assert verdict("toolbus --x $y", unknown={"$y"}) == "maybe"


def test_a_program_is_ours_by_whatever_name(tmp_path):
    (tmp_path / "t").symlink_to(PACKAGE / "__main__.py")
    (tmp_path / "p").symlink_to(sys.executable)

    assert verdict("./t trust x", folder=tmp_path) == "yes"
    assert verdict("./p -m toolbus trust x", folder=tmp_path) == "yes"
    assert verdict("./other trust x", folder=tmp_path) == "no"
