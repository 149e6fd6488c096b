"""Options that look like help: over every program and subcommand that is known."""

import string
from functools import cache

import pytest

from toolbus.policy.commands import Command, Word
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.programs.program_files import shipped_programs

READING = {"read", "network"}


def levels(level, path):
    """Yield every subcommand below *level* with its words; of a glob one that it fits."""
    yield path, level
    for name in level._named:
        words = name.replace("*", "a").replace("?", "a").split(" ")
        if known := level.subcommand(tuple(words[:-1]), words[-1]):
            yield from levels(known[1], [*path, *words])


@cache
def every_level():
    return tuple(each_level())


def each_level():
    programs = shipped_programs()
    for name in programs.names():
        plain = name.replace("*", "1")
        yield from levels(programs.find(plain)[1], [plain])


def effects(path, *words):
    return effects_of(Command(Word(path[0]), tuple(map(Word, [*path[1:], *words]))))


def does_more(path, *words):
    found = effects(path, *words)
    return bool(found.unknown) or not found.effects <= READING


@pytest.mark.parametrize(
    ("options", "others"),
    [
        (("-{a}h", "y"), ("-{a}{b}", "y")),
        (("-{a}help",), ("-{a}{b}{b}{b}{b}",)),
        pytest.param(("-{a}V",), ("-{a}{b}",), marks=pytest.mark.full),
        pytest.param(("-{a}v",), ("-{a}{b}",), marks=pytest.mark.full),
        (("-{a}=hv",), ("-{a}={b}{b}",)),
        (("-{a}", "--help"), ("-{a}", "--{b}{b}{b}{b}")),
        pytest.param(("-{a}", "-h"), ("-{a}", "-{b}"), marks=pytest.mark.full),
    ],
)
def test_what_may_be_a_value_is_no_help(options, others):
    wrong, seen = [], 0
    for path, level in every_level():
        if path in (["find"], ["networksetup"]):
            continue  # Options are words of an expression there, and subcommands here.
        free = [each for each in string.ascii_letters if "-" + each not in level.options]
        first, second = (free or "@@")[:2] if len(free) != 1 else (*free, "@")
        given, compared = (
            [word.format(a=first, b=second) for word in words] for words in (options, others)
        )
        for before, behind in ((["x"], []), ([], ["x"])):
            if does_more(path, *before, *compared, *behind):
                seen += 1
                more = does_more(path, *before, *given, *behind)
                wrong += [] if more else [(path, before, given, behind)]

    assert seen > 5000
    assert wrong == []


def test_no_help_stands_in_a_cluster_or_behind_an_operand():
    wrong, seen = [], 0
    for path, level in every_level():
        if "x.y" in effects(path, "x.y").action or not does_more(path, "x.y"):
            continue
        seen += 1
        helping = [name for name, option in level.options.items() if option.helps]
        plain = [
            name
            for name, option in level.options.items()
            if name[1:].isalnum()
            and len(name) == 2
            and option.takes is None
            and option.instead is None
        ]
        clusters = [flag + name[1] for flag in plain[:1] for name in helping if len(name) == 2]
        clusters = [cluster for cluster in clusters if cluster not in level.options]
        for words in [[cluster, "x.y"] for cluster in clusters] + [
            ["x.y", name] for name in helping
        ]:
            wrong += [] if does_more(path, *words) else [(path, words)]

    assert seen > 3000
    assert wrong == []
