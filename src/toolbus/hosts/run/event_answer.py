"""The answer to one event in this process, for `toolbus hook`."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from toolbus.errors import DeadlineError
from toolbus.hosts.dialects.hook_events import HookAnswer, HookDecision
from toolbus.hosts.run.event_input import (
    MAX_BYTES,
    ReadEvent,
    answer_unread,
    fail_closed,
    folder_of,
    read_event,
    reason_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.hosts.run.requests import HookSettings

_GRACE = 1.0
"""Seconds beyond the limit for blocked code, and for observers of an answered event."""
_PIECE = 2**20


class WaitingHost:
    """The host that waits for this process to answer its *event*.

    It gets one answer; soon after *limit* seconds the process ends, even if code in it hangs.
    """

    def __init__(self, name: str, event: str, limit: float) -> None:
        self._name, self._event, self.limit = name, event, limit
        self._outputs, self._is_told, self.exit_code = (1, 2), False, 2
        self.data = b""
        self._late = "the event was not received in time"
        signal.signal(signal.SIGALRM, self._end)
        signal.setitimer(signal.ITIMER_REAL, limit + _GRACE)

    def read_event(self) -> None:
        """Read the event from standard input, to its end or beyond the largest allowed size."""
        parts: list[bytes] = []
        with suppress(OSError):  # Standard input may be closed.
            while sum(map(len, parts)) <= MAX_BYTES and (part := os.read(0, _PIECE)):
                parts.append(part)
        self.data, self._late = b"".join(parts), str(DeadlineError(self.limit))

    def hide_outputs(self) -> None:
        """Redirect the outputs of other code, which may print text that the model must not read."""
        self._outputs = (os.dup(1), os.dup(2))
        nothing = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nothing, number)

    def write(self, made: HookAnswer) -> None:
        """Write *made*, unless an answer was written before."""
        if self._is_told:
            return
        self._is_told = True
        for number, data in zip(self._outputs, (made.stdout, made.stderr), strict=True):
            while data:
                data = data[os.write(number, data) :]  # noqa: PLW2901 - the rest of it
        self.exit_code = made.exit_code

    def _end(self, *_: object) -> NoReturn:
        self.write(answer_unread(self._name, self._event, self.data, self._late))
        os._exit(self.exit_code)


def answer(
    host: str,
    name: str,
    data: bytes,
    settings: HookSettings,
    event_id: str = "",
    *,
    on_answer: Callable[[HookAnswer], object] = lambda _: None,
) -> HookAnswer:
    """Return the answer to the event *name* of *host*, whose JSON is *data*.

    A failure or a timeout is answered by the host's fail-closed answer; only exits are raised. A
    retry of an event has the same *event_id*. *on_answer* gets the answer as soon as it is ready:
    observers and blocked code may go on after it, so the caller sets a time limit for the process.
    """
    read = read_event(host, name, data)
    if isinstance(read, HookAnswer):
        return read
    try:
        if no_handlers_for(read, settings):
            return read.dialect.encode(read.event, HookDecision())
        import asyncio  # noqa: PLC0415 - slow to load, and not needed without handlers

        return asyncio.run(_answer(read, settings, event_id, on_answer))
    except Exception as error:  # noqa: BLE001 - any failure must stop the host
        return fail_closed(read.dialect, read.event.name, read.payload, reason_of(error))


def no_handlers_for(read: ReadEvent, settings: HookSettings) -> bool:
    """Return whether *read* certainly reaches no handler, without loading a configuration.

    Raises `LoadError` for an unusable configuration.
    """
    if read.event.kind == "other":
        return True
    if settings.config is not None or settings.required or settings.store.exists():
        return False
    from toolbus.config import trust  # noqa: PLC0415 - not needed for unreadable events

    file = trust.find_or_missed(folder_of(read.event))
    if file is None:
        return trust.own_document() is None
    if str(file) in trust.read_trusted():
        return False
    force = trust.effective_config(file)
    return force.personal is None and force.project is None


async def _answer(
    read: ReadEvent,
    settings: HookSettings,
    event_id: str,
    on_answer: Callable[[HookAnswer], object],
) -> HookAnswer:
    from toolbus.hosts.run.service import HookService  # noqa: PLC0415 - as above

    async with HookService(settings) as service:
        made = await service.answer(read, event_id)
        assert isinstance(made, HookAnswer)  # noqa: S101 - it serves all folders
        on_answer(made)
    return made
