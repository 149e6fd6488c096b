"""A program that counts in the state of a session on disk: `PATH count TIMES` or `PATH hang`."""

import asyncio
import sys
import time

from toolbus.components import State
from toolbus.store.sqlite import SqliteStore


def hang(count):
    print("hangs", flush=True)
    time.sleep(60)
    return (count or 0) + 1


async def main(path, verb, times=1):
    async with SqliteStore(path, timeout=60) as store:
        state = State(store, "s", "count")
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(times)):
            await state.update(lambda count: (count or 0) + 1)
        if verb == "hang":
            await state.update(hang)


asyncio.run(main(*sys.argv[1:]))
