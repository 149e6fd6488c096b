"""Programs of clouds, containers, packages and builds: what the data files say of each."""

import shlex
from pathlib import Path

import pytest

from toolbus.policy.commands import Command, Word
from toolbus.policy.programs.command_effects import effects_of

TABLE = Path(__file__).parents[3] / "data" / "policy" / "cloud_commands.txt"
EFFECTS = {"r": "read", "w": "write", "n": "network", "d": "destroy", "x": "run-code"}


def rows():
    lines = TABLE.read_text("utf-8").splitlines()
    return [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]


def judge(line):
    program, *words = map(Word, shlex.split(line))
    return effects_of(Command(program, tuple(words), source=line))


def test_each_command_has_the_effects_of_its_row():
    wrong = []
    for letters, line in rows():
        found = judge(line)
        expected = {EFFECTS[letter] for letter in letters.rstrip("?")}
        if (found.effects - {"read"}) != (expected - {"read"}) or bool(
            found.unknown
        ) != letters.endswith("?"):
            wrong.append((line, letters, sorted(found.effects), found.unknown))

    assert wrong == []


def test_no_command_stands_twice():
    lines = [line for _, line in rows()]

    assert len(lines) == len({*lines}) > 300


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("aws --region x ec2 terminate-instances", ("aws", "ec2", "terminate-instances")),
        ("az network vnet delete -n v", ("az", "network", "vnet", "delete")),
        ("docker compose -f x.yml down", ("docker", "compose", "down")),
        ("tofu state rm a.b", ("terraform", "state", "rm")),
        ("brew services list", ("brew", "services", "list")),
        ("pip3.12 install x", ("pip", "install")),
    ],
)
def test_rules_name_the_program_and_its_subcommands(line, action):
    assert judge(line).action == action


def test_files_that_arguments_name_are_read():
    uses = judge("aws ec2 describe-instances --filters file://.env --cli-input-json=file://b")

    assert {use.word.text for use in uses.paths} == {".env", "b"}


def test_a_word_that_is_not_known_may_be_an_option_that_does_more():
    name = Word("$X", known=False)

    for program, *words in (["aws", "ssm", "get-parameter"], ["helm", "template", "a", "b"]):
        found = effects_of(Command(Word(program), (*map(Word, words), name)))
        assert found.unknown, words
