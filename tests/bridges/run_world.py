"""Plays scenarios in a framework's environment: `python run_world.py LEAF`.

It reads one JSON request a line, `{"scenario": TITLE, "mode": "bridge" | "own" | "plain"}`, and
writes one JSON line in answer: an observation, with `{"crashed": TRACEBACK}` if the driver itself
failed. Its first line tells that the driver is there: `{"ready": LEAF}`. What a framework prints
goes to stderr. With a title and a mode as arguments it plays that alone, for a person.
"""

import asyncio
import json
import os
import sys
import tempfile
import traceback
from importlib import import_module

from scenarios import BY_TITLE
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
            return asyncio.run(observe(driver, request, folder))
        except Exception:  # noqa: BLE001 - a driver's failure is that of one cell
            return {"crashed": traceback.format_exc()}


def main(leaf, *alone):
    """Answer the requests on stdin, or play what the arguments name."""
    # The pipe is ours alone: a framework may print, or its tools may.
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    driver = import_module(f"{leaf}_world")
    if alone:
        request = dict(zip(("scenario", "mode"), (*alone, "bridge"), strict=False))
        seen = answer(driver, request)
        problems = ["crashed"]
        if "crashed" not in seen:
            problems = BY_TITLE[request["scenario"]].problems(seen, request["mode"])
        print(json.dumps({"problems": problems, **seen}, indent=2), file=pipe)
        return
    print(json.dumps({"ready": leaf}), file=pipe, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(driver, json.loads(line))), file=pipe, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
