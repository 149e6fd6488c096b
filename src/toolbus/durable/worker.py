"""A worker: it holds a slot of a queue, and runs the workflows there until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

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
    from toolbus.durable.runs import AgentFactory
    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus.durable")

GRACE = 30.0
"""Seconds that running calls have at a gentle stop."""

DEATHS = 25
"""So many workers may die with a run until it has failed: it may be what kills them."""

_RUNNING: tuple[WorkflowState, ...] = ("running",)
_MOST = 10_000
"""The most running workflows that are looked up."""


class QuietFormatter(logging.Formatter):
    """Formats messages of the library without their values, which may quote a session."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of *record*."""
        if record.name not in {"toolbus", "asyncio"}:
            return super().format(record)
        text = re.sub(r"%[a-z]", "…", str(record.msg).partition("\n")[0])
        kind = record.exc_info[0] if record.exc_info else None
        return f"{text} ({record.module}{f', {kind.__name__}' if kind else ''})"


def log_to(stream: TextIO) -> None:
    """Write warnings to *stream*, with nothing of a session."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(QuietFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


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
    worker = Worker(store, engine, limits.name, slot)
    try:
        await worker.renew_runs(slot.name)
        workflow = durable(make_agent, store, running=worker.running)
        await engine.start(slot.name, workflow, limits)
        ready(slot.name)
        if not await _first_of(worker.look_after(), slot.keep(), stopped=stop.wait()):
            return False
        # The calls that end meanwhile are still this worker's.
        return await _first_of(slot.keep(), stopped=worker.leave(grace))
    finally:
        with suppress(StoreError):  # It ends by itself, too.
            await slot.release()


async def _first_of(
    *works: Coroutine[Any, Any, object], stopped: Coroutine[Any, Any, object]
) -> bool:
    """Run all until one ends; return whether it is *stopped*."""
    tasks = [asyncio.ensure_future(work) for work in (*works, stopped)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return tasks[-1].done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Worker:
    """The care of a worker in *slot* for the runs of *queue*.

    *running* has the arguments of the workflows of this process.
    """

    def __init__(self, store: Store, engine: WorkflowEngine, queue: str, slot: WorkerSlot) -> None:
        self._store, self._engine, self._queue, self._slot = store, engine, queue, slot
        self._index = RunIndex(store)
        self.running: set[tuple[str, ...]] = set()
        self._missing: set[str] = set()

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

    async def leave(self, grace: float) -> None:
        """Stop the engine, whose calls have *grace* seconds, and hand the runs over."""
        await self._engine.stop(grace)
        await self.renew_runs(self._slot.name, dead=False)

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
        elif run.word == "queued" and run.deaths + deaths >= DEATHS:
            failed = replace(run, word="failed", failure=f"{DEATHS} workers died with it")
            await swap_run(self._store, run, failed)
        elif run.word == "queued":
            await begin_next(self._store, self._engine, run, deaths=run.deaths + deaths)
        await self._engine.cancel(workflow.id)
