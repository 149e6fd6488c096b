"""Figures of all of `src/toolbus` that may only fall.

A change that makes a figure smaller lowers its number here.
Most are read from the syntax trees; the walks run six pieces of work and count their calls.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from measured_walks import WALKS, walked
from source_facts import ROOT, sources
from wall import read_wings

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

RATCHETS = {
    "functions over complexity 10": 95,
    "files under 60 lines with one importer": 2,
    "pronouns without a noun in 1,000 words of docstrings": 24,
    "modules that begin with What, Who, Where or How": 0,
    '"is no" in texts': 0,
    "imports through the wall": 7,
}
ROOMS = {
    "": (3, 447),
    "agent": (14, 2696),
    "approvals": (21, 3710),
    "bridges": (46, 8288),
    "bus": (21, 3686),
    "cli": (71, 11213),
    "components": (13, 2011),
    "config": (17, 2486),
    "durable": (10, 1508),
    "events": (7, 1078),
    "flow": (15, 2067),
    "formats": (24, 3046),
    "history": (19, 2706),
    "hosts": (53, 7492),
    "http": (4, 940),
    "mcp": (73, 11482),
    "messages": (13, 1841),
    "models": (5, 321),
    "otel": (4, 400),
    "policy": (76, 15956),
    "presence": (4, 426),
    "providers": (11, 1053),
    "redaction": (36, 6885),
    "replay": (11, 1876),
    "settings": (13, 925),
    "store": (43, 6600),
    "suggest": (9, 1387),
    "tasks": (3, 196),
    "testing": (18, 3024),
    "toml": (5, 333),
    "tools": (18, 3012),
    "transcript": (5, 863),
    "truncation": (8, 1047),
    "ui": (14, 989),
    "workspace": (9, 942),
}
"""By room the files and lines that it has at most today."""

WALL = next(
    contract
    for contract in tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    if contract["type"] == "wall"
)
"""The contract that says which modules are wings; all others are the core."""

BUDGETS = {
    ("errors", "events", "messages"): (3164, 3000),
    ("bus",): (3686, 2600),
    ("components",): (1727, 1350),
    ("tools",): (3012, 2100),
    ("agent", "transcript", "tasks"): (3592, 2900),
    ("store",): (3115, 2700),
    ("models",): (321, 700),
    ("settings",): (515, 750),
}
"""By core rooms the lines that they have at most today, and in the end.

A room that has met its budget may grow up to it again, and no further.
"""
CORE_LINES = (19132, 16800)
"""The lines of all of these rooms, likewise."""

WALKED = {
    "plain tool call": (57, 17, 16),
    "tool call of an agent with one adapter": (345, 112, 45),
    "judged frame": (246, 67, 40),
    "hook event": (952, 182, 80),
    "line with a secret": (439, 47, 41),
    "clean line": (121, 26, 34),
}
"""By walk our calls, the calls that enter another room, and the files entered."""

PRONOUNS = frozenset(
    {
        *("what", "who", "whoever", "whatever", "that", "those", "others", "one", "ones"),
        *("somebody", "anybody", "nobody"),
    }
)


def complex_functions():
    return sum(each.complexity > 10 for source in sources() for each in source.functions)


def lone_small_files():
    """Count the files of under 60 lines that exactly one other file imports."""
    importers = Counter(name for source in sources() for name in source.imports)
    return sum(
        source.lines < 60 and source.path.stem != "__init__" and importers[source.name] == 1
        for source in sources()
    )


def docstrings():
    return [docstring for source in sources() for docstring in source.docstrings]


def vague_words():
    words = re.findall(r"[a-z']+", " ".join(docstrings()).lower())
    return 1000 * sum(word in PRONOUNS for word in words) // len(words)


def vague_modules():
    return sum(source.docstring.startswith(("What", "Who", "Where", "How")) for source in sources())


def odd_negations():
    """Count "is no X" in texts, where English has "is not a X"; "there is no X" is plain."""
    pattern = r"[\"'][^\"'\n]*(?<!there )\bis no (?!longer\b)[a-zA-Z]"
    return sum(len(re.findall(pattern, each.text)) for each in sources())


def breaches():
    return len(WALL["ignore_imports"])


MEASURES = dict(
    zip(
        RATCHETS,
        (
            *(complex_functions, lone_small_files, vague_words, vague_modules, odd_negations),
            breaches,
        ),
        strict=True,
    )
)


@pytest.mark.parametrize("name", RATCHETS)
def test_a_figure_of_the_house_does_not_grow(name):
    assert MEASURES[name]() <= RATCHETS[name]


def is_stale(figure, number):
    """Return whether *number* is so far above *figure* that a change forgot to lower it."""
    return figure < 0.95 * number - 1


def core_lines():
    """Count the lines of each core room, without the wings that still live in it."""
    _, wing_of = read_wings(WALL["wings"], [source.module for source in sources()])
    lines = Counter()
    for source in sources():
        if source.module not in wing_of:
            lines[source.name.split(".")[1]] += source.lines
    return {rooms: sum(lines[room] for room in rooms) for rooms in BUDGETS}


def test_complex_functions_say_why():
    silent = []
    for source in sources():
        lines = source.text.splitlines()
        for each in source.functions:
            body = lines[each.line : each.end]
            if each.complexity > 10 and not any(line.lstrip().startswith("#") for line in body):
                silent.append(f"{source.name}.{each.name}")

    assert silent == []


def test_no_room_grows():
    lines, files = Counter(), Counter()
    for source in sources():
        lines[source.room] += source.lines
        files[source.room] += 1
    larger = {
        room: (files[room], lines[room])
        for room in files
        if room not in ROOMS or files[room] > ROOMS[room][0] or lines[room] > ROOMS[room][1]
    }

    assert larger == {}


def test_the_page_keeps_its_budget():
    texts = [
        file.read_text("utf-8")
        for kind in ("css", "html", "js", "py")
        for file in ROOT.joinpath("ui").rglob(f"*.{kind}")
    ]

    # With its templates, style and scripts.
    assert sum([len(text.splitlines()) for text in texts]) <= 2_000


def test_core_rooms_keep_their_budgets():
    lines = core_lines()

    assert {rooms: n for rooms, n in lines.items() if n > max(BUDGETS[rooms])} == {}
    assert sum(lines.values()) <= max(CORE_LINES)


@pytest.mark.parametrize("name", WALKS)
def test_no_walk_grows(name):
    calls, hops, files = WALKED[name]
    walk = walked(name)

    assert walk.calls <= calls, walk.functions
    assert walk.hops <= hops, walk.functions
    assert len(walk.files) <= files, walk.files


def test_no_figure_is_stale():
    lines = core_lines()
    figures = {
        **{name: (MEASURES[name](), RATCHETS[name]) for name in RATCHETS},
        **{rooms: (lines[rooms], today) for rooms, (today, _) in BUDGETS.items()},
        **{name: (walked(name).calls, WALKED[name][0]) for name in WALKS},
        "core": (sum(lines.values()), CORE_LINES[0]),
    }

    assert {name: pair for name, pair in figures.items() if is_stale(*pair)} == {}
