"""Channels that notify a person of questions; answers arrive by `toolbus.approvals.answer`."""

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

NOTIFY_SECONDS = 10.0
"""Seconds that a call about to end as pending waits for unfinished notifications."""

logger = logging.getLogger("toolbus")


class Notifier(Protocol):
    """A channel that is notified of each new question; it decides nothing.

    With an attribute `pauses`, in seconds, a failed notification is repeated after each pause while
    the question is pending and the error has a true `may_retry`. A method
    `async def notify_limit(session_id, reason)` is called when a session reaches its limits.

    >>> class Chat:
    ...     async def notify(self, question):
    ...         print(question.tool, dict(question.arguments), question.digest[:8])
    >>> approvals = StoredApprovals(notify=[Chat()])
    """

    async def notify(self, question: Question) -> None:
        """Notify a person of *question*; a failure is logged, and has no other effect."""


class Notices:
    """Notifies *channels* of questions in separate tasks."""

    def __init__(self, channels: Sequence[Notifier]) -> None:
        self._channels = tuple(channels)
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._later: set[asyncio.Task[None]] = set()

    def send(self, store: Store, question: Question) -> None:
        """Start notifying all channels of *question*, which is in *store*."""
        for channel in self._channels:
            task = asyncio.create_task(self._notify(channel, store, question))
            self._tasks.setdefault(question.id, set()).add(task)
            task.add_done_callback(lambda task: self._forget(question.id, task))

    def send_limit(self, session_id: str, reason: str) -> None:
        """Log that a session has reached a limit, and start notifying channels with that method."""
        logger.warning("session %r: %s; its calls are denied meanwhile", session_id, reason)
        for channel in self._channels:
            notify_limit = getattr(channel, "notify_limit", None)
            if notify_limit is not None:
                self._begin(_notify_limit(notify_limit, session_id, reason))

    async def settle(self, question_id: str) -> None:
        """Wait for the notifications of a question, at most `NOTIFY_SECONDS`."""
        if tasks := self._tasks.get(question_id):
            await asyncio.wait(set(tasks), timeout=NOTIFY_SECONDS)

    async def _notify(self, channel: Notifier, store: Store, question: Question) -> None:
        try:
            await channel.notify(question)
        except Exception as error:
            logger.exception("question %s: notifying %r failed", question.id, channel)
            if getattr(error, "may_retry", False) and getattr(channel, "pauses", ()):
                # A call that ends as pending does not wait for a retry.
                self._begin(_retry(channel, store, question))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start *work* in the background."""
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _forget(self, question_id: str, task: asyncio.Task[None]) -> None:
        tasks = self._tasks.get(question_id, set())
        tasks.discard(task)
        if not tasks:
            self._tasks.pop(question_id, None)


async def _retry(channel: Notifier, store: Store, question: Question) -> None:
    """Notify *channel* of *question* after each of its pauses, until that succeeds or is moot."""
    for pause in channel.pauses:  # type: ignore[attr-defined]  # only one with pauses is retried
        await asyncio.sleep(pause)
        try:
            current = await read_question(store, question.session_id, question.id)
            if current is None or current.state != "pending":
                return
            await channel.notify(question)
        except Exception as error:
            logger.exception("question %s: notifying %r failed", question.id, channel)
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
        logger.exception("session %r: notifying a channel of its limit failed", session_id)
