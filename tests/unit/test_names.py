"""Names and sizes in all of `src/toolbus`, read from its syntax trees."""

import re
from collections import Counter, defaultdict

import pytest

from source_facts import sources

VAGUE = re.compile(
    "own|one|said|most|room|left|found|given|more|last|at|told|kept|begun|wish|tell|deed|visit"
    "|errand|heir|orphans?|shelf|pen|book|tone|paint|piece|passage|play|life|means|offer|offering"
)
"""Words that say nothing as the name of a thing."""
MOST_LINES = {"function": 50, "file": 500}
ALLOWED = Counter(
    {
        ("word", "mcp"): 1,
        ("word", "store"): 2,
    }
)
"""What is left of the past, by kind and room; these numbers only fall."""


def vague_words():
    for source in sources():
        for name, line in source.bound_names:
            if VAGUE.fullmatch(name.strip("_")):
                yield "word", source.below.parts[0], f"{source.below}:{line} {name}"


def large_things():
    for source in sources():
        if source.lines > MOST_LINES["file"]:
            yield "file", source.below.parts[0], str(source.below)
        for function in source.functions:
            if function.end - function.line >= MOST_LINES["function"]:
                place = f"{source.below}:{function.line} {function.name}"
                yield "function", source.below.parts[0], place


def namesakes():
    names = defaultdict(list)
    for source in sources():
        path = source.below
        if path.stem not in {"__init__", "__main__"}:
            names["module", path.parts[0], path.stem].append(path)
        for name in source.classes:
            names["class", "", name.lstrip("_")].append(path)
    for (kind, _, name), (first, *others) in names.items():
        yield from [(kind, path.parts[0], f"{path} {name}, as in {first}") for path in others]


@pytest.mark.parametrize("search", [vague_words, large_things, namesakes])
def test_names_are_plain_and_unique_and_all_is_small(search):
    found = defaultdict(list)
    for kind, room, place in search():
        found[kind, room].append(place)

    assert {key: places for key, places in found.items() if len(places) > ALLOWED[key]} == {}


def test_no_exception_is_stale():
    found = Counter((kind, room) for kind, room, _ in vague_words())

    assert found >= ALLOWED
