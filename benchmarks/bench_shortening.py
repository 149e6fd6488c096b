"""Shortening: how near the estimate of tokens is, and what it takes to cut a large result."""

from __future__ import annotations

import base64
import json
import random
from importlib import import_module
from pathlib import Path
from statistics import quantiles
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.harness import Rig, table
from toolbus.messages import ToolResponse
from toolbus.truncation.budgets import TextBudget, estimate
from toolbus.truncation.pages import WholeOutput
from toolbus.truncation.shortener import Shortener

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 60
SIZE = 50_000_000
SMALL = 50_000
NAIVE = "a slice"
BYTES = "bytes / 4"


@table("of o200k_base's tokens", ours="", baseline=None)
def bench_shortening_tokens(rig: Rig) -> None:
    """The estimate is within 20 % on most files of code and prose; bytes / 4 is further away."""
    counter = _counter(rig)
    for row, texts in _texts(rig.once).items():
        for name, count in (("toolbus", estimate), (BYTES, _fourth)):
            ratios = [count(text) / max(counter(text), 1) for text in texts if text.strip()]
            spread = quantiles(ratios, n=20) if len(ratios) > 1 else [1.0]
            for what, value in (("5th of 100", spread[0]), ("95th of 100", spread[-1])):
                rig.put(row, f"{name}, {what}", None if rig.once else value)


@table("ns", ours="", baseline=None)
def bench_shortening_huge(rig: Rig) -> None:
    """A result of 50 MB is cut in a second or two, whatever it is of; a slice keeps less."""
    size = SMALL if rig.once else SIZE
    for name, budget in (
        ("20,000 characters", TextBudget(20_000)),
        ("5,000 tokens", TextBudget(80_000, tokens=5_000)),
    ):
        shortener = Shortener(budget, words=("error",))
        for row, text in _huge(size).items():
            response = ToolResponse.from_text(text)
            took = _ns(lambda r=response, s=shortener: s.shorten(r, _kept, None))
            rig.put(row, name, None if rig.once else took)
            rig.put(row, NAIVE, None if rig.once else _ns(lambda t=text: t[:10_000] + t[-10_000:]))


def _counter(rig: Rig) -> Callable[[str], int]:
    """Return what counts tokens; the package brings the tables, so nothing is loaded."""
    try:
        encoding: Any = import_module("rs_bpe.bpe").openai.o200k_base()
    except ImportError as error:
        rig.absent["rs-bpe"] = f"{error}; beside estimates there is only ourselves"
        return estimate
    count: Callable[[str], int] = encoding.count
    return count


def _texts(once: bool) -> dict[str, list[str]]:  # noqa: FBT001 - said at the one call
    folder, draw = Path(msgspec.__file__).parents[1], random.Random(1)  # noqa: S311
    rows = {"Python": "*.py", "JavaScript": "*.js", "prose": "*.md", "licences": "LICENSE*"}
    rows |= {"JSON": "*.json", "metadata": "METADATA"}
    texts: dict[str, list[str]] = {}
    for row, pattern in rows.items():
        files = sorted([one for one in folder.rglob(pattern) if one.stat().st_size > 2_000])
        draw.shuffle(files)
        files = files[: 2 if once else FILES]
        texts[row] = [one.read_text("utf-8", "replace")[:60_000] for one in files]
    noise = [draw.randbytes(3_000) for _ in range(2 if once else 20)]
    texts["hexadecimal"] = [one.hex() for one in noise]
    texts["base64"] = [base64.b64encode(one).decode() for one in noise]
    return texts


def _huge(size: int) -> dict[str, str]:
    record = {"id": 1, "name": "a name", "said": "something of ordinary length"}
    return {
        "lines": "2026-01-15 INFO something happened\n" * (size // 35),
        "one line": "x" * size,
        "JSON of records": json.dumps([record] * (size // 70)),
        "JSON of numbers": "[" + ",".join(["1"] * (size // 2)) + "]",
        "a JSON string": json.dumps("\n" * (size // 2)),
        "combining marks": "\u0301" * (size // 2),
        "brackets": "[" * size,
    }


def _kept(_: str) -> WholeOutput:
    return WholeOutput("read_more", "output-0123456789ab")


def _fourth(text: str) -> int:
    return len(text.encode()) // 4


def _ns(work: Callable[[], object]) -> float:
    start = perf_counter_ns()
    work()
    return perf_counter_ns() - start
