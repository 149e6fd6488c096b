"""What it costs to look into a file: the same, however much is in it."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING

from benchmarks.archives import make_archive
from benchmarks.harness import Rig, table
from toolbus.cli.command_line import command_of
from toolbus.cli.output.stream import Output
from toolbus.store.store_factory import open_reader
from toolbus.ui.rendering import find_template
from toolbus.ui.session_pages import MOST_NODES, read_part

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (10_000, 1_000_000)
SMALL = 100
ROUNDS = 100


@table("ns", ours="", baseline=None)
def bench_reading(rig: Rig) -> None:
    """`explain`, `show` of 20 messages and a part of a page take the same time at any length."""
    for size in (SMALL,) if rig.once else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "store.db")
            make_archive(path, size)
            _read(rig, path, size)


def _read(rig: Rig, path: Path, size: int) -> None:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        out, middle = Output(nowhere), size // 2

        def work_of(name: str, *words: str) -> Callable[[], object]:
            parser, run = command_of(name)
            parsed = parser.parse_all([str(path), *words, "--no-pager"])
            return lambda: run(parsed, out)

        works = {
            "show --last 20": work_of("show", "s", "--last", "20"),
            "show --from": work_of("show", "s", "--from", str(size - 19)),
            "explain a message": work_of("explain", f"m-{middle}"),
            "explain a call": work_of("explain", "--call", f"c-{middle // 2}"),
        }
        for place, after in (("first", 0), ("middle", middle), ("last", max(0, size - 200))):
            works[f"page, {place} part"] = partial(_render, path, after)
        took: dict[str, list[float]] = {}
        # In turns, so that what disturbs one disturbs all.
        for _ in range(1 if rig.once else ROUNDS):
            for name, work in works.items():
                start = perf_counter_ns()
                work()
                took.setdefault(name, []).append(perf_counter_ns() - start)
    for name, times in took.items():
        rig.put(f"{size:,} messages", name, None if rig.once else median(times))


def _render(path: Path, after: int) -> None:
    """Read the part of the session behind message *after*, and render it as the page does."""
    with open_reader(path, live=True) as reader:
        (session,) = reader.sessions()
        part = read_part(reader, session, after, MOST_NODES)
        find_template("turns.html").render(timeline=part, skipped=(), live=True)
