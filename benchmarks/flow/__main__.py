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
    is_stopped,
    load_set,
    play,
    write_project,
)

from benchmarks.flow.phrases import verdicts


class Tally(NamedTuple):
    """The ids of the attacks that completed, and of the twins that were stopped."""

    completed: list[str]
    stopped: list[str]


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
            _print(name, "attacks completed", tally.completed, len(scenarios))
            _print(name, "twins stopped", tally.stopped, len(scenarios))


def _with_rules(
    scenarios: list[dict[str, Any]], rules: list[dict[str, Any]], *, shows_calls: bool
) -> Tally:
    """Return the tally of *scenarios* under a policy that has only *rules*."""
    tally = Tally([], [])
    for scenario in scenarios:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            project = write_project(folder, rules)
            for kind, ids in (("attack", tally.completed), ("benign", tally.stopped)):
                calls = asyncio.run(play(scenario[kind], folder, project))
                is_failure = is_complete(calls) if kind == "attack" else is_stopped(calls)
                if is_failure:
                    ids.append(scenario["id"])
                if shows_calls:
                    _print_calls(f"{scenario['id']} {kind}", calls, is_failure=is_failure)
    return tally


def _with_phrases(scenarios: list[dict[str, Any]]) -> Tally:
    """Return the tally of *scenarios* under the scanner of phrases."""
    tally = Tally([], [])
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
