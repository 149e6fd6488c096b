"""Names and sizes in all of `src/toolbus`, read from its syntax trees."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import toolbus

ROOT = Path(toolbus.__file__).parent
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


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(scope="module")
def trees():
    """Return the syntax trees of all files: for these tests alone, for they are large."""
    files = sorted(ROOT.rglob("*.py"))
    return [(path.relative_to(ROOT), ast.parse(path.read_bytes())) for path in files]


def bound_name(node):
    """Return the name that *node* itself binds, if it does."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
    return ""


def vague_words(trees):
    for path, tree in trees:
        for node in ast.walk(tree):
            if VAGUE.fullmatch(bound_name(node).strip("_")):
                yield "word", path.parts[0], f"{path}:{node.lineno} {bound_name(node)}"


def large_things(trees):
    for path, tree in trees:
        if (ROOT / path).read_bytes().count(b"\n") > MOST_LINES["file"]:
            yield "file", path.parts[0], str(path)
        for node in ast.walk(tree):
            if (
                isinstance(node, FUNCTIONS)
                and node.end_lineno - node.lineno >= MOST_LINES["function"]
            ):
                yield "function", path.parts[0], f"{path}:{node.lineno} {node.name}"


def namesakes(trees):
    names = defaultdict(list)
    for path, tree in trees:
        if path.stem not in {"__init__", "__main__"}:
            names["module", path.parts[0], path.stem].append(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names["class", "", node.name.lstrip("_")].append(path)
    for (kind, _, name), (first, *others) in names.items():
        yield from [(kind, path.parts[0], f"{path} {name}, as in {first}") for path in others]


@pytest.mark.parametrize("search", [vague_words, large_things, namesakes])
def test_names_are_plain_and_unique_and_all_is_small(search, trees):
    found = defaultdict(list)
    for kind, room, place in search(trees):
        found[kind, room].append(place)

    assert {key: places for key, places in found.items() if len(places) > ALLOWED[key]} == {}


def test_no_exception_is_stale(trees):
    found = Counter((kind, room) for kind, room, _ in vague_words(trees))

    assert found >= ALLOWED
