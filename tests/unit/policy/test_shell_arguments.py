"""Arguments of a shell that together are its command line: none of them is left out."""

import pytest

from toolbus.messages.records import ToolCall
from toolbus.policy.rules.tables import NO_TOOL_FACTS
from toolbus.policy.tool_arguments import shell_call


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"command": "ls"}, "ls"),
        ({"command": ["ls", "a b"]}, "ls 'a b'"),
        ({"command": "ls", "args": ["-l"]}, "ls -l"),
        ({"command": ["rm"], "args": ["-rf", "x"]}, "rm -rf x"),
        ({"command": "ls", "args": ["-l"], "argv": ["/etc"]}, None),
        ({"command": "ls", "args": "-l"}, None),
        ({"command": [1]}, None),
    ],
)
def test_all_words_are_in_the_line(arguments, line):
    shell = shell_call(ToolCall(name="shell", arguments=arguments), None, NO_TOOL_FACTS)

    assert shell.line == line
    assert bool(shell.reasons) is (line is None)


@pytest.mark.parametrize("name", ["", "env", "shell"])
def test_an_argument_that_nobody_knows_is_a_reason(name):
    call = ToolCall(name="shell", arguments={"command": "ls", name: "x"})

    assert shell_call(call, None, NO_TOOL_FACTS).reasons
