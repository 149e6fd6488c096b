"""Commands whose input or output another part of the text, or the shell, may have opened."""

import pytest

from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import read_table
from toolbus.policy.shell.command_reader import read_command


def rewired(text):
    return [each.program.text for each in read_command(text).commands if each.rewired]


@pytest.mark.parametrize(
    "redirection", ["<&3", "<&-", "<&0", '<&"3"', ">&3", '>&"3"', ">&-", "0>&1", "3<<< x", "3< x"]
)
def test_a_descriptor_rewires_its_command_alone(redirection):
    assert rewired(f"ls; tool {redirection}; cat x") == ["tool"]
    assert rewired(f"{{ ls; tool; }} {redirection}; cat x") == ["ls", "tool"]


@pytest.mark.parametrize("redirection", ["2>&1", ">&2", ">& /dev/null", "< x", "> x", "<<< x"])
def test_a_named_file_rewires_nothing(redirection):
    assert rewired(f"tool {redirection}") == []


@pytest.mark.parametrize("text", ['<<< "$X"', "<<E\n$X\nE"])
def test_an_unknown_text_rewires_its_command(text):
    assert rewired(f"tool {text}") == ["tool"]


@pytest.mark.parametrize("text", ["< x", "> x", "2>&1", "<<< x", "3< x", "{fd}< x"])
def test_an_exec_rewires_the_whole_text(text):
    assert rewired(f"tool; exec {text}; ls") == ["tool", "exec", "ls"]


@pytest.mark.parametrize(
    "text",
    [
        "echo x | { tool & wait; }",
        "echo x | { (tool) & }",
        "{ tool & wait; } <<< x",
        "f() { tool; }; { f & } <<< x",
        "bash <<E\ntool\n: x\nE",
        "echo x | xargs -a list -I{} tool",
        "{ y=$(tool); } < x",
        "f() { echo `tool`; } <> x; f",
    ],
)
def test_a_command_that_may_share_an_input_is_rewired(text):
    assert "tool" in rewired(text)


def test_a_process_substitution_has_an_input():
    outer, inner = read_command("tee >(tool)").commands

    assert (outer.piped, inner.piped) == (False, True)


@pytest.mark.parametrize(
    "text", ["tool & wait", "{ y=$(tool); } > x", "{ tool; } & wait", "echo x | tool &"]
)
def test_a_background_command_without_an_input_is_not_rewired(text):
    assert rewired(text) == []


def test_an_exec_of_a_program_rewires_nothing():
    assert rewired("ls; exec tool go") == []


@pytest.mark.parametrize("line", ["exec <<< x; tool go", "tool go <&3", 'tool go <<< "$X"'])
def test_a_rule_for_an_unknown_program_allows_no_other_input(line):
    allowed = {"verdict": "allow"}
    rules = read_table(
        {
            "rule": [
                {"name": "tool", "command": "tool go", **allowed},
                {"name": "reading", "effects": "read", "reads": "/**", **allowed},
            ]
        }
    )

    verdicts = {}
    for text in ("tool go 2>&1", line):
        call = ToolCall(name="shell", arguments={"command": text})
        facts = CallReader(rules, LineCache()).facts(call, None, Scope(), "/")
        verdicts[text] = CallJudge(rules).judge(facts).verdict

    assert verdicts == {"tool go 2>&1": "allow", line: "ask"}
