"""Durable runs: what a step costs beside a step of the engine alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.bench_postgres import SAFE, server_module
from benchmarks.durable import app
from benchmarks.harness import OURS, Rig, table

if TYPE_CHECKING:
    from collections.abc import Sequence

ALONE = "the engine alone, empty steps"
RUNS = 150
_APP = Path(app.__file__)
_WORKFLOWS = "FROM toolbus_durable.workflow_status"
OPEN = f"SELECT count(*) {_WORKFLOWS} WHERE status IN ('PENDING', 'ENQUEUED')"
_BEGUN = f"SELECT count(*) {_WORKFLOWS} WHERE started_at_epoch_ms IS NOT NULL"
_STEPS = "SELECT count(*) FROM toolbus_durable.operation_outputs WHERE function_name <> 'run'"
# By the server's clock: the milliseconds from the first start to the last end.
_TOOK = f"SELECT max(completed_at) - min(started_at_epoch_ms) {_WORKFLOWS}"


@table("µs", baseline=ALONE)
def bench_durable(rig: Rig) -> None:
    """A step of a run, with its model or tool and its append, costs at most two empty steps."""
    rig.lacks[ALONE] = "it stores no message, and has no agent"
    with server_module().running_server(**SAFE) as server:
        for workers in (1,) if rig.once else (1, 2):
            for name, submit, command in (
                (ALONE, submit_empty, _alone),
                (OURS, submit_ours, worker_command),
            ):
                address = server.address(server.create_database())
                asyncio.run(submit(address, 2 if rig.once else RUNS * workers))
                took, cpu, _ = measure(
                    server, address, [command(address, n) for n in range(workers)]
                )
                row = f"{workers} workers" if workers > 1 else "1 worker"
                for what, figure in ((row, took), (f"{row}, processor", cpu)):
                    rig.put(what, name, None if rig.once else figure)


async def submit_ours(address: str, runs: int) -> None:
    """Submit *runs* with our agent."""
    from toolbus.durable.dbos_engine import DbosEngine  # noqa: PLC0415 - it needs an extra
    from toolbus.durable.runs import VERSION  # noqa: PLC0415 - as above
    from toolbus.durable.submission import submit  # noqa: PLC0415 - as above
    from toolbus.store import PostgresStore  # noqa: PLC0415 - as above

    engine = DbosEngine(address, version=VERSION)
    await engine.open()
    async with PostgresStore(address) as store:
        for _ in range(runs):
            await submit(app.agent, store, engine, "go", queue="q")
    await engine.close()


async def submit_empty(address: str, runs: int) -> None:
    """Queue *runs* of the engine alone."""
    from toolbus.durable.dbos_engine import DbosEngine  # noqa: PLC0415 - it needs an extra
    from toolbus.durable.engine import WorkflowCall  # noqa: PLC0415 - as above

    engine = DbosEngine(address, version="1")
    await engine.open()
    for number in range(runs):
        call = WorkflowCall(id=f"w{number}", arguments=("0123456789abcdef", "1"), queue="q")
        await engine.enqueue(call)
    await engine.close()


def _alone(address: str, number: int) -> Sequence[str]:
    url = address.replace("postgresql://", "postgresql+psycopg://")
    return [sys.executable, "-m", "benchmarks.durable.engine_alone", url, f"slot{number}"]


def worker_command(address: str, _: int) -> Sequence[str]:
    """Return the command of one more worker of ours."""
    words = ["worker", f"{_APP}:agent", "--store", address, "--queue", "q"]
    return [sys.executable, "-m", "toolbus", *words]


def measure(
    server: Any, address: str, commands: Sequence[Sequence[str]]
) -> tuple[float, float, float]:
    """Return the microseconds of a step, and those of processor in the workers and the server.

    All workflows are done by the workers of *commands*.
    """
    root = Path(__file__).parents[1]
    # Our own commands.
    workers = [subprocess.Popen(each, cwd=root, stdout=subprocess.DEVNULL) for each in commands]  # noqa: S603
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            while not read_one(connection, _BEGUN):
                time.sleep(0.01)
            before = _used(workers, server)
            while read_one(connection, OPEN):
                assert all(worker.poll() is None for worker in workers), "a worker has ended"
                time.sleep(0.1)
            after = _used(workers, server)
            took, steps = float(read_one(connection, _TOOK)), int(read_one(connection, _STEPS))
        ours, servers = [
            (now - then) * 1e6 / steps for now, then in zip(after, before, strict=True)
        ]
        return took * 1e3 / steps, ours, servers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _used(workers: Sequence[subprocess.Popen[bytes]], server: Any) -> tuple[float, float]:
    """Return the seconds of processor that *workers* and all processes of *server* have used."""
    return sum(processor_of(each.pid) for each in workers), sum(map(processor_of, server.pids()))


def processor_of(pid: int) -> float:
    """Return the seconds of processor that the process *pid* has used, 0 without one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_one(connection: psycopg.Connection[Any], query: str) -> Any:
    """Return the one value of *query*."""
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]
