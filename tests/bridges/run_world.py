"""Plays scenarios in a framework's environment: `python run_world.py LEAF`.

It reads one JSON request a line, `{"scenario": TITLE, "mode": "bridge" | "own" | "plain"}`, and
writes one JSON line in answer: an observation, with `{"crashed": TRACEBACK}` if the driver itself
failed. `{"measure": HANDLERS, "calls": N, "mode": …}` is answered with the seconds of each of N
turns with one call. Its first line tells that the driver is there: `{"ready": LEAF}`. What a
framework prints goes to stderr.

For a person: `python run_world.py LEAF all bridge`, or a title in place of `all`.
"""

import asyncio
import json
import os
import sys
import tempfile
import traceback
from importlib import import_module
from itertools import pairwise

from scenarios import BY_TITLE, Scenario
from world import World

LIMIT = 20.0
"""Seconds for one play."""


async def observe(driver, request, folder):
    """Return the observation of one play of *driver*."""
    world = World(BY_TITLE[request["scenario"]], request["mode"], folder)
    await asyncio.wait_for(driver.play(world), LIMIT)
    return await world.observation()


def answer(driver, request):
    """Return the answer to *request*."""
    with tempfile.TemporaryDirectory(prefix="world-", ignore_cleanup_errors=True) as folder:
        try:
            if "measure" in request:
                return asyncio.run(measure(driver, request))
            return asyncio.run(observe(driver, request, folder))
        except Exception:  # noqa: BLE001 - a driver's failure is that of one cell
            return {"crashed": traceback.format_exc()}


async def measure(driver, request):
    """Return the seconds between the requests of a model that makes one call in each turn."""
    turns = [[["lookup", {"key": "db"}]]] * request["calls"]
    scenario = Scenario(title="a measurement", script=(*turns, "done"), handlers=request["measure"])
    world = World(scenario, request["mode"], None)
    await asyncio.wait_for(driver.play(world), LIMIT)
    if world.seen["error"] or len(world.times) != request["calls"] + 1:
        raise RuntimeError(world.seen["error"] or f"{len(world.times)} requests")
    seconds = [after - before for before, after in pairwise(world.times)]
    return {"seconds": seconds, "ran": len(world.seen["ran"]), "read": world.seen["read"]["c1"]}


def report(driver, title, mode="bridge"):
    """Return what one play is worth, or of each of all: its problems, and for one all that it saw.

    A missing ability is a problem here; the tests compare it with what our facts declare.
    """
    scenarios = BY_TITLE.values() if title == "all" else [BY_TITLE[title]]
    lines = []
    for scenario in scenarios:
        if mode == "own" and scenario.ours:
            continue
        seen = answer(driver, {"scenario": scenario.title, "mode": mode})
        found = scenario.problems(seen, mode) if "crashed" not in seen else [seen["crashed"][-600:]]
        lines.append("\n    ".join([f"{'FAILED' if found else 'ok'}: {scenario.title}", *found]))
    return "\n".join(lines if title == "all" else [*lines, json.dumps(seen, indent=2)])


def main(leaf, *alone):
    """Answer the requests on stdin, or play what the arguments name."""
    # The pipe is ours alone: a framework may print, or its tools may.
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    driver = import_module(f"{leaf}_world")
    if alone:
        print(report(driver, *alone), file=pipe)
        return
    print(json.dumps({"ready": leaf}), file=pipe, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(driver, json.loads(line))), file=pipe, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
