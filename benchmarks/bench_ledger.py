"""What the ledger costs on the way to the disk, beside the messages."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.archives import record
from benchmarks.harness import Rig, table
from toolbus.messages import ToolMessage, ToolResponse
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

WITHOUT, WITH = "without ledger", "with ledger"
MANY = 64
ROUNDS = 200


@table("µs", ours=WITH, baseline=WITHOUT)
def bench_ledger(rig: Rig) -> None:
    """Two records of three handlers each beside every message: at most a quarter less a second."""
    rig.lacks |= {WITHOUT: "everything"}
    took: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        works = [
            (f"{sessions} session{'s' * (sessions > 1)}", name, sessions, work)
            for name, records in ((WITHOUT, 0), (WITH, 2))
            for sessions in (1, MANY)
            for work in [_work(rig, Path(folder, f"{records}-{sessions}.db"), opened, records)]
        ]
        for _ in range(1 if rig.once else ROUNDS):
            for row, name, sessions, work in works:
                took.setdefault((row, name), []).append(work(sessions) / sessions * 1e6)
    for (row, name), times in took.items():
        rig.put(row, name, None if rig.once else median(times))


def _work(rig: Rig, path: Path, opened: ExitStack, records: int) -> Callable[[int], float]:
    """Return what appends to so many sessions at once and tells the seconds."""
    store, numbers = SqliteStore(path), count()
    opened.callback(lambda: rig.run(store.close()))

    async def append(jobs: list[tuple[str, AppendRequest]]) -> float:
        start = perf_counter()
        await asyncio.gather(*[store.append(*job) for job in jobs])
        return perf_counter() - start

    def work(sessions: int) -> float:
        turn = next(numbers)
        jobs = [(f"s-{at}", _stored(turn, at, records)) for at in range(sessions)]
        seconds: float = rig.run(append(jobs))
        return seconds

    return work


def _stored(turn: int, at: int, records: int) -> AppendRequest:
    message, call = f"m-{turn}-{at}", f"c-{turn}-{at}"
    said = ToolResponse.from_text("42 files, 3 of them changed since the last release")
    return AppendRequest(
        message=ToolMessage(id=message, tool_call_id=call, tool_name="read", tool_response=said),
        records=tuple([record(message, call, turn) for _ in range(records)]),
    )
