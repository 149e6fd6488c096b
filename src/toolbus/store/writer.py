"""The single writer of a session: it has an epoch of its own, and a lease while it works."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.errors import SessionBusyError, StoreError, ToolbusError
from toolbus.store.leases import LEASE_SECONDS
from toolbus.store.protocol import Position
from toolbus.tasks.loops import LoopLock
from toolbus.tasks.shield import shield_until_done

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.store.protocol import AppendRequest, Store

logger = logging.getLogger("toolbus")


class Writer:
    """The writer of *session_id* in *store*; *holder* is the unique name of this writer."""

    def __init__(
        self, store: Store, session_id: str, holder: str, lease: float = LEASE_SECONDS
    ) -> None:
        self._store, self._session_id = store, session_id
        self._holder, self._lease = holder, lease
        self._epoch, self._until = 0, 0.0
        self._users: list[asyncio.Task[Any] | None] = []
        self._opening = LoopLock()
        self._timer: asyncio.TimerHandle | None = None
        self._extending: asyncio.Task[None] | None = None

    def hold(self, catch_up: Callable[[int], Awaitable[None]], *, briefly: bool = False) -> Holding:
        """Return a context in which this is the session's writer in the store.

        *catch_up* is called with the number of stored messages. Entering raises `SessionBusyError`
        while another writer's lease lasts. A *briefly* held lease, for one append, is not
        extended: if it ends early, the epoch check at the commit still refuses a stale append.
        """
        return Holding(self, catch_up, briefly=briefly)

    async def enter(self, catch_up: Callable[[int], Awaitable[None]], *, briefly: bool) -> None:
        """Add the running task to the users; the first user opens the session."""
        async with self._opening.current():
            self._users = [user for user in self._users if _works(user)]
            if not self._users:
                await self._open(catch_up)
            if self._timer is None and not briefly:
                self._extend_later()
            self._users.append(asyncio.current_task())

    async def leave(self, user: asyncio.Task[Any] | None, *, in_loop: bool) -> None:
        """Remove *user*; the last user releases the lease, if its loop still runs."""
        if user in self._users:
            self._users.remove(user)
        if in_loop and not self._users:
            await self._give_back()

    @property
    def is_overdue(self) -> bool:
        """Whether the lease has expired, so that another writer may have opened the session."""
        # Not the monotonic clock, which may stop while the machine sleeps.
        return time.time() >= self._until

    async def append(self, request: AppendRequest, length: int) -> None:
        """Append *request* after *length* messages; when cancelled, first wait for the outcome.

        The request was written if this returns or raises `CancelledError`; otherwise it was not.
        """
        request = replace(request, at=Position(self._epoch, length))
        if not self._store.durable:
            await self._append(request)  # There is nothing to wait for.
            return
        append = partial(self._append, request)
        errors: list[Exception] = []
        try:
            await shield_until_done(partial(_noting, append, errors))
        finally:
            if errors:
                raise errors[0]

    async def _append(self, request: AppendRequest) -> None:
        position, cancelled = request.at or Position(0, 0), None
        length = position.length + len(request.messages)
        while True:
            requests = _cancellations()
            try:
                await self._store.append(self._session_id, request)
                break
            except asyncio.CancelledError as error:
                if _cancellations() == requests:
                    raise StoreError(self._session_id, "the store cancelled its append") from error
                # It may be written now or later; the position keeps it from being written twice.
                cancelled = error
            except SessionBusyError as error:
                if cancelled is None or (error.epoch, error.length) != (position.epoch, length):
                    raise
                break
        if cancelled is not None:
            raise cancelled

    async def _open(self, catch_up: Callable[[int], Awaitable[None]]) -> None:
        until = time.time() + self._lease
        try:
            stands = await self._store.open_session(self._session_id, self._holder, self._lease)
            await catch_up(stands.length)
        except SessionBusyError:
            raise
        except BaseException:
            await self._give_back()
            raise
        self._epoch, self._until = stands.epoch, until

    def _extend_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._lease / 3, self._extend_now)

    def _extend_now(self) -> None:
        self._extending = asyncio.ensure_future(self._let_last(self._lease))
        self._extend_later()

    async def _give_back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._store.durable:
            await shield_until_done(partial(self._let_last, 0))
        else:
            await self._let_last(0)  # There is nothing to wait for.

    async def _let_last(self, seconds: float) -> None:
        until = time.time() + seconds
        try:
            await self._store.extend_lease(self._session_id, self._holder, seconds)
            if not self.is_overdue:  # An expired lease may belong to another writer by now.
                self._until = until
        except ToolbusError as error:
            logger.debug("the lease of session %r was not set: %s", self._session_id, error)


class Holding:
    """The context in which a task is a user of *writer*."""

    __slots__ = ("_briefly", "_catch_up", "_user", "_writer")

    def __init__(
        self, writer: Writer, catch_up: Callable[[int], Awaitable[None]], *, briefly: bool
    ) -> None:
        self._writer, self._catch_up, self._briefly = writer, catch_up, briefly

    async def __aenter__(self) -> None:
        self._user = asyncio.current_task()
        await self._writer.enter(self._catch_up, briefly=self._briefly)

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        # A coroutine that was closed has no loop to wait in.
        await self._writer.leave(self._user, in_loop=not isinstance(error, GeneratorExit))


def _works(task: asyncio.Task[Any] | None) -> bool:
    """Return whether *task* can still end: not if its loop is closed."""
    return task is not None and not (task.done() or task.get_loop().is_closed())


async def _noting(work: Callable[[], Awaitable[None]], errors: list[Exception]) -> None:
    """Do *work*; add its error to *errors*, since a cancellation would hide it."""
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - the caller raises it
        errors.append(error)


def _cancellations() -> int:
    """Return the number of pending cancellations of the running task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
