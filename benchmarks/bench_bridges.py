"""What a handler costs in another framework: our bridge beside that framework's own hook."""

from __future__ import annotations

import math
import statistics
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from tests.plugins.framework_environments import (
    MEASURED,
    OURS,
    PLACES,
    Driver,
    Place,
    did_work,
    interpreter,
)

from benchmarks.environment import ROOT
from benchmarks.harness import Rig, table

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN, HOOK, BRIDGE = "no hook", "own hook", "bridge, with ledger"
MODES = {PLAIN: "plain", HOOK: "own", BRIDGE: "bridge"}
NOT_IN_HOOKS = "ledger, messages, verdicts of components"
Taken: TypeAlias = dict[str, dict[str, float]]
"""Seconds of a turn with one call, by work and contender."""
_FOLDER = ROOT / ".venv-bridges"
_ROUNDS, _CALLS = 15, 30


@table("ns", ours=BRIDGE, baseline=HOOK)
def bench_bridge_rewrite(rig: Rig) -> None:
    """A call that a bridge rewrites takes at most 3 times as long as with a hook that does it."""
    _fill(rig, "rewrite")


@table("ns", ours=BRIDGE, baseline=HOOK)
def bench_bridge_denial(rig: Rig) -> None:
    """A call that a bridge denies takes at most 3 times as long as with a hook that does it."""
    _fill(rig, "denial")


@table("ns", ours=BRIDGE, baseline=HOOK)
def bench_bridge_redaction(rig: Rig) -> None:
    """A result that a bridge redacts takes at most 3 times as long as with a hook that does it."""
    _fill(rig, "redaction")


@table("ns", ours=BRIDGE, baseline=None)
def bench_bridge_adds(rig: Rig) -> None:
    """What a redaction adds to a call without any hook."""
    rig.lacks[HOOK] = NOT_IN_HOOKS
    for place, took in _taken(rig):
        plain, *rest = took["redaction"].items()
        for name, seconds in rest:
            rig.put(place.framework, name, None if rig.once else max(seconds - plain[1], 0) * 1e9)


def _fill(rig: Rig, work: str) -> None:
    """Enter the nanoseconds of a call with *work* in each framework."""
    rig.lacks |= {PLAIN: "everything", HOOK: NOT_IN_HOOKS}
    for place, took in _taken(rig):
        for name, seconds in took[work].items():
            rig.put(place.framework, name, None if rig.once else seconds * 1e9)


def _taken(rig: Rig) -> Iterator[tuple[Place, Taken]]:
    """Yield each place with its seconds; a run without times says which it does not install."""
    for place in (*(place for place in PLACES if place.release == "newest"), Place(OURS)):
        took = _seconds(place, once=rig.once)
        if took is None:
            rig.absent[place.framework] = "only a run with times installs it"
        else:
            yield place, took


@cache
def _seconds(place: Place, *, once: bool) -> Taken | None:
    """Return the seconds at *place*, None if it is not installed in a run *once*.

    The model waits for nothing, and the ledger is in memory. Of each run counts the median turn,
    and of all runs the least. One process does all work, since frameworks are slow to start.
    """
    _FOLDER.mkdir(exist_ok=True)
    folder = _FOLDER / place.framework
    python = interpreter(place, folder, makes=not once)
    if python is None:
        return None
    modes = {name: mode for name, mode in MODES.items() if mode in {"plain", *place.modes}}
    took: Taken = {work: {} for work in MEASURED}
    with Driver(python, place.leaf, folder.with_suffix(".log")) as driver:
        for _ in range(1 if once else _ROUNDS):
            for (work, handler), (name, mode) in product(MEASURED.items(), modes.items()):
                seen = driver.ask(measure=[handler], calls=_CALLS, mode=mode)
                assert did_work(work, seen) is (mode != "plain"), (work, mode, seen["read"])
                least = took[work].get(name, math.inf)
                took[work][name] = min(least, statistics.median(seen["seconds"]))
    return took
