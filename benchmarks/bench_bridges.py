"""What a handler costs in another framework: our bridge beside that framework's own hook."""

from __future__ import annotations

import statistics

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

PLAIN, HOOK, BRIDGE = "no hook", "own hook", "bridge, with ledger"
MODES = {PLAIN: "plain", HOOK: "own", BRIDGE: "bridge"}
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


def _fill(rig: Rig, work: str) -> None:
    """Measure *work* in each framework: a turn with one call, and a model that waits for nothing.

    The ledger is in memory. An environment that is missing is made, but for a run without times.
    """
    rig.lacks |= {PLAIN: "everything", HOOK: "ledger, messages, verdicts of components"}
    _FOLDER.mkdir(exist_ok=True)
    for place in (Place(OURS), *(place for place in PLACES if place.release == "newest")):
        folder = _FOLDER / place.framework
        python = interpreter(place, folder, makes=not rig.once)
        if python is None:
            rig.absent[place.framework] = "only a run with times installs it"
            continue
        modes = dict(MODES)
        if place.framework == OURS:
            del modes[HOOK]
        with Driver(python, place.leaf, folder.with_suffix(".log")) as driver:
            took = _seconds(driver, work, modes, 1 if rig.once else _ROUNDS)
        for name, seconds in took.items():
            rig.put(place.framework, name, None if rig.once else seconds * 1e9)


def _seconds(driver: Driver, work: str, modes: dict[str, str], rounds: int) -> dict[str, float]:
    """Return the seconds of a turn by contender: of each run the median, of all runs the least."""
    took: dict[str, list[float]] = {name: [] for name in modes}
    for _ in range(rounds):
        for name, mode in modes.items():
            seen = driver.ask(measure=[MEASURED[work]], calls=_CALLS, mode=mode)
            assert did_work(work, seen) is (mode != "plain"), (work, mode, seen["read"])
            took[name].append(statistics.median(seen["seconds"]))
    return {name: min(times) for name, times in took.items()}
