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
"""Seconds beyond the limit for code that stands still, and for observers of an answered event."""
_PIECE = 2**20


class WaitingHost:
    """The host that waits for the answer to its *event*, which this process gets and gives.

    It is told once, and soon after *limit* seconds the process ends, whatever hangs in it.
    """

    def __init__(self, name: str, event: str, limit: float) -> None:
        self._name, self._event, self.limit = name, event, limit
        self._outputs, self._is_told, self.exit_code = (1, 2), False, 2
        self.data = b""
        self._late = "the event did not come to its end in time"
        signal.signal(signal.SIGALRM, self._end)
        signal.setitimer(signal.ITIMER_REAL, limit + _GRACE)

    def read_event(self) -> None:
        """Read the event from standard input, to its end or to more than anybody takes."""
        parts: list[bytes] = []
        with suppress(OSError):  # Of a closed one.
            while sum(map(len, parts)) <= MAX_BYTES and (part := os.read(0, _PIECE)):
                parts.append(part)
        self.data, self._late = b"".join(parts), str(DeadlineError(self.limit))

    def hide_outputs(self) -> None:
        """Keep the outputs to ourselves: other code may print what the model must not read."""
        self._outputs = (os.dup(1), os.dup(2))
        nothing = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nothing, number)

    def write(self, made: HookAnswer) -> None:
        """Write *made*, unless an answer was written."""
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
    """Return what *host* is told of its event *name*, whose JSON is *data*.

    Whatever fails, or takes longer than the limit, is answered by the host's block; only exits are
    raised. *event_id* is the same for an event that is handled once more. *on_answer* gets the
    answer as soon as it is there: observers, and code that stands still, may go on behind it, so a
    process that wants an end sets a time for it.
    """
    read = read_event(host, name, data)
    if isinstance(read, HookAnswer):
        return read
    try:
        if no_handlers_for(read, settings):
            return read.dialect.encode(read.event, HookDecision())
        import asyncio  # noqa: PLC0415 - not for what concerns nobody

        return asyncio.run(_answer(read, settings, event_id, on_answer))
    except Exception as error:  # noqa: BLE001 - whatever it is, the host must be stopped
        return fail_closed(read.dialect, read.event.name, read.payload, reason_of(error))


def no_handlers_for(read: ReadEvent, settings: HookSettings) -> bool:
    """Return whether no handler could have to do with an event, as far as that is seen at once.

    Raises `LoadError` for a configuration that cannot be used.
    """
    if read.event.kind == "other":
        return True
    if settings.config is not None or settings.required or settings.store.exists():
        return False
    from toolbus.config import trust  # noqa: PLC0415 - not for garbage

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
