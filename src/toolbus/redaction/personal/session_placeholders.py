"""What stands for personal data: the same for the same value, in one session."""

from __future__ import annotations

import re
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from toolbus.redaction.value_numbers import ValueNumbers
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_SESSIONS = 1_000
_WRITTEN = re.compile(r"\[([a-z]+(?:-[a-z]+)*)-([0-9]{1,9})\]")


class SessionPlaceholders:
    """Numbers the values of one session, by kind, without keeping any of them."""

    def __init__(self) -> None:
        self.numbers, self.suffix = ValueNumbers(), ""
        self.lock, self._counting = LoopLock(), Lock()

    def of(self, kind: str, value: str) -> str:
        """Return what stands for *value*: `[email-1]`."""
        with self._counting:
            named = self.numbers.of(kind, f"{kind}:{value}")
        return f"[{named.kind}-{named.number}]"

    def undo(self, highest: Mapping[str, int]) -> None:
        """Forget the values whose numbers are higher than *highest* say."""
        with self._counting:
            self.numbers.undo(highest)

    def resume(self, texts: Iterable[str]) -> None:
        """Let numbers go on after those in *texts*, which nobody can tell the values of."""
        with self._counting:
            for text in texts:
                for match in _WRITTEN.finditer(text):
                    highest = self.numbers.highest
                    highest[match[1]] = max(highest.get(match[1], 0), int(match[2]))


class Placeholders:
    """The placeholders of each session.

    Of more than 1,000 sessions the one that was not asked for longest is forgotten.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, SessionPlaceholders] = OrderedDict()
        self._lock = Lock()

    def session(self, session_id: str) -> SessionPlaceholders:
        """Return those of one session."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = SessionPlaceholders()
            self._sessions.move_to_end(session_id)
            while len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def resume(self, session_id: str, texts: Iterable[str]) -> None:
        """Let the numbers of a session that is not known yet go on after those in *texts*."""
        if session_id not in self._sessions:
            self.session(session_id).resume(texts)
