"""A worker: it holds a slot of a queue, and runs the workflows there until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.durable.holds import wake
from toolbus.durable.runs import RunIndex, begin_next, swap_run, workflow_of
from toolbus.durable.segment import durable
from toolbus.durable.slots import WorkerSlot, claim_slot
from toolbus.errors import DecodeError, StoreError
from toolbus.store.leases import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolbus.durable.engine import (
        QueueLimits,
        WorkflowEngine,
        WorkflowInfo,
        WorkflowState,
    )
    from toolbus.durable.runs import AgentFactory, DurableRun
    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus.durable")

GRACE = 30.0
"""Seconds that running calls have at a gentle stop."""

DEATHS = 25
"""So many workers may die with a run until it has failed: it may be what kills them."""

_RUNNING: tuple[WorkflowState, ...] = ("running",)
_MOST = 10_000
"""The most running workflows that are looked up."""


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
    worker = QueueWorker(store, engine, limits.name, slot)
    lost = asyncio.ensure_future(slot.keep())
    worked = asyncio.ensure_future(worker.work(make_agent, limits, stop, grace, ready))
    try:
        await asyncio.wait({lost, worked}, return_when=asyncio.FIRST_COMPLETED)
        if worked.done():
            worked.result()
        return worked.done()
    finally:
        lost.cancel()
        worked.cancel()
        await asyncio.wait({lost, worked})
        with suppress(StoreError):  # It ends by itself, too.
            await slot.release()


class QueueWorker:
    """The care of a worker in *slot* for the runs of *queue*.

    *running* has the arguments of the workflows of this process.
    """

    def __init__(self, store: Store, engine: WorkflowEngine, queue: str, slot: WorkerSlot) -> None:
        self._store, self._engine, self._queue, self._slot = store, engine, queue, slot
        self._index = RunIndex(store)
        self.running: set[tuple[str, ...]] = set()
        self._missing: set[str] = set()

    async def work(
        self,
        make_agent: AgentFactory,
        limits: QueueLimits,
        stop: asyncio.Event,
        grace: float,
        ready: Callable[[str], object],
    ) -> None:
        """Run the queue until *stop* is set, then let calls end for *grace* seconds."""
        await self.renew_runs(self._slot.name)
        workflow = durable(make_agent, self._store, running=self.running)
        await self._engine.start(self._slot.name, workflow, limits)
        ready(self._slot.name)
        looking = asyncio.ensure_future(self.look_after())
        try:
            await stop.wait()
        finally:
            looking.cancel()
        await self._engine.stop(grace)
        await self.renew_runs(self._slot.name, dead=False)

    async def look_after(self) -> None:
        """Wake answered runs every second, and renew lost runs now and then, for good."""
        renewed = monotonic()
        while True:
            await self._try(wake(self._store, self._engine, self._index))
            if monotonic() - renewed > self._slot.seconds / 3:
                renewed = monotonic()
                await self._try(self.renew_lost())
            await asyncio.sleep(1)

    async def _try(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the worker outlives a server that is down
            logger.warning("queue %s: %s; trying again", self._queue, type(error).__name__)

    async def renew_lost(self) -> None:
        """Renew the runs of dead workers, and those that this one lost in the middle of a start.

        The workers whose leases have expired are dead. A workflow without a task here is lost if
        it was so at the last look, too.
        """
        running = await self._engine.workflows(_RUNNING, queue=self._queue, limit=_MOST)
        ours = {each.id: each for each in running if each.slot == self._slot.name}
        missing = {name for name, each in ours.items() if each.arguments not in self.running}
        for name in missing & self._missing:
            await self._renew(ours[name])
        self._missing = missing
        for name in {each.slot for each in running} - {"", self._slot.name}:
            dead = WorkerSlot(self._store, name)
            if await dead.take():
                try:
                    await self.renew_runs(name)
                finally:
                    await dead.release()

    async def renew_runs(self, slot: str, *, dead: bool = True) -> None:
        """Renew the runs of the worker *slot*, which is *dead* or has stopped."""
        for workflow in await self._engine.workflows(_RUNNING, queue=self._queue, limit=_MOST):
            if workflow.slot == slot:
                await self._renew(workflow, deaths=int(dead))

    async def _renew(self, workflow: WorkflowInfo, deaths: int = 0) -> None:
        """Queue the next segment of the run of a lost *workflow*."""
        try:
            run = await self._index.find(workflow.arguments[0])
        except DecodeError:
            logger.warning("the run of workflow %s cannot be read", workflow.id)
            return
        if run is None:
            logger.warning("workflow %s of %s has no run", workflow.id, workflow.version)
        elif run.word == "queued" and run.segment != int(workflow.arguments[1]):
            await self._engine.enqueue(workflow_of(run))  # A worker was killed right here.
        elif run.word == "queued" and not await self._go_on(run, run.deaths + deaths):
            return  # It has changed meanwhile, so the next look decides.
        await self._engine.cancel(workflow.id)

    async def _go_on(self, run: DurableRun, deaths: int) -> bool:
        """Queue the next segment of *run*, or end it; return False if it has changed."""
        if deaths < DEATHS:
            return await begin_next(self._store, self._engine, run, deaths=deaths) is not None
        failed = replace(run, word="failed", failure=f"{DEATHS} workers died with it")
        return await swap_run(self._store, run, failed)
