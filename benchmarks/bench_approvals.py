"""Approvals of tool calls that wait: what holds on toolbus and on others, tried in processes."""

from __future__ import annotations

from benchmarks.approvals import steps
from benchmarks.approvals.table import CANNOT, HOLDS, SYSTEMS, try_all
from benchmarks.harness import Rig, table


@table("verdict", baseline=None)
def bench_approvals(rig: Rig) -> None:
    """Every scenario holds; effects are counted in a file, each step is a process of its own."""
    steps.preload(tuple(SYSTEMS))
    for module, name in SYSTEMS.items():
        try:
            cells = try_all(module)
        except ImportError as error:
            rig.absent[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        for claim, cell in cells.items():
            value = None if cell.word == CANNOT else float(cell.word == HOLDS)
            rig.put(claim, name, value)
            if cell.note:
                rig.note(claim, name, cell.note)
