"""A worker's look for answers beside few and many held runs: `python -m benchmarks.durable.held`.

Each held run has its record, its awaiter and the marker of its question's end, in a session of its
own, as a worker leaves them.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.bench_postgres import SAFE, server_module
from toolbus.durable.holds import EXPIRES, Awaiter, await_answers, wake
from toolbus.durable.runs import DurableRun, RunIndex, swap_run
from toolbus.messages.codec import encode
from toolbus.store import PostgresStore

if TYPE_CHECKING:
    from toolbus.store.protocol import Store

AT_A_TIME, LOOKS = 200, 200
_LATER_NS = 7 * 86_400 * 10**9


async def hold(store: Store, number: int) -> None:
    """Leave the states of one held run."""
    run = DurableRun(id=f"run-{number}", session_id=f"session-{number}", queue="q", word="held")
    await await_answers(store, run)
    await swap_run(store, None, run)
    name = f"{EXPIRES}{time.time_ns() + _LATER_NS:020d}:1"
    await store.swap_state(run.session_id, name, None, encode(Awaiter(run.session_id, run.id)))


async def look(address: str, steps: list[int]) -> None:
    """Print the milliseconds of a look beside each number of held runs in *steps*."""
    async with PostgresStore(address) as store:
        index, held = RunIndex(store), 0
        for most in steps:
            while held < most:
                some = range(held, min(held + AT_A_TIME, most))
                await asyncio.gather(*[hold(store, number) for number in some])
                held = some.stop
            took = []
            for _ in range(LOOKS):
                begun = time.perf_counter()
                # It queues nothing, so it needs no engine.
                assert await wake(store, None, index) == 0  # type: ignore[arg-type]
                took.append((time.perf_counter() - begun) * 1e3)
            print(f"{most:>9,} held runs: {median(took):.2f} ms a look", flush=True)
        index.close()


def main() -> None:
    """Measure with a server of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durable.held", description=__doc__)
    parser.add_argument("--most", type=int, default=100_000, help="held runs (100,000)")
    options = parser.parse_args()
    with server_module().running_server(**SAFE) as server:
        steps = [count for count in (100, 10_000) if count < options.most]
        address = server.address(server.create_database())
        asyncio.run(look(address, [*steps, options.most]))


if __name__ == "__main__":
    main()
