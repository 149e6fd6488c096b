"""Steps a second with more and more workers: `python -m benchmarks.durable.growth`.

Each worker has eight runs of ten calls at a time, whose model waits, so that one worker alone uses
a small part of a processor.
"""

from __future__ import annotations

import argparse
import asyncio
import os

from benchmarks import bench_durable
from benchmarks.bench_postgres import SAFE, server_module

AT_A_TIME, BATCHES = 8, 4
_ROW = "{:>7}  {:>8}  {:>6}  {:>10}  {:>9}  {:>9}"


def main() -> None:
    """Measure and print a line for each number of workers."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.durable.growth", description=__doc__
    )
    parser.add_argument("--wait", type=float, default=0.5, help="seconds of a model call (0.5)")
    parser.add_argument("--most", type=int, default=8, help="the most workers (8)")
    options = parser.parse_args()
    os.environ["MODEL_SECONDS"] = str(options.wait)
    print(f"{os.cpu_count()} processors for workers and server; processor in \u00b5s of a step")
    print(_ROW.format("workers", "steps/s", "ratio", "of a core", "worker", "server"))
    first, workers = 0.0, 1
    while workers <= options.most:
        with server_module().running_server(**SAFE) as server:
            address = server.address(server.create_database())
            asyncio.run(bench_durable.submit_ours(address, workers * AT_A_TIME * BATCHES))
            command = [*bench_durable.worker_command(address, 0), "--runs", str(AT_A_TIME)]
            took, ours, servers = bench_durable.measure(server, address, [command] * workers)
        rate, cores = 1e6 / took, (ours + servers) / took
        first = first or rate
        print(
            _ROW.format(
                workers,
                f"{rate:.0f}",
                f"{rate / first:.2f}",
                f"{cores:.2f}",
                f"{ours:.0f}",
                f"{servers:.0f}",
            ),
            flush=True,
        )
        workers *= 2


if __name__ == "__main__":
    main()
