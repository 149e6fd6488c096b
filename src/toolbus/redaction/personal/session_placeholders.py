"""What stands for personal data: the same for the same value, in one session."""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import blake2b
from secrets import token_bytes
from threading import Lock
from typing import TYPE_CHECKING

from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_SESSIONS = 1_000
_WRITTEN = re.compile(r"\[([a-z]+(?:-[a-z]+)*)-([0-9]{1,9})\]")


class SessionPlaceholders:
    """Numbers the values of one session, by kind, without keeping any of them."""

    suffix = ""

    def __init__(self, key: bytes) -> None:
        self._key, self._numbered = key, dict[tuple[str, bytes], int]()
        self.numbers: dict[str, int] = {}
        self.lock, self._counting = LoopLock(), Lock()

    def of(self, kind: str, value: str) -> str:
        """Return what stands for *value*: `[email-1]`."""
        digest = blake2b(value.encode(errors="replace"), key=self._key, digest_size=16).digest()
        with self._counting:
            number = self._numbered.get((kind, digest))
            if number is None:
                number = self.numbers.get(kind, 0) + 1
                self.numbers[kind] = self._numbered[kind, digest] = number
        return f"[{kind}-{number}]"

    def undo(self, numbers: Mapping[str, int]) -> None:
        """Forget the values whose numbers are higher than *numbers* say."""
        with self._counting:
            for (kind, digest), number in tuple(self._numbered.items()):
                if number > numbers.get(kind, 0):
                    del self._numbered[kind, digest]
            self.numbers = dict(numbers)

    def resume(self, texts: Iterable[str]) -> None:
        """Let numbers go on after those in *texts*, which nobody can tell the values of."""
        with self._counting:
            for text in texts:
                for match in _WRITTEN.finditer(text):
                    self.numbers[match[1]] = max(self.numbers.get(match[1], 0), int(match[2]))


class Placeholders:
    """The placeholders of each session.

    Of more than 1,000 sessions the one that was not asked for longest is forgotten.
    """

    def __init__(self) -> None:
        self._key = token_bytes(32)
        self._sessions: OrderedDict[str, SessionPlaceholders] = OrderedDict()
        self._lock = Lock()

    def session(self, session_id: str) -> SessionPlaceholders:
        """Return those of one session."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = SessionPlaceholders(self._key)
            self._sessions.move_to_end(session_id)
            while len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def resume(self, session_id: str, texts: Iterable[str]) -> None:
        """Let the numbers of a session that is not known yet go on after those in *texts*."""
        if session_id not in self._sessions:
            self.session(session_id).resume(texts)
