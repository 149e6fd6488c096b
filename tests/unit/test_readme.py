"""What README shows is so: its programs and commands are run in one folder, in their order."""

import json
import re
from pathlib import Path

import pytest
from tests.plugins.code_blocks import PageRun, read_code_blocks, read_commands

from toolbus.cli.guide.topics import TOPICS

README = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
BLOCKS = read_code_blocks("README.md", README)
# `.ci/run` takes what it runs from the blocks that are marked as `sh`.
*INSTALLS, READY = [block for block in BLOCKS if "pip install" in block.text]
PROGRAMS = [block for block in BLOCKS if block.kind == "python"]
COMMANDS = [block for block in BLOCKS if block.kind == "sh" and block not in [*INSTALLS, READY]]


@pytest.fixture
def page(tmp_path, monkeypatch):
    """What runs blocks in an empty folder."""
    return PageRun(tmp_path, monkeypatch)


def printed(page, block) -> str:
    """Return what the last line of *block* prints; each must end well."""
    ends = [page.run_line(line) for line in read_commands(block)]
    assert [code for code, _ in ends] == [0] * len(ends), ends
    return ends[-1][1]


def test_each_program_prints_what_it_shows(page):
    for block in PROGRAMS:
        page.run(block)


def test_the_explanation_is_what_the_command_prints(page):
    page.run(PROGRAMS[0])
    (shown,) = [block for block in BLOCKS if block.kind == "text"]

    _, told = page.run_line("toolbus explain agent.db --call call-1")

    changing = re.compile(r" +(?:all )?[\d.]+ (?:[mµ]s|s)$| +in message \w+", re.MULTILINE)
    assert changing.sub("…", shown.text).strip() in changing.sub("…", told)


def test_each_command_prints_something(page):
    for block in PROGRAMS:
        page.run(block)

    proxied, policy, hook = [printed(page, block) for block in COMMANDS]

    (line,) = proxied.splitlines()
    result = {"content": [{"type": "text", "text": "only inside the project"}], "isError": True}
    assert json.loads(line)["result"] == result
    assert "deny, by rule 'destruction elsewhere'" in policy
    assert '"permissionDecision":"deny"' in hook
    assert "rule 'destruction elsewhere'" in hook


def test_each_page_of_the_guide_has_its_place():
    named = set(re.findall(r"`([a-z-]+)`", README[README.index("| page |") :]))

    hosts = set(TOPICS) - named
    assert named <= set(TOPICS)
    # Beside those that are named there is one page a host.
    assert hosts == {"copilot", "cursor", "gemini-cli", "opencode", "pi", "vibe"}


def test_the_two_commands_need_nothing_but_python():
    assert re.findall(r"^```sh\n(.+)\n```$", README, re.MULTILINE) == [
        block.text.strip() for block in INSTALLS
    ]
    assert README.count("```sh\n") == 2
    assert [block.text.split(" && ")[0].split() for block in INSTALLS] == [
        ["python3", "-m", "venv", ".venv"],
        ["python3", "-m", "venv", ".venv-test"],
    ]


def test_what_the_examples_need_is_made_ready_before():
    (ready,) = read_commands(READY)

    steps = ready.split(" && ")
    extras = set(re.findall(r"toolbus\[(\w+)\]`:\n", README))
    # Only then: the lines above it are for the clone.
    assert README.index(ready) < min(README.index(block.text) for block in [*PROGRAMS, *COMMANDS])
    assert (steps[0], steps[2]) == (". .venv/bin/activate", 'cd "$(mktemp -d)"')
    assert extras == {"policy"}
    assert steps[1] == "pip install -q '.[policy]'"


def test_it_has_at_most_150_lines():
    assert len(README.splitlines()) <= 150
