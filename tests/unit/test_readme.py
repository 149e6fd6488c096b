"""README is true: its programs and commands run in order in one folder, and its picture is new."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console
from rich.text import Text
from tests.plugins.code_blocks import PageRun, read_code_blocks, read_commands

from toolbus.cli.guide.topics import TOPICS

ROOT = Path(__file__).parents[2]
README = ROOT.joinpath("README.md").read_text("utf-8")
PICTURE = ROOT / "src/toolbus/cli/guide/pictures/demo.svg"
SHOWN_TURNS = (1, 4, 8)
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
    named = set(
        re.findall(r"`([a-z-]+)`", README[README.index("| pages |") : README.index("`specs/`")])
    )

    assert named == set(TOPICS)


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


def test_it_is_short_and_narrow():
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)

    assert len(README.splitlines()) <= 208
    assert [line for line in prose.splitlines() if len(line) > 100 and line[0] != "|"] == []


def recorded_demo(folder):
    """Return the picture of some turns of the demo, without their durations, which differ."""
    done = subprocess.run(
        [sys.executable, "-m", "toolbus", "demo", "--seed", "7"],
        env={**os.environ, "COLUMNS": "80", "FORCE_COLOR": "1", "NO_COLOR": "", "TMPDIR": folder},
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
    )
    demo = Text.from_ansi(done.stdout)
    starts = [match.start() for match in re.finditer(r"^turn \d", demo.plain, re.MULTILINE)]
    end = re.search(r"\n\n.* explain ", demo.plain).start()
    turns = demo.divide([*starts, end])
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    for number in SHOWN_TURNS:
        for line in turns[number].split():
            shown = len(re.sub(r" +[\d.]+ [mµ]s$", "", line.plain))
            console.print(line[:shown], no_wrap=True)
    picture = console.export_svg(title="toolbus demo --seed 7", unique_id="demo")
    # A page with the picture loads no font of another site.
    return re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)


def texts_of(picture):
    """Return the words of an SVG without sizes: versions of rich and git differ in details."""
    elements = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    text = "".join(["".join(element.itertext()) for element in elements])
    return re.sub(r"\d{1,3},\d{3}", "SIZE", text).split()


def test_the_picture_is_that_of_the_demo(tmp_path):
    """To draw it anew, delete the picture and run this test, which writes it and fails once."""
    fresh = recorded_demo(str(tmp_path))

    if not PICTURE.exists():
        PICTURE.write_text(fresh, "utf-8")
        pytest.fail(f"{PICTURE.name} was not there, and is written")
    assert f"]({PICTURE.relative_to(ROOT)})" in README
    assert texts_of(fresh) == texts_of(PICTURE.read_text("utf-8"))
