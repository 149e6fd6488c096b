"""One process: fills the tables of one file and writes them as JSON, for the command to merge."""

from __future__ import annotations

import json
import sqlite3
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.approvals import REQUIREMENTS as APPROVALS
from benchmarks.harness import Rig
from benchmarks.peers import PEERS
from benchmarks.redaction import REQUIREMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.harness import Bench


def benches(file: str) -> Iterator[tuple[str, Bench]]:
    """Give the tables of `bench_<file>.py`, by name."""
    module = import_module(f"benchmarks.bench_{file}")
    for name, function in vars(module).items():
        if name.startswith("bench_"):
            yield name.removeprefix("bench_"), function


def fill(file: str, *, once: bool) -> dict[str, Any]:
    """Return the tables of `bench_<file>.py`, and the versions of all that is in them."""
    tables = []
    for name, bench in benches(file):
        rig = Rig(once=once)
        bench(rig)
        rig.close()
        spec = bench.spec._asdict()
        figures = [figure._asdict() for figure in rig.figures]
        claim = (bench.__doc__ or "").strip()
        notes = [note._asdict() for note in rig.notes]
        facts = {"lacks": rig.lacks, "absent": rig.absent, "figures": figures, "notes": notes}
        tables.append({"name": name, "claim": claim, **spec, **facts})
    return {"tables": tables, "versions": versions()}


def versions() -> dict[str, str]:
    """Return the versions of toolbus, of what it stands on and of the peers that are here."""
    found = {"sqlite": sqlite3.sqlite_version, "toolbus": "from its sources"}
    peers = [peer.requirement for peer in PEERS if peer.requirement]
    for name in ("toolbus", "msgspec", *peers, *REQUIREMENTS, *APPROVALS):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    wanted, out, *options = sys.argv[1:]
    Path(out).write_text(json.dumps(fill(wanted, once="--once" in options)), "utf-8")
