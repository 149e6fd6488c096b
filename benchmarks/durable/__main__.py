"""What durable runs need at scale: `python -m benchmarks.durable` measures runs, simulates days.

A run of ten calls is measured with one worker. The simulation draws the waits for the database from
those that were measured, and the models' and tools' own times from distributions that it prints.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import random
import subprocess
from collections import deque
from itertools import count
from statistics import quantiles
from time import sleep
from typing import Any, NamedTuple

import psycopg

from benchmarks import bench_durable
from benchmarks.bench_postgres import SAFE, server_module
from benchmarks.durable.app import CALLS

STEPS = 2 * CALLS + 1
MODEL_MEDIAN, MODEL_SPREAD, TOOL_MEAN = 3.0, 0.8, 0.5
"""Seconds of a model call (log-normal) and of a tool (exponential): assumed, not measured."""

PEAK = 5
"""The peak of a day, times its average."""

_SIMULATED = 600
_HEAD = ("runs", "workers", "connections", "core", "wait p50", "p99", "run p50", "p99")
_ROW = "  {:>5}  {:>7}  {:>11}  {:>5}  {:>8}  {:>6}  {:>8}  {:>6}"

POLL = 0.5
"""Seconds between two looks of a worker into its queue."""

_SIZES = """SELECT nspname, sum(pg_total_relation_size(c.oid)) FROM pg_class c
    JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname IN ('toolbus_durable', 'toolbus') AND relkind = 'r' GROUP BY 1"""
_WAL = "SELECT pg_current_wal_lsn() - '0/0'"
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_CONNECTIONS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
# Between two messages of a session, without the wait of its prompt in the queue.
_WAITS = """SELECT extract(epoch FROM written - before)::float FROM (
    SELECT written, lag(written) OVER (PARTITION BY session ORDER BY seq) AS before,
        row_number() OVER (PARTITION BY session ORDER BY seq) AS number FROM toolbus.messages
    ) AS each WHERE number > 2"""


class Facts(NamedTuple):
    """What one run of ten calls took; *waits* are the seconds of its steps, without a model."""

    engine_bytes: float
    store_bytes: float
    log_bytes: float
    commits: float
    processor: float
    connections: int
    waits: list[float]


def measure(runs: int) -> Facts:
    """Return what each of *runs* took, with one worker on a server of its own."""
    with server_module().running_server(**SAFE) as server:
        address = server.address(server.create_database())
        asyncio.run(bench_durable.submit_ours(address, 1))
        with psycopg.connect(address, autocommit=True) as connection:
            before = _state(connection)
            asyncio.run(bench_durable.submit_ours(address, runs))
            # Few at a time, since the simulation has them wait for the processor.
            command = [*bench_durable.worker_command(address, 0), "--runs", "8"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as worker:  # noqa: S603 - ours
                most = 0
                while bench_durable.read_one(connection, bench_durable.OPEN):
                    most = max(most, bench_durable.read_one(connection, _CONNECTIONS))
                    sleep(0.2)
                processor = bench_durable.processor_of(worker.pid)
                worker.kill()
            sleep(2)  # The server counts the last commits of an ended session only then.
            after = _state(connection)
            waits = [row[0] for row in connection.execute(_WAITS).fetchall()]
    each = [(now - then) / runs for now, then in zip(after, before, strict=True)]
    return Facts(*each, processor=processor / runs, connections=most, waits=waits)


def _state(connection: psycopg.Connection[Any]) -> list[float]:
    sizes = {name: float(size) for name, size in connection.execute(_SIZES).fetchall()}
    return [
        sizes["toolbus_durable"],
        sizes["toolbus"],
        *[float(bench_durable.read_one(connection, query)) for query in (_WAL, _COMMITS)],
    ]


class Event(NamedTuple):
    """At *at* the run that arrived as *number* has done so many steps on *worker*."""

    at: float
    number: int
    done: int
    worker: int


class Simulation:
    """*workers* with *at_a_time* runs each, and runs that arrive at *rate* a second.

    *waited* are the seconds of runs in the queue, *took* those from their start to their end.
    """

    def __init__(self, facts: Facts, workers: int, at_a_time: int, rate: float) -> None:
        self._facts, self._rate = facts, rate
        self._chance = random.Random(1)  # noqa: S311 - the same each time
        self._events: list[Event] = []
        self._free, self._cores = [at_a_time] * workers, [0.0] * workers
        self._queue: deque[Event] = deque()
        self._starts: dict[int, float] = {}
        self.waited: list[float] = []
        self.took: list[float] = []
        self.steps = 0

    def run(self, seconds: float) -> None:
        """Let runs arrive for some *seconds*, and work on them until all have ended."""
        at = 0.0
        for number in count():
            at += self._chance.expovariate(self._rate)
            if at > seconds:
                break
            heapq.heappush(self._events, Event(at, number, 0, -1))
        while self._events:
            self._take(heapq.heappop(self._events))

    def _take(self, event: Event) -> None:
        if event.worker < 0:
            self._queue.append(event)
        elif event.done < STEPS:
            return self._step(event)
        else:
            self._free[event.worker] += 1
            self.took.append(event.at - self._starts[event.number])
        while self._queue and max(self._free):
            worker = self._free.index(max(self._free))
            self._free[worker] -= 1
            self._start(self._queue.popleft(), event.at, worker)
        return None

    def _start(self, arrived: Event, now: float, worker: int) -> None:
        start = self._starts[arrived.number] = now + self._chance.uniform(0, POLL)
        self.waited.append(start - arrived.at)
        heapq.heappush(self._events, Event(start, arrived.number, 0, worker))

    def _step(self, event: Event) -> None:
        """Let a step wait for its worker's processor, for its call, and for the database."""
        core = max(self._cores[event.worker], event.at) + self._facts.processor / STEPS
        self._cores[event.worker] = core
        self.steps += 1
        if event.done % 2:
            call = self._chance.expovariate(1 / TOOL_MEAN)
        else:
            call = self._chance.lognormvariate(0, MODEL_SPREAD) * MODEL_MEDIAN
        end = core + call + self._chance.choice(self._facts.waits)
        heapq.heappush(self._events, Event(end, event.number, event.done + 1, event.worker))


