"""A worker of the engine alone: `ADDRESS SLOT`, whose workflows have 21 empty steps."""

from __future__ import annotations

import sys
import time
from typing import Any

from dbos import DBOS

from benchmarks.durable.app import CALLS
from toolbus.durable.dbos_engine import JsonSerializer

STEPS = 2 * CALLS + 1


async def empty() -> str:
    """Return a word, as our steps do."""
    return "done"


@DBOS.workflow(name="toolbus")
async def run(*_: str) -> str:
    """Do the steps."""
    for _ in range(STEPS):
        await DBOS.run_step_async({"name": "model"}, empty)
    return "ok"


def main(url: str, slot: str) -> None:
    """Work until the process is killed."""
    config: Any = {
        "name": "toolbus",
        "system_database_url": url,
        "dbos_system_schema": "toolbus_durable",
        "sys_db_pool_size": 4,
        "max_executor_threads": 4,
        "executor_id": slot,
        "application_version": "1",
        "serializer": JsonSerializer(),
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.listen_queues(["q"])
    DBOS.launch()
    DBOS.register_queue("q", worker_concurrency=50, polling_interval_sec=0.5)
    time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
