"""Numbered slots of the workers of a queue: leases in the store."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError, SessionBusyError, StoreError
from toolbus.messages.ids import new_id
from toolbus.store.leases import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.durable.engine import WorkflowEngine, WorkflowState
    from toolbus.store.protocol import Store

_RUNNING = 10_000
"""The most running workflows whose workers are looked up."""


class WorkerSlot:
    """The slot *name* in *store*: at most a single worker holds it.

    *clock* returns seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name, self.seconds, self._store, self._clock = name, seconds, store, clock
        self._holder = new_id()
        self._epoch, self._until, self._unknown = 0, 0.0, 0

    async def take(self) -> bool:
        """Return whether the slot was free, or its holder's lease had expired, and is now held."""
        until = self._clock() + self.seconds
        try:
            position = await self._store.open_session(self.name, self._holder, self.seconds)
        except SessionBusyError:
            return False
        self._epoch, self._until = position.epoch, until
        return True

    async def keep(self) -> None:
        """Extend the lease until it is lost: to another worker, or for lack of a store."""
        while await self._extend():  # noqa: ASYNC110 - time is the event
            await asyncio.sleep(self.seconds / 3)

    async def release(self) -> None:
        """End the lease at once."""
        await self._store.extend_lease(self.name, self._holder, 0)

    async def _extend(self) -> bool:
        before = self._epoch
        try:
            async with asyncio.timeout(self.seconds / 3):
                is_ours = await self.take()
        except (StoreError, TimeoutError):
            # The extension may have been written, and then its epoch counts.
            self._unknown += 1
            return self._clock() < self._until
        # A larger step: another worker held the slot while this process was suspended.
        is_ours = is_ours and self._epoch <= before + 1 + self._unknown
        self._unknown = 0
        return is_ours


async def claim_slot(
    store: Store, queue: str, seconds: float = LEASE_SECONDS, *, workers: int | None = None
) -> WorkerSlot:
    """Return the lowest free slot of *queue*, held by this process for *seconds*.

    Whether the slot was free or its former worker has failed, its runs are now the caller's.
    Raises `RegistrationError` if the queue has so many *workers* already.
    """
    number = 1
    while not await (slot := WorkerSlot(store, slot_name(queue, number), seconds)).take():
        if number == workers:
            reason = f"it has {workers} worker, and its store allows no more; use PostgreSQL"
            raise RegistrationError(f"queue {queue!r}", reason)
        number += 1
    return slot


def slot_name(queue: str, number: int) -> str:
    """Return the name of a slot, the engine's name of its worker."""
    return f"worker:{queue}:{number}"


async def adopt_dead(store: Store, engine: WorkflowEngine, queue: str, slot: str) -> int:
    """Queue the workflows of dead workers of *queue* again; return their number.

    Workers whose lease has expired are dead. *slot* is the slot of the caller, whose process may
    have lost workflows as well.
    """
    states: tuple[WorkflowState, ...] = ("running",)
    running = await engine.workflows(states, queue=queue, limit=_RUNNING)
    count = 0
    for name in {each.slot for each in running} - {"", slot}:
        dead = WorkerSlot(store, name)
        if await dead.take():
            try:
                count += await engine.adopt(name)
            finally:
                await dead.release()
    return count + await engine.adopt(slot)
