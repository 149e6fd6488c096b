"""What `--store` adds to a call through the MCP proxy, beside what the disk takes for one write."""

from __future__ import annotations

import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from benchmarks.bench_proxy import COMMANDS, JUDGED, call, greet, started
from benchmarks.harness import Rig, table

STORED, SYNCED = "--store", "one fdatasync"
_TURNS, _PIECE = 20, 50


@table("µs", ours=STORED, baseline=SYNCED)
def bench_store_calls(rig: Rig) -> None:
    """`--store` adds to a call what one fdatasync on that disk takes, and half a millisecond."""
    rig.lacks[SYNCED] = "everything but the wait for the disk: 4 kB behind a file's end"
    # Where the package is: what is temporary may be in memory, and then no disk is waited for.
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory(dir=here) as folder, ExitStack() as opened:
        judged = COMMANDS[JUDGED]
        at = judged.index("--")
        stored = [*judged[:at], "--store", str(Path(folder, "calls.db")), *judged[at:]]
        plain, kept = [opened.enter_context(started(one)) for one in (judged, stored)]
        file = opened.enter_context(Path(folder, "beside").open("wb", buffering=0))
        for client in (plain, kept):
            greet(client)
        took: dict[str, list[float]] = {"plain": [], STORED: [], SYNCED: []}
        for _ in range(1 if rig.once else _TURNS):
            for _ in range(2 if rig.once else _PIECE):
                # In turns: a disk's mood lasts longer than a call.
                took["plain"].append(call(plain))
                took[STORED].append(call(kept))
                took[SYNCED].append(_sync(file.fileno()))
    middle = {name: statistics.median(times) * 1e6 for name, times in took.items()}
    added = middle[STORED] - middle["plain"]
    rig.put("added to a call", STORED, None if rig.once else added)
    rig.put("added to a call", SYNCED, None if rig.once else middle[SYNCED])


def _sync(number: int) -> float:
    """Return how many seconds one write to the disk took."""
    since = perf_counter()
    os.write(number, bytes(4096))
    os.fdatasync(number)
    return perf_counter() - since
