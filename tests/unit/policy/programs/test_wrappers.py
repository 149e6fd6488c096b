"""What runs a command of its own does so for the reader of commands, too."""

import pytest

from toolbus.policy.programs.effects import effects_of
from toolbus.policy.programs.program_files import shipped_programs
from toolbus.policy.shell.reading import read_command

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
