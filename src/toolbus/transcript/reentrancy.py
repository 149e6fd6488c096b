"""The turn of an append; from inside another one it would wait for itself, and is refused."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from toolbus.errors import AppendError
from toolbus.tasks.loops import give_back

if TYPE_CHECKING:
    import asyncio
    from contextvars import Token

    from toolbus.tasks.loops import LoopLock
    from toolbus.transcript.transcript import Transcript


class AppendTurn:
    """A context in which an append has its turn in *transcript*, behind its *lock*.

    Raises `AppendError` inside another turn of the same transcript, which would wait for itself.
    """

    __slots__ = ("_lasts", "_lock", "_outer", "_token", "_transcript")

    _token: Token[AppendTurn | None]

    def __init__(self, transcript: Transcript, lock: LoopLock) -> None:
        self._transcript, self._lasts = transcript, True
        self._lock: asyncio.Lock = lock.here()
        self._outer = APPENDING.get()

    async def __aenter__(self) -> None:
        if self._outer is not None and self._outer.holds(self._transcript):
            reason = "from inside one of its own dispatches it waits for itself; "
            raise AppendError(self._transcript.session_id, reason + "use `agent.enqueue(message)`")
        await self._lock.acquire()
        self._token = APPENDING.set(self)

    async def __aexit__(self, *_: object) -> None:
        self._lasts = False
        give_back(APPENDING, self._token)
        self._lock.release()

    def holds(self, transcript: Transcript) -> bool:
        """Return whether *transcript* is being appended to, here or further out."""
        if self._lasts and self._transcript is transcript:
            return True
        return self._outer is not None and self._outer.holds(transcript)


APPENDING: ContextVar[AppendTurn | None] = ContextVar("toolbus_appending", default=None)
"""The turn that this very context is inside of."""
