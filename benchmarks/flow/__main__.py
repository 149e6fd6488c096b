"""Play attack sets: `python -m benchmarks.flow SET.jsonl …`; `--calls` prints each call as well."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.plugins.flow_sets import (
    PlayedCall,
    flow_rules,
    is_complete,
    is_interrupted,
    is_stopped,
    load_set,
    play,
    write_project,
)

from benchmarks.flow.phrases import verdicts


class Tally(NamedTuple):
    """The ids of attacks and twins by their ends.

    All harmful calls of a *completed* attack ran, of an *interrupted* one after a call that did
    not. A twin was *stopped* by a flow rule, or for *other* reasons of the policy.
    """

    completed: list[str]
    interrupted: list[str]
    stopped: list[str]
    other: list[str]


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow", description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path, help="files of scenarios")
    parser.add_argument("--calls", action="store_true", help="print the verdict on each call")
    options = parser.parse_args()
    for file in options.sets:
        scenarios = load_set(file)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        print(f"\n{file.name}, {len(scenarios)} attacks and twins, SHA-256 {digest}")
        tallies = {
            "flow rules": _with_rules(scenarios, flow_rules(), shows_calls=options.calls),
            "no flow rules": _with_rules(scenarios, [], shows_calls=False),
            "phrase scanner": _with_phrases(scenarios),
        }
        for name, tally in tallies.items():
            titles = {
                "attacks completed": tally.completed,
                "… after a stop": tally.interrupted,
                "twins stopped": tally.stopped,
                "… not by flow": tally.other,
            }
            for title, ids in titles.items():
                _print(name, title, ids, len(scenarios))


def _with_rules(
    scenarios: list[dict[str, Any]], rules: list[dict[str, Any]], *, shows_calls: bool
) -> Tally:
    """Return the tally of *scenarios* under a policy that has only *rules*."""
    tally, names = Tally([], [], [], []), {rule["name"] for rule in flow_rules()}
    for scenario in scenarios:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            project = write_project(folder, rules)
            attack = asyncio.run(play(scenario["attack"], folder, project))
            twin = asyncio.run(play(scenario["benign"], folder, project))
        if is_complete(attack):
            ids = tally.interrupted if is_interrupted(attack) else tally.completed
            ids.append(scenario["id"])
        if is_stopped(twin):
            ids = tally.stopped if is_stopped(twin, names) else tally.other
            ids.append(scenario["id"])
        if shows_calls:
            _print_calls(f"{scenario['id']} attack", attack, is_failure=is_complete(attack))
            _print_calls(f"{scenario['id']} benign", twin, is_failure=is_stopped(twin))
    return tally


def _with_phrases(scenarios: list[dict[str, Any]]) -> Tally:
    """Return the tally of *scenarios* under the scanner of phrases."""
    tally = Tally([], [], [], [])
    for scenario in scenarios:
        if all(runs for is_harm, runs in verdicts(scenario["attack"]) if is_harm):
            tally.completed.append(scenario["id"])
        if not all(runs for _, runs in verdicts(scenario["benign"])):
            tally.stopped.append(scenario["id"])
    return tally


def _print(name: str, title: str, ids: list[str], total: int) -> None:
    share = 100 * len(ids) / total
    print(f"  {name:14} {title:17} {len(ids):3} of {total} ({share:.0f} %)  {' '.join(ids)}")


def _print_calls(title: str, calls: list[PlayedCall], *, is_failure: bool) -> None:
    print(f"{'*' if is_failure else ' '} {title}")
    for call in calls:
        rules = f" by {', '.join(call.rules)}: {call.reason}" if call.rules else ""
        print(f"      {call.tool}{' (harm)' if call.is_harm else ''}: {call.verdict}{rules}")


if __name__ == "__main__":
    main()
