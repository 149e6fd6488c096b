"""Closing in steps: each is taken, also if another fails, and a cancellation bounds them all."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from toolbus.tasks.shielding import ContainedTask, forget

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
        running, loop = ContainedTask(step), asyncio.get_running_loop()
        while not running.task.done():
            seconds = None if self._deadline is None else max(0.0, self._deadline - loop.time())
            try:
                if not await running.wait(seconds):
                    running.task.cancel()
                    running.task.add_done_callback(forget)
                    logger.warning("a step in closing %s did not end in time", self._what)
                    return
            except asyncio.CancelledError as error:
                self._errors.append(error)
                self._deadline = self._deadline or loop.time() + self._grace
                running.task.cancel()
        try:
            running.result()
        except BaseException as error:  # noqa: BLE001 - it is raised when all steps were taken
            self._errors.append(error)

    def end(self) -> None:
        """Raise what the steps raised: a cancellation or an exit, or else the first error."""
        self._errors.sort(key=lambda error: isinstance(error, Exception))
        for other in self._errors[1:]:
            if not isinstance(other, asyncio.CancelledError):
                logger.error("one more error while %s was closed", self._what, exc_info=other)
        if self._errors:
            raise self._errors[0]
