"""Numbered slots of the workers of a queue: leases in the store."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError, SessionBusyError, StoreError
from toolbus.messages.ids import new_id
from toolbus.store.leases import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.protocol import Store


class WorkerSlot:
    """The slot *name* in *store*, held by a single worker for *seconds* at a time.

    *clock* returns seconds.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.name, self.seconds, self._store, self._clock = name, seconds, store, clock
        self._holder, self._until = new_id(), 0.0

    async def take(self) -> bool:
        """Return whether the slot was free, or its holder's lease had expired, and is now held."""
        until = self._clock() + self.seconds
        try:
            await self._store.open_session(self.name, self._holder, self.seconds)
        except SessionBusyError:
            return False
        self._until = until
        return True

    async def extend(self) -> bool:
        """Return whether the slot is still held, also while the store fails for a moment."""
        try:
            async with asyncio.timeout(self.seconds / 3):
                return await self.take()
        except (StoreError, TimeoutError):
            return self._clock() < self._until

    async def keep(self) -> None:
        """Extend the lease until it is lost: to another worker, or for lack of a store."""
        while await self.extend():  # noqa: ASYNC110 - time is the event
            await asyncio.sleep(self.seconds / 3)

    async def release(self) -> None:
        """End the lease at once."""
        await self._store.extend_lease(self.name, self._holder, 0)


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
