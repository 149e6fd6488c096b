"""Closing in steps: each is taken, also if another fails, and a cancellation bounds them all."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from toolbus.tasks.shielding import ContainedTask, outlast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger("toolbus")


class Closing:
    """The steps of closing *what*; once cancelled, all that are left have *grace* seconds."""

    def __init__(self, what: str, grace: float) -> None:
        self._what, self._grace = what, grace
        self._deadline: float | None = None
        self._errors: list[BaseException] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancellation has come."""
        return self._deadline is not None

    async def step(
        self, step: Callable[[], Coroutine[Any, Any, object]], *, in_haste: bool = True
    ) -> None:
        """Take *step*, after a cancellation only if it is to be taken *in_haste* as well."""
        if self._deadline is not None and not in_haste:
            return
        running = ContainedTask(step)

        def stop() -> None:
            self._limit(running)
            running.cancel()

        if self._deadline is not None:
            self._limit(running)
        if (cancelled := await outlast(running.ended, stop)) is not None:
            self._errors.append(cancelled)
        if running.is_left_behind:
            running.cancel()
            logger.warning("a step in closing %s did not end in time", self._what)
            return
        try:
            running.result()
        except BaseException as error:  # noqa: BLE001 - it is raised when all steps were taken
            self._errors.append(error)

    def _limit(self, running: ContainedTask[object]) -> None:
        """Leave *running* behind when the time is up, which is counted from the first time on."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._grace
        running.later(max(0.0, self._deadline - now), running.leave_behind)

    def end(self) -> None:
        """Raise what the steps raised: a cancellation or an exit, or else the first error."""
        self._errors.sort(key=lambda error: isinstance(error, Exception))
        for other in self._errors[1:]:
            if not isinstance(other, asyncio.CancelledError):
                logger.error("one more error while %s was closed", self._what, exc_info=other)
        if self._errors:
            raise self._errors[0]
