"""An append from inside another one of the same transcript would wait for itself: it is refused."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from toolbus.errors import AppendError
from toolbus.tasks.loops import give_back

if TYPE_CHECKING:
    from contextvars import Token

    from toolbus.transcript.transcript import Transcript


class ReentrancyGuard:
    """Marks a context that appends to *transcript*: another append inside would wait for itself."""

    __slots__ = ("_lasts", "_outer", "_token", "_transcript")

    _token: Token[ReentrancyGuard | None]

    def __init__(self, transcript: Transcript, outer: ReentrancyGuard | None) -> None:
        self._transcript, self._outer, self._lasts = transcript, outer, True

    def __enter__(self) -> None:
        if self._outer is not None and self._outer.holds(self._transcript):
            reason = "from inside one of its own dispatches it waits for itself; "
            raise AppendError(self._transcript.session_id, reason + "use `agent.enqueue(message)`")
        self._token = APPENDING.set(self)

    def __exit__(self, *_: object) -> None:
        self._lasts = False
        give_back(APPENDING, self._token)

    def holds(self, transcript: Transcript) -> bool:
        """Tell whether *transcript* is being appended to, here or further out."""
        if self._lasts and self._transcript is transcript:
            return True
        return self._outer is not None and self._outer.holds(transcript)


APPENDING: ContextVar[ReentrancyGuard | None] = ContextVar("toolbus_appending", default=None)
"""The append that this very context is inside of."""
