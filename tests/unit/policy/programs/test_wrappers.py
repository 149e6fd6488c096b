"""What runs a command of its own does so for the reader of commands, too."""

import shutil
import subprocess

import pytest

from toolbus.policy.commands import Word
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.programs.program_files import Programs, shipped_programs
from toolbus.policy.shell.command_reader import read_command

PROGRAMS = shipped_programs()


def lines():
    for name in PROGRAMS.names():
        _, level = PROGRAMS.find(name)
        kinds = level.data.operands or ()
        if "wrapped" in kinds and not level.has_commands:
            before = ["x"] * kinds.index("wrapped")
            for each in (name, *level.data.aliases, *level.data.also):
                yield " ".join([each, *before, "rm", "-rf", "build"])


@pytest.mark.parametrize("line", [*lines()])
def test_the_command_inside_is_judged_or_the_wrapper_is_asked_about(line):
    reading = read_command(line)
    judged = [effects_of(command) for command in reading.commands]

    assert (
        any(effects.action[:1] == ("rm",) for effects in judged)
        or reading.unreadable
        or any(effects.unknown for effects in judged)
    )


def test_a_file_of_ones_own_names_wrappers_and_hides_none(tmp_path):
    file = tmp_path / "programs.toml"
    file.write_text('[gently]\nvalues = ["-t"]\noperands = ["wrapped"]\n[timeout]\n')
    programs = Programs([file])

    reading = read_command("gently -t 5 timeout 5 rm x", programs=programs)

    assert [each.program.text for each in reading.commands] == ["gently", "timeout", "rm"]
    assert [each.program.text for each in read_command("gently rm x").commands] == ["gently"]


def test_words_that_a_wrapper_of_ones_own_adds_are_unknown(tmp_path):
    file = tmp_path / "programs.toml"
    file.write_text(
        '[each]\nalso = ["every"]\noperands = ["wrapped"]\nappends = true\nplaces = ["@"]\n'
    )
    programs = Programs([file])

    behind = read_command("every rm -r", programs=programs).commands[-1]
    inside = read_command("each rm -r ./@", programs=programs).commands[-1]

    assert [word.known for word in behind.words] == [True, False]
    assert inside.words[1:] == (Word("./@", known=False, start="./"),)


SPELLED = [
    "env -u A -i echo a",
    "env -iuA B=1 echo a",
    "env -uA --chdir / echo a",
    "env -S 'echo a b'",
    "env - echo a",
    "nice -n5 echo a",
    "nice -5 echo a",
    "nice --adjustment=5 -- echo a",
    "timeout -k1 5 echo -k a",
    "timeout -vk 1 --signal KILL 5 echo a",
    "timeout --fore 5 echo a",
    "stdbuf -oL -e0 echo a",
    "stdbuf --outp=L echo a",
    "setsid -w echo a",
    "nohup echo a",
    "xargs -0rn1 echo a",
    "xargs -d, -n 1 echo a",
    "xargs -I% echo %",
    "xargs -i echo a{}",
    "xargs -i=x echo =x",
    "xargs -l1 -e echo a",
    "xargs --replace=% --max-args 1 echo %",
    "xargs --max-lines echo a",
    "ionice -c3 -t echo a",
    "ionice -tc 3 echo a",
    "taskset -c 0 echo -c",
    "chrt -b 0 echo -p",
    "flock -n lock echo -c",
    "flock -w1 -E 3 lock -c 'echo a'",
    "command -p echo a",
    "exec -a name echo a",
    "exec -cla name echo a",
]


@pytest.mark.parametrize("line", SPELLED)
def test_what_runs_is_what_the_program_runs(line, tmp_path):
    name = line.split()[0]
    if name not in {"command", "exec"} and not shutil.which(name):
        pytest.skip(f"no {name} here")
    shown = subprocess.run(
        ["bash", "-c", line], input="in\n", capture_output=True, text=True, cwd=tmp_path, check=True
    ).stdout

    reading = read_command(line)
    command = reading.commands[-1]

    assert reading.unreadable == ()
    assert command.program.text == "echo"
    for word, text in zip(command.words, shown.split(), strict=False):
        assert text == word.text or not word.known
