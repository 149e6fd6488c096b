"""The slots of workers: numbered leases in the store, which are the engine's names of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.durable.engine import Engine
    from toolbus.store.protocol import Store


class Slot:
    """A numbered slot of *queue*, held by a lease that `extend` prolongs; its `name` is "Q:N"."""

    name: str

    @classmethod
    async def claim(cls, store: Store, queue: str) -> Slot:
        """Return the lowest slot that is free, or whose holder is dead."""
        raise NotImplementedError

    async def extend(self) -> bool:
        """Prolong the lease; return False if it has expired, so that this worker must stop."""
        raise NotImplementedError

    async def release(self) -> None:
        """Give the slot back."""
        raise NotImplementedError


async def adopt_dead(store: Store, engine: Engine, queue: str) -> int:
    """Queue the workflows of workers whose lease has expired again; return their number."""
    raise NotImplementedError
