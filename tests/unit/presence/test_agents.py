"""Unit tests of the marks of agents above a process."""

import pytest

from toolbus.hosts.install.host_files import HOSTS
from toolbus.presence.agents import (
    JUDGED_SHELL,
    PROGRAMS,
    ListedProcess,
    agent_of,
    ancestors,
    marked_variable,
    read_ps,
)


def test_every_host_is_known():
    assert set(HOSTS) <= set(PROGRAMS.values())
    assert {files.program for files in HOSTS.values()} <= set(PROGRAMS)


@pytest.mark.parametrize(
    ("words", "names", "agent"),
    [
        (("claude",), (), "claude-code"),
        (("claude --resume",), ("node",), "claude-code"),
        ((" claude --resume",), ("node",), "claude-code"),
        (("node", "/usr/lib/node_modules/@openai/codex/bin/codex.js"), (), "/@openai/codex/"),
        (("node", "--no-warnings", "/usr/bin/gemini", "x"), (), "gemini-cli"),
        (("/home/ada/.local/bin/x",), ("x", "/opt/cursor-agent"), "cursor"),
        (("/Applications/Cursor.app/Contents/MacOS/Cursor",), (), "cursor"),
        (("docker", "mcp", "gateway", "run"), (), "docker-gateway"),
        (("python3.12", "-I", "/usr/bin/vibe"), (), "vibe"),
        (("/usr/bin/python3", "-m", "toolbus", "run", "go"), (), "toolbus run"),
        (("python", "/venv/bin/toolbus", "proxy", "--", "x"), (), "toolbus proxy"),
        (("toolbus", "hook", "pi", "tool_call"), (), "toolbus hook"),
        (("sh", "-c", "x", JUDGED_SHELL, "ls"), (), "a shell that a model uses"),
        (("toolbus", "approvals", "--watch"), (), None),
        (("python", "-m", "toolbus", "sessions", "run"), (), None),
        (("vim", "claude"), ("vim",), None),
        (("less", "/usr/lib/node_modules/pi"), (), None),
        (("bash",), ("bash", "/usr/bin/bash"), None),
        ((), (), None),
    ],
)
def test_a_program_is_recognized_by_its_names(words, names, agent):
    found = agent_of(ListedProcess(1, 0, words, names))

    assert found == agent or (agent is not None and found is not None and agent in found)


def test_a_variable_of_an_ancestor_marks_an_agent():
    process = ListedProcess(1, 0, ("sh",), (), ("HOME=/", "CLAUDECODE=1", "no pair"))

    assert agent_of(process) == "a process with CLAUDECODE in its environment"
    assert agent_of(process._replace(variables=("CLAUDECODE=",))) is None
    assert marked_variable({"CODEX_CI": ""}) is None


def test_the_output_of_ps_is_read():
    text = "    1     0 /sbin/launchd\n  501     1 sh -c x TOOLBUS_JUDGED=1\nPID PPID\n\n  502\n"

    found = read_ps(text)

    assert set(found) == {1, 501}
    assert (found[501].parent, found[501].words[:3]) == (1, ("sh", "-c", "x"))
    assert agent_of(found[501]) == "a process with TOOLBUS_JUDGED in its environment"


def test_the_nearest_ancestor_comes_first():
    found = list(ancestors())

    assert found
    assert [each.pid for each in found[1:]] == [each.parent for each in found[:-1]]
