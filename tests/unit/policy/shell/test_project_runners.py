"""Programs whose subcommand runs another program."""

import pytest

from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.shell.command_reader import read_command


def programs(line):
    return [
        " ".join([c.program.text, *(w.text for w in c.words)]) for c in read_command(line).commands
    ]


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("uv run git push", "git push"),
        ("uv --directory app run --group dev git push --force", "git push --force"),
        ("uv run --with requests -p 3.12 -- git push", "git push"),
        ("uv run manage.py test", "python manage.py test"),
        ("uv run -m pytest -q", "python -m pytest -q"),
        ("poetry run git push", "git push"),
        ("pipenv run git push", "git push"),
        ("bundle exec git push", "git push"),
        ("conda run -n env git push", "git push"),
        ("pnpm exec git push", "git push"),
        ("rtk git push", "git push"),
        ("rtk proxy git push", "git push"),
        ("sudo uv run env git push", "git push"),
    ],
)
def test_what_is_run_is_a_command_of_its_own(line, inner):
    assert programs(line)[-1] == inner
    assert not read_command(line).unreadable


@pytest.mark.parametrize("line", ["uv run --frob git push", "uv $X run git push", "uv run $X"])
def test_what_is_not_known_of_it_is_said(line):
    reading = read_command(line)

    assert reading.unreadable or any(effects_of(command).unknown for command in reading.commands)


@pytest.mark.parametrize(
    "line", ["uv sync", "uv pip install run", "uv run", "rtk gain", "rtk frob"]
)
def test_other_subcommands_run_nothing_more(line):
    assert programs(line) == [line]


def test_an_unknown_word_of_rtk_is_asked_about():
    (command,) = read_command("rtk frob git push").commands

    assert effects_of(command).unknown


def test_braces_without_a_comma_are_letters():
    line = "gh api repos/{owner}/{repo}/pulls"

    assert programs(line) == [line]
    assert not any(effects_of(command).unknown for command in read_command(line).commands)
