"""The files that say what programs do: their form, and the index that reads each when needed."""

import tomllib
from pathlib import Path

import pytest

from toolbus.errors import ConfigurationError
from toolbus.policy.commands import Command, Word
from toolbus.policy.programs import program_files
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.programs.command_spec import CommandData
from toolbus.policy.programs.languages.readers import READERS
from toolbus.policy.programs.program_files import Programs, shipped_programs
from toolbus.toml.values import fit

FOLDER = Path(program_files.__file__).parent
FILES = sorted(FOLDER.glob("[a-z]*.toml"))


def tables():
    return [
        (file, name, fit(table, CommandData, file.parent))
        for file in FILES
        for name, table in tomllib.loads(file.read_text("utf-8")).items()
    ]


def levels(data):
    yield data
    for command in [*data.commands.values(), *data.alike]:
        yield from levels(command)


def run(line, programs):
    program, *words = line.split()
    return effects_of(Command(Word(program), tuple(map(Word, words))), programs)


def test_each_program_stands_once_and_names_its_source():
    names = [name for _, table, data in tables() for name in (table, *data.aliases, *data.also)]

    assert len(names) == len({*names}), sorted({each for each in names if names.count(each) > 1})
    assert all(data.source for _, _, data in tables())


def test_the_index_reads_what_the_file_says():
    programs = shipped_programs()

    for _, name, data in tables():
        assert programs.find(name)[1].data == data, name
        assert all(programs.find(alias)[0] == name for alias in data.aliases if "*" not in alias)


def test_readers_and_counts_of_the_files_exist():
    for _, name, data in tables():
        for level in levels(data):
            assert level.reader in {"", *READERS}, name
            assert all(count.isdigit() for count in [*level.more_than, *level.fewer_than]), name


def test_a_file_of_ones_own_adds_and_replaces(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        '[deploy]\nsource = "ours"\neffects = ["network"]\n\n'
        '[rm]\nsource = "ours"\neffects = ["read"]\n\n[cat.commands.all]\neffects = ["write"]\n'
    )

    programs = Programs([file])

    assert run("deploy now", programs).effects == {"network"}
    assert run("rm x", programs).effects == {"read"}
    assert run("cat all", programs).effects == {"write"}
    assert run("cat", programs).effects == {"read"}
    assert run("rm x", shipped_programs()).effects == {"destroy"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[a]\nflag = ["-x"]', "a.flag: unknown key 'flag'; did you mean 'flags'?"),
        ('[a]\neffects = ["fly"]', "a.effects: unknown effects 'fly'; known: destroy"),
        (
            "[a]\n\n[a.options]\n-x = {takes = 1}",
            "a.options.-x.takes: unknown takes 1; known: code",
        ),
        ("[a", "expected ']' at the end of a table declaration"),
    ],
)
def test_an_error_names_file_key_and_line(tmp_path, text, message):
    file = tmp_path / "mine.toml"
    file.write_text(text)

    with pytest.raises(ConfigurationError) as caught:
        Programs([file])

    assert str(file) in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.line == text.count("\n") + 1
