"""What an import of the hook layer costs, and how much has to be installed for it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.harness import Rig, table
from benchmarks.peers import PEERS

ROUNDS = 5
OURS = "toolbus bus"
_BASE = "asyncio, blinker, msgspec"
_OURS = {
    "nothing": "pass",
    _BASE: f"import {_BASE}",
    OURS: "from toolbus import EventBus, events",
    "toolbus whole": "from toolbus import *",
    "toolbus records": "import toolbus.messages.records",
}
_CLOCK = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


@table("ms", ours=OURS, baseline=None)
def bench_import(rig: Rig) -> None:
    """Importing the bus costs little more than importing asyncio, blinker and msgspec."""
    codes = dict(_OURS)
    for peer in PEERS:
        if importlib.util.find_spec(peer.hooks.split()[1].partition(".")[0]) is not None:
            codes[peer.requirement or peer.module] = peer.hooks
    rig.lacks |= {"nothing": "everything", _BASE: "everything"}
    took: dict[str, list[float]] = {}
    for _ in range(1 if rig.once else ROUNDS):
        for name, code in list(codes.items()):
            try:
                took.setdefault(name, []).append(_seconds(code))
            except subprocess.CalledProcessError as error:
                rig.absent[name] = error.stderr.splitlines()[-1]
                del codes[name]
    for name, times in took.items():
        rig.put("import", name, None if rig.once or not times else min(times) * 1e3)


@table("MB", ours="toolbus", baseline=None)
def bench_installed(rig: Rig) -> None:
    """What has to be installed, with all that it requires."""
    for name in ("toolbus", *[peer.requirement for peer in PEERS if peer.requirement]):
        try:
            needed = _needed(name)
        except metadata.PackageNotFoundError as error:
            if name != "toolbus":
                rig.absent[name] = f"not installed: {error}"
                continue
            needed = {"toolbus", "blinker", "msgspec"}
        rig.put("size", name, sum(map(_bytes, needed)) / 1e6)
        rig.put("distributions", name, len(needed))


def _seconds(code: str) -> float:
    # Compiled once, as an installed package is; the first round compiles and is never the best.
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _CLOCK.format(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain)  # noqa: S603 - our own code
    return float(done.stdout.splitlines()[-1])


def _needed(name: str) -> set[str]:
    """Return *name* and all that it requires, of what is installed, without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = _plain(waiting.pop())
        if one in found:
            continue
        try:
            requires = metadata.requires(one) or []
        except metadata.PackageNotFoundError:
            if one == _plain(name):
                raise
            continue  # For another platform or an older Python.
        found.add(one)
        waiting += [re.split(r"[^\w.-]", line)[0] for line in requires if "extra ==" not in line]
    return found


def _bytes(name: str) -> int:
    """Return the size of the installed files of *name*, without compiled ones."""
    if name == "toolbus":
        # Here it may be installed by a link to its sources.
        spec = importlib.util.find_spec(name)
        folders = (spec and spec.submodule_search_locations) or ()
        return sum(path.stat().st_size for one in folders for path in Path(one).rglob("*.py"))
    files = metadata.files(name) or []
    paths = [Path(str(one.locate())) for one in files if one.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
