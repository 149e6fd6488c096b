"""The page on contributing names files, tests and rooms as they are."""

import re
from pathlib import Path

import pytest

import toolbus

SOURCE = Path(toolbus.__file__).parent
ROOT = Path(__file__).parents[4]
PAGE = SOURCE.joinpath("cli/guide/contributing.md").read_text("utf-8")
TOP = ("tests", "specs", "benchmarks", ".ci", "pyproject.toml", "src")
PLACEHOLDERS = ("NAME", "*")
TABLE = PAGE.partition("| room | lines | subject |\n|---|---|---|\n")[2].partition("\n\n")[0]
ROWS = [row.strip("| ").split(" | ") for row in TABLE.splitlines()]


def lines_of(room):
    return sum(path.read_bytes().count(b"\n") for path in (SOURCE / room).rglob("*.py"))


def test_each_path_is_there():
    paths = re.findall(r"`([\w./]+(?:/|\.)[\w./]+)`", PAGE)

    named = [path for path in paths if not any(word in path for word in PLACEHOLDERS)]
    roots = {path: ROOT if path.split("/")[0] in TOP else SOURCE for path in named}
    public = {path for path in named if path.startswith("toolbus.")}
    missing = [path for path in roots if path not in public and not (roots[path] / path).exists()]
    assert len(named) > 30
    assert missing == []


def test_each_test_is_there():
    found = re.findall(r"(tests/specs/\w+\.py)::(\w+)", PAGE)

    assert found
    assert [name for path, name in found if f"def {name}(" not in (ROOT / path).read_text()] == []


def test_each_room_has_its_place():
    rooms = {path.parent.name for path in SOURCE.glob("*/*.py")}

    named = [room for names, *_ in ROWS for room in re.findall("`(.+?)`", names)]

    assert sorted(named) == sorted(rooms)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_size_is_right_to_a_quarter(row):
    names, said, _ = row

    lines = sum(lines_of(room) for room in re.findall("`(.+?)`", names))

    assert int(said.replace(",", "")) == pytest.approx(lines, rel=0.25)
