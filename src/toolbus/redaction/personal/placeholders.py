"""What stands for personal data: the same for the same value, in one session."""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import blake2b
from secrets import token_bytes
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_SESSIONS = 1_000
_WRITTEN = re.compile(r"\[([a-z]+(?:-[a-z]+)*)-([0-9]{1,9})\]")


class Placeholders:
    """Numbers the values of each session and kind, without keeping any of them.

    Of more than 1,000 sessions the one that was not asked for longest is forgotten.
    """

    def __init__(self) -> None:
        self._key = token_bytes(32)
        self._numbers: OrderedDict[str, dict[tuple[str, bytes], int]] = OrderedDict()
        self._highest: dict[tuple[str, str], int] = {}
        self._lock = Lock()

    def of(self, session_id: str, kind: str, value: str) -> str:
        """Return what stands for *value*: `[email-1]`."""
        digest = blake2b(value.encode(errors="replace"), key=self._key, digest_size=16).digest()
        with self._lock:
            numbers = self._session(session_id)
            number = numbers.get((kind, digest))
            if number is None:
                number = self._highest.get((session_id, kind), 0) + 1
                self._highest[session_id, kind] = numbers[kind, digest] = number
        return f"[{kind}-{number}]"

    def resume(self, session_id: str, texts: Iterable[str]) -> None:
        """Let numbers go on after those in *texts*, which nobody can tell the values of."""
        with self._lock:
            if session_id in self._numbers:
                return
            self._session(session_id)
            for text in texts:
                for match in _WRITTEN.finditer(text):
                    key = session_id, match[1]
                    self._highest[key] = max(self._highest.get(key, 0), int(match[2]))

    def _session(self, session_id: str) -> dict[tuple[str, bytes], int]:
        numbers = self._numbers.setdefault(session_id, {})
        self._numbers.move_to_end(session_id)
        while len(self._numbers) > _MOST_SESSIONS:
            gone, _ = self._numbers.popitem(last=False)
            self._highest = {key: number for key, number in self._highest.items() if key[0] != gone}
        return numbers
