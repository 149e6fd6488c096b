"""Quotes: the search for the words of an argument in texts in view, and the chance of a false one.

The texts are the licences, documents and sources of the packages installed here. `difflib` reads a
hundredth of the view, because it takes seconds for all; `in` only answers for whole lines.
"""

from __future__ import annotations

import random
import tracemalloc
from difflib import SequenceMatcher
from pathlib import Path
from time import process_time_ns
from typing import TYPE_CHECKING

import msgspec

from benchmarks.harness import OURS, Contender, Rig, table
from toolbus.flow.decoded_texts import read_argument
from toolbus.flow.quotes import QuoteIndex, find_quotes

if TYPE_CHECKING:
    from collections.abc import Callable

DIFFLIB, NAIVE = "difflib, a hundredth", "each line `in` the view"
VIEW, SMALL = 1_000_000, 20_000
ARGUMENTS = (100, 1_000, 10_000)
PAIRS = 200
"""Pairs of an argument and a text, for each rate."""


@table("ns", baseline=NAIVE)
def bench_quotes(rig: Rig) -> None:
    """10 kB are searched for in 1 MB of view within 5 ms, in one message or a thousand."""
    prose = _texts("*.md", "*.rst", "*.txt")
    view, others = prose[: _size(rig)], prose[_size(rig) :]
    whole = [QuoteIndex([view])]
    thousand = [QuoteIndex([view[start : start + 1_000]]) for start in range(0, len(view), 1_000)]
    for size in ARGUMENTS:
        argument = others[:size]
        for name, indexes in (("1 message", whole), ("1,000 messages", thousand)):
            ours = _contender(OURS, lambda a=argument, i=indexes: find_quotes(a, i))
            builds = [(OURS, ours), (NAIVE, _contender(NAIVE, lambda a=argument: _lines(a, view)))]
            if size == ARGUMENTS[0] and name == "1 message":
                part = view[: len(view) // 100]
                matcher = _contender(DIFFLIB, lambda a=argument, p=part: _difflib(a, p))
                builds.append((DIFFLIB, matcher))
            rig.race(f"{size:,} characters, {name}", builds, rounds=5)
        readings = _contender(OURS, lambda a=argument: read_argument(a))
        rig.race(f"readings of {size:,} characters", [(OURS, readings)], rounds=5)


@table("", ours="", baseline=None)
def bench_quotes_index(rig: Rig) -> None:
    """An index of 1 MB is built in a third of a second; it takes 10 MB, of Chinese 35 MB."""
    chinese = "".join(random.Random(1).choices([chr(0x4E00 + n) for n in range(3_000)], k=VIEW))  # noqa: S311
    rows = {"prose": _texts("*.md", "*.rst", "*.txt"), "code": _texts("*.py"), "Chinese": chinese}
    for row, text in rows.items():
        view = text[: _size(rig)]
        start = process_time_ns()
        index = QuoteIndex([view])
        took = process_time_ns() - start
        tracemalloc.start()
        index = QuoteIndex([view])
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        figures = {"ms": took / 1e6, "kB kept": kept / 1e3, "MB at most": peak / 1e6}
        for name, value in figures.items():
            rig.put(f"{row}, 1 MB", name, None if rig.once else value)
        if not index.is_complete:
            rig.note(f"{row}, 1 MB", "ms", "incomplete")


@table("of 100", ours="", baseline=None)
def bench_quotes_by_chance(rig: Rig) -> None:
    """Texts of different packages share a piece in at most 4 of 100 pairs."""
    draw = random.Random(1)  # noqa: S311
    for row, patterns in {"prose": ("METADATA", "*.md", "*.rst"), "code": ("*.py",)}.items():
        packages = _packages(patterns)
        for size, view_size in ((100, 3_000), (1_000, 3_000), (1_000, 30_000)):
            count = 0
            for _ in range(2 if rig.once else PAIRS):
                first, second = draw.sample(packages, 2)
                index = QuoteIndex([_part(draw, second, view_size)])
                readings = read_argument(_part(draw, first, size)).texts
                count += any(find_quotes(reading, [index]) for reading in readings)
            value = None if rig.once else 100 * count / PAIRS
            rig.put(row, f"{size:,} in {view_size:,}", value)


def _size(rig: Rig) -> int:
    return SMALL if rig.once else VIEW


def _contender(name: str, work: Callable[[], object]) -> Callable[[], Contender]:
    return lambda: Contender(name, "work()", {"work": work})


def _lines(argument: str, view: str) -> list[str]:
    return [line for line in argument.splitlines() if line in view]


def _difflib(argument: str, view: str) -> object:
    return SequenceMatcher(None, argument, view, autojunk=False).find_longest_match()


def _packages(patterns: tuple[str, ...]) -> list[str]:
    """Return the texts of each installed package that has 10,000 characters of them."""
    folders = sorted(Path(msgspec.__file__).parents[1].iterdir())
    texts = [_joined(folder, patterns, 60_000) for folder in folders if folder.is_dir()]
    return [text for text in texts if len(text) >= 10_000]


def _texts(*patterns: str) -> str:
    return _joined(Path(msgspec.__file__).parents[1], patterns, 2 * VIEW)


def _joined(folder: Path, patterns: tuple[str, ...], limit: int) -> str:
    text = ""
    for file in sorted(file for pattern in patterns for file in folder.rglob(pattern)):
        if len(text) < limit and "LICENSE" not in file.name:
            content = file.read_text("utf-8", "replace")[:100_000]
            # The fields before the description are the same in all packages.
            text += content.partition("\n\n")[2] if file.name == "METADATA" else content
    return text


def _part(draw: random.Random, text: str, size: int) -> str:
    start = draw.randrange(max(1, len(text) - size))
    return text[start : start + size]
