"""A worker: it holds a slot of a queue, and runs the workflows there until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from toolbus.durable.holds import wake
from toolbus.durable.runs import RunIndex
from toolbus.durable.segment import durable
from toolbus.durable.slots import adopt_dead, claim_slot
from toolbus.durable.submission import renew
from toolbus.store.leases import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.durable.engine import QueueLimits, WorkflowEngine
    from toolbus.durable.runs import AgentFactory
    from toolbus.durable.slots import WorkerSlot
    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus.durable")

GRACE = 30.0
"""Seconds that running steps have at a gentle stop."""


async def serve(
    make_agent: AgentFactory,
    store: Store,
    engine: WorkflowEngine,
    limits: QueueLimits,
    stop: asyncio.Event,
    *,
    grace: float = GRACE,
    lease: float = LEASE_SECONDS,
    ready: Callable[[str], object],
) -> bool:
    """Run the queue of *limits* as a further worker until *stop* is set; return True.

    Running steps then have *grace* seconds, and other workers take the runs over. Returns False
    if the *lease* of the slot was lost: its runs already belong to another worker. *ready* is
    called with the slot's name.
    """
    await engine.open()
    slot = await claim_slot(store, limits.name, lease, workers=engine.workers)
    try:
        await engine.start(slot.name, durable(make_agent, store), limits)
        ready(slot.name)
        if not await _tend(store, engine, limits.name, slot, stop):
            return False
        await engine.stop(grace)
    finally:
        await slot.release()
    return True


async def _tend(
    store: Store, engine: WorkflowEngine, queue: str, slot: WorkerSlot, stop: asyncio.Event
) -> bool:
    """Look after the queue until *stop* is set; return False once the slot is lost."""
    stopped = asyncio.ensure_future(stop.wait())
    lost = asyncio.ensure_future(slot.keep())
    swept = asyncio.ensure_future(_sweep(store, engine, queue, slot))
    tasks: set[asyncio.Future[Any]] = {stopped, lost, swept}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return not lost.done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _sweep(store: Store, engine: WorkflowEngine, queue: str, slot: WorkerSlot) -> None:
    """Wake answered runs every second, and adopt runs of dead or older workers now and then."""
    index, adopted = RunIndex(store), monotonic()
    while True:
        try:
            await wake(store, engine, index)
            if monotonic() - adopted > slot.seconds / 3:
                adopted = monotonic()
                await adopt_dead(store, engine, queue, slot.name)
                for each in await renew(store, engine, index, queue):
                    logger.warning("workflow %s of %s has no open run", each.id, each.version)
        except Exception as error:  # noqa: BLE001 - the worker outlives a server that is down
            logger.warning("the queue %s: %s; trying again", queue, type(error).__name__)
        await asyncio.sleep(1)
