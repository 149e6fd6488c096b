"""In which order calls that run at the same time are answered: one that waits holds up nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.tasks.shielding import ContainedTask


async def next_to_answer(calls: Sequence[Any], running: Sequence[ContainedTask[Any] | None]) -> int:
    """Return the place of the call to be answered next, of those that remain.

    Each is a `GatedCall`. The first is next, unless it waits for a person, which may take long: a
    process killed meanwhile would have lost the results of the others if they waited for it.
    """
    tasks = [each.task for each in running if each is not None]
    if len(tasks) < len(calls):
        return 0  # A call that is alone has no task.
    try:
        while True:
            place = next((index for index, task in enumerate(tasks) if task.done()), len(tasks))
            first_busy = next(
                (index for index, call in enumerate(calls[:place]) if not call.waits.done()), None
            )
            if first_busy is not None:
                await asyncio.wait(
                    {tasks[first_busy], calls[first_busy].waits},
                    return_when=asyncio.FIRST_COMPLETED,
                )
            elif place < len(tasks):
                return place
            else:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        return 0  # Whoever takes its end knows what that means.
