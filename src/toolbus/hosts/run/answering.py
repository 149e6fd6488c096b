"""The answer to one event in this process, for `toolbus hook`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.hosts.dialects.hook_events import HookAnswer, HookDecision
from toolbus.hosts.run.reading import ReadEvent, blocked, folder_of, read_event, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.hosts.run.requests import HookSettings


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
        if concerns_nobody(read, settings):
            return read.dialect.encode(read.event, HookDecision())
        import asyncio  # noqa: PLC0415 - not for what concerns nobody

        return asyncio.run(_answer(read, settings, event_id, on_answer))
    except Exception as error:  # noqa: BLE001 - whatever it is, the host must be stopped
        return blocked(read.dialect, read.event.name, read.payload, reason_of(error))


def concerns_nobody(read: ReadEvent, settings: HookSettings) -> bool:
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
    force = trust.in_force(file)
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
