"""Suggest rules from the made sessions of the tests: `python -m benchmarks.suggest`.

It prints the habits that become rules, the traps that a rule covers, the questions without and with
the rules, and the processor's seconds for up to 100,000 calls.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.plugins.habits import CALLS, HABITS, SESSIONS, STRANGERS, TRAPS
from tests.plugins.made_sessions import (
    FIRST_DAY,
    KeptStore,
    at_home,
    copy_renamed,
    make_project,
    record,
)
from tests.plugins.suggest_trials import newer_calls, older_calls, older_part, try_rules

from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store import SqliteStore
from toolbus.store.store_factory import open_reader
from toolbus.suggest.evidence import read_asked_calls
from toolbus.suggest.proof import JudgedCalls
from toolbus.suggest.recordings import Recordings
from toolbus.testing.fakes import FakeClock

if TYPE_CHECKING:
    from tests.plugins.made_sessions import MadeCall

    from toolbus.suggest.evidence import AskedCall

COPIES = (6, 12, 25)
"""Copies of the sessions whose reading, suggestion and proof are timed."""


class _Made(NamedTuple):
    """The made sessions in a *store*, with their *calls*, of agents in *project*."""

    store: KeptStore
    project: Path
    calls: list[list[MadeCall]]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suggest", description=__doc__)
    parser.add_argument("--rules", action="store_true", help="print the suggested rules")
    parser.add_argument("--no-times", action="store_true", help="leave the large stores out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name
        made = asyncio.run(_make(Path(name).resolve()))
        print(f"{SESSIONS} sessions of {CALLS} calls")
        _print_rules(made, shows_rules=options.rules)
        for copies in () if options.no_times else COPIES:
            _print_seconds(made, Path(name) / f"{copies}.db", copies)


async def _make(folder: Path) -> _Made:
    clock, project = FakeClock(FIRST_DAY), make_project(folder)
    store = KeptStore(clock=clock)
    return _Made(store, project, await record(store, project, clock))


def _print_rules(made: _Made, *, shows_rules: bool) -> None:
    with at_home(made.project), made.store.reader() as reader:
        asked = list(read_asked_calls(reader))
    whole = try_rules(asked, made.project)
    lost, covered = whole.lost_habits(), whole.covered_probes()
    probes = sum([len(trap.probes) for trap in (*TRAPS, STRANGERS)])
    found = len(HABITS) - len(lost)
    print(f"  habits that become a rule  {found} of {len(HABITS)}  {' '.join(lost)}")
    print(f"  probes that a rule covers  {len(covered)} of {probes}")
    for shown in covered:
        print(f"    {shown}")
    _print_parts(made, asked)
    if shows_rules:
        print(whole.policy.text)


def _print_parts(made: _Made, asked: list[AskedCall]) -> None:
    """Print the questions of both parts, under the rules from the older one."""
    trial = try_rules(older_part(asked), made.project)
    print(f"  rules from the older part  {len(trial.proposals)}")
    parts = {"older": older_calls(made.calls), "newer": newer_calls(made.calls)}
    for part, calls in parts.items():
        everything = trial.answered(calls, {"habit", "once", "bait"})
        questions, gone = trial.answered(calls)
        before, after = everything[0], everything[0] - everything[1]
        share = f"innocent: {questions} before, {questions - gone} after ({gone / questions:.0%})"
        print(f"  {part} part: {before} questions before, {after} after; {share}")


def _print_seconds(made: _Made, file: Path, copies: int) -> None:
    """Print the seconds of this process for *copies* of the sessions in *file*."""
    asyncio.run(_copy(made, file, copies))
    policy, address = PolicyFile(made.project / "policy.toml"), str(file)
    since = time.process_time()
    with at_home(made.project):
        with open_reader(address) as reader:
            asked = list(read_asked_calls(reader))
        read = time.process_time()
        trial = try_rules(asked, made.project)
        proposed = time.process_time()
        with open_reader(address) as reader:
            judged = JudgedCalls(policy, Recordings([reader], policy), lambda *_: None)
            proof = judged.prove(trial.policy)
    proved = time.process_time()
    steps = {"read": read - since, "proposed": proposed - read, "proved": proved - proposed}
    shown = ", ".join([f"{name} in {seconds:.1f} s" for name, seconds in steps.items()])
    each = (proved - since) / proof.total.calls * 10_000
    print(f"  {proof.total.calls:,} calls: {shown}, {each:.2f} s per 10,000")


async def _copy(made: _Made, file: Path, copies: int) -> None:
    async with SqliteStore(file) as target:
        await copy_renamed(made.store, target, copies)


if __name__ == "__main__":
    main()
