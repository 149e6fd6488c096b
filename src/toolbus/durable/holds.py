"""Held runs: markers beside their questions, and the next segment after an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.durable.engine import Engine
    from toolbus.durable.runs import Run
    from toolbus.store.protocol import Store


async def hold(store: Store, run: Run) -> None:
    """Leave a marker beside each question of the held *run*."""
    raise NotImplementedError


async def wake(store: Store, engine: Engine) -> int:
    """Queue the next segment of each held run with an answer; return their number.

    Two indexed queries; a worker calls it every second, and several may at once.
    """
    raise NotImplementedError