def report(facts: Facts, day: int) -> None:
    """Print the needs of *day* runs a day."""
    rate, cuts = day / 86_400, quantiles(facts.waits, n=100)
    gigabytes = (facts.engine_bytes + facts.store_bytes) * day / 1e9
    engine, store, log = [f"{n / 1e3:.1f} kB" for n in facts[:3]]
    print(f"a run of {CALLS} calls, {STEPS} steps: {engine} of the engine, {store} of the store")
    print(f"  {log} of log, {facts.commits:.0f} transactions, {facts.processor * 1e3:.0f} ms of")
    print(
        f"  processor; a step waits {cuts[49] * 1e3:.0f} ms, 1 % longer than {cuts[98] * 1e3:.0f}"
    )
    print(f"{day:,} runs a day, {rate:.1f} a second, at the peak {rate * PEAK:.0f}:")
    print(
        f"  {gigabytes:.0f} GB a day, at the peak {facts.commits * rate * PEAK:,.0f} transactions/s"
    )
    print(_ROW.format(*_HEAD))
    for at_a_time in (50, 200, 400):
        workers, done = _least(facts, at_a_time, rate * PEAK)
        busy = done.steps * facts.processor / STEPS / _SIMULATED / workers
        wait, took = [quantiles(times, n=100) for times in (done.waited, done.took)]
        times = [f"{each:.1f}" for each in (wait[49], wait[98], took[49], took[98])]
        print(_ROW.format(at_a_time, workers, workers * facts.connections, f"{busy:.2f}", *times))


def _least(facts: Facts, at_a_time: int, rate: float) -> tuple[int, Simulation]:
    """Return the least number of workers with which 99 of 100 runs wait less than 10 seconds."""
    for workers in count(1):
        simulation = Simulation(facts, workers, at_a_time, rate)
        # Fewer would not even hold the runs that are there at the same time.
        if workers * at_a_time < rate * STEPS / 2 * (MODEL_MEDIAN + TOOL_MEAN):
            continue
        simulation.run(_SIMULATED)
        if quantiles(simulation.waited, n=100)[98] < 10:
            return workers, simulation
    raise AssertionError


def main() -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durable", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="measured runs (200)")
    parser.add_argument("--day", type=int, default=1_000_000, help="runs a day (1,000,000)")
    options = parser.parse_args()
    report(measure(options.runs), options.day)


if __name__ == "__main__":
    main()
