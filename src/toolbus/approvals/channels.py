"""Channels: how a person hears of a question; answers come in by `toolbus.approvals.answer`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from toolbus.approvals.records import read_question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from typing import Any

    from toolbus.approvals.questions import Question
    from toolbus.store.protocol import Store

PATIENCE = 10.0
"""Seconds for which a call that ends as pending waits for channels that are still being told."""

logger = logging.getLogger("toolbus")


class Notifier(Protocol):
    """A channel that is told of each question when it is asked; it decides nothing.

    One with `pauses`, seconds, is told again after each of them, as long as the question waits and
    what it raises has `may_retry`. One with a method `async def notify_limit(session_id, reason)`
    hears as well that a session asks no more for now, for it has asked too often.

    >>> class Chat:
    ...     async def notify(self, question):
    ...         print(question.tool, dict(question.arguments), question.digest[:8])
    >>> approvals = StoredApprovals(notify=[Chat()])
    """

    async def notify(self, question: Question) -> None:
        """Tell a person of *question*; a failure is logged, and changes nothing."""


class Notices:
    """Tells *channels* of questions, in tasks of their own."""

    def __init__(self, channels: Sequence[Notifier]) -> None:
        self._channels = tuple(channels)
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._later: set[asyncio.Task[None]] = set()

    def send(self, store: Store, question: Question) -> None:
        """Begin to tell all channels of *question*, which is kept in *store*."""
        for channel in self._channels:
            task = asyncio.create_task(self._notify(channel, store, question))
            self._tasks.setdefault(question.id, set()).add(task)
            task.add_done_callback(lambda task: self._forget(question.id, task))

    def send_limit(self, session_id: str, reason: str) -> None:
        """Begin to tell who hears of it that a session asks no more for now; the log says so."""
        logger.warning("session %r: %s; its calls are denied meanwhile", session_id, reason)
        for channel in self._channels:
            notify_limit = getattr(channel, "notify_limit", None)
            if notify_limit is not None:
                self._begin(_notify_limit(notify_limit, session_id, reason))

    async def settle(self, question_id: str) -> None:
        """Wait until the channels were told of a question, for `PATIENCE` seconds at most."""
        if tasks := self._tasks.get(question_id):
            await asyncio.wait(set(tasks), timeout=PATIENCE)

    async def _notify(self, channel: Notifier, store: Store, question: Question) -> None:
        try:
            await channel.notify(question)
        except Exception as error:
            logger.exception("question %s could not be told to %r", question.id, channel)
            if getattr(error, "may_retry", False) and getattr(channel, "pauses", ()):
                # A call that ends as pending does not wait for it.
                self._begin(_tell_again(channel, store, question))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin *work*, which nobody waits for."""
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _forget(self, question_id: str, task: asyncio.Task[None]) -> None:
        tasks = self._tasks.get(question_id, set())
        tasks.discard(task)
        if not tasks:
            self._tasks.pop(question_id, None)


async def _tell_again(channel: Notifier, store: Store, question: Question) -> None:
    """Tell *channel* of *question* after each of its pauses, until it is told or answered."""
    for pause in channel.pauses:  # type: ignore[attr-defined]  # whoever has none is not told again
        await asyncio.sleep(pause)
        try:
            current = await read_question(store, question.session_id, question.id)
            if current is None or current.state != "pending":
                return
            await channel.notify(question)
        except Exception as error:
            logger.exception("question %s could not be told to %r", question.id, channel)
            if not getattr(error, "may_retry", False):
                return
        else:
            return


async def _notify_limit(
    notify_limit: Callable[[str, str], Awaitable[None]], session_id: str, reason: str
) -> None:
    try:
        await notify_limit(session_id, reason)
    except Exception:
        logger.exception("the limit of session %r could not be told to a channel", session_id)
