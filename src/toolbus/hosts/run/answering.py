"""The answer to one event of a host's hooks, whatever happens on the way."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from toolbus.errors import DeadlineError
from toolbus.hosts.dialects.hook_events import HookAnswer, HookDecision
from toolbus.hosts.run.reading import ReadEvent, blocked, folder_of, read_event, reason_of

if TYPE_CHECKING:
    from toolbus.hosts.run.hook_settings import HookSettings

_GRACE = 1.0
"""Seconds beyond the limit until a thread that does not answer is left behind."""


def answer(
    host: str, name: str, data: bytes, environment: HookSettings, event_id: str = ""
) -> HookAnswer:
    """Return what *host* is told of its event *name*, whose JSON is *data*.

    Whatever fails, or takes longer than the limit, is answered by the host's block; only exits are
    raised. *event_id* is the same when the same event is handled once more, because nobody knows
    whether it was. What hangs is left behind in a thread, so the process is to end by `os._exit`.
    """
    read = read_event(host, name, data)
    if isinstance(read, HookAnswer):
        return read
    try:
        if concerns_nobody(read, environment):
            return read.dialect.encode(read.event, HookDecision())
        return _Answering(read, environment, event_id).wait()
    except Exception as error:  # noqa: BLE001 - whatever it is, the host must be stopped
        return blocked(read.dialect, name, read.payload, reason_of(error))


def concerns_nobody(read: ReadEvent, environment: HookSettings) -> bool:
    """Tell whether no handler could have to do with an event, as far as that is seen at once.

    Raises `LoadError` for a configuration that cannot be used.
    """
    if read.event.kind == "other":
        return True
    if environment.config is not None or environment.required or environment.store.exists():
        return False
    from toolbus.config import trust  # noqa: PLC0415 - not for garbage

    file = trust.find_or_missed(folder_of(read.event))
    if file is None:
        return trust.own_document() is None
    if str(file) in trust.read_trusted():
        return False
    force = trust.in_force(file)
    return force.personal is None and force.project is None


class _Answering:
    """The work on an event, in a thread that may be left behind."""

    def __init__(self, read: ReadEvent, environment: HookSettings, event_id: str) -> None:
        self._read, self._settings, self._event_id = read, environment, event_id
        self._answered = threading.Event()
        self._answer: HookAnswer | None = None
        self._error: Exception | None = None

    def wait(self) -> HookAnswer:
        """Return the answer; what observers do beside it is waited for as long as there is time.

        Raises whatever made an answer impossible.
        """
        limit = self._settings.limit
        end = monotonic() + limit + _GRACE
        thread = threading.Thread(target=self._run, name="toolbus hook", daemon=True)
        thread.start()
        self._answered.wait(end - monotonic())
        if self._answer is None:
            raise self._error or DeadlineError(limit)
        # Beyond that the host may take the hook for dead, and go on without the answer.
        thread.join(max(0.0, end - monotonic()))
        return self._answer

    def _run(self) -> None:
        import asyncio  # noqa: PLC0415 - not for what concerns nobody

        try:
            asyncio.run(self._work())
        except Exception as error:  # noqa: BLE001 - who waits raises it
            self._error = error
        finally:
            self._answered.set()

    async def _work(self) -> None:
        from toolbus.hosts.run.service import HookService  # noqa: PLC0415 - as above

        async with HookService(self._settings) as service:
            made = await service.answer(self._read, self._event_id)
            self._answer = made if isinstance(made, HookAnswer) else None
            self._answered.set()
