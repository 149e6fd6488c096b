"""What is known of the secrets of one session: their placeholders, and the way back."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from toolbus.secrets.engine import compiled
from toolbus.secrets.forms import expression
from toolbus.secrets.judging import is_telling

if TYPE_CHECKING:
    import re2

KEPT, KEPT_BYTES, SESSIONS = 256, 262_144, 256
"""Secrets and bytes of them that are kept for a session, and sessions; the oldest are let go."""

_TAKEN = 10_000
_PLACEHOLDER = re.compile(r"\[[a-z0-9][a-z0-9-]{0,79}-[1-9]\d{0,8}\]")


class Secret(NamedTuple):
    """A *value*, what stands for it, and what finds all its forms if it is telling."""

    value: str
    placeholder: str
    pattern: re2.Pattern | None


class Book:
    """The secrets of one session, of which the latest are kept."""

    def __init__(self) -> None:
        self._secrets: OrderedDict[str, Secret] = OrderedDict()
        self._numbers: dict[str, int] = {}
        self._taken: OrderedDict[str, None] = OrderedDict()
        self._own: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0
        self._known: re2.Pattern | None = None
        self._stale = False
        self.noted = False
        self.tails: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._secrets)

    @property
    def known(self) -> re2.Pattern | None:
        """An expression for every telling secret in every form; None if there is none."""
        if self._stale:
            telling = self._telling()
            joined = "|".join([f"(?:{one.pattern.pattern})" for one in telling])
            self._known = compiled(joined) if telling else None
            self._stale = False
        return self._known

    def named(self, form: bytes) -> str:
        """Return what stands for the secret of which *form* is one."""
        text = form.decode(errors="replace")
        if (secret := self._secrets.get(text)) is not None:
            return secret.placeholder
        for one in self._telling():
            if one.pattern.fullmatch(form):
                return one.placeholder
        return "[withheld]"

    def note(self, text: str) -> None:
        """Remember what *text* calls a placeholder and is none of ours: that name is taken."""
        if "[" not in text:
            return
        for found in _PLACEHOLDER.findall(text):
            if found not in self._own:
                self._taken[found] = None
        while len(self._taken) > _TAKEN:
            self._taken.popitem(last=False)

    def placeholder(self, value: str, rule: str) -> str:
        """Return what stands for *value*, which *rule* found: always the same."""
        if (secret := self._secrets.get(value)) is not None:
            self._secrets.move_to_end(value)
            return secret.placeholder
        placeholder = self._new(rule)
        pattern = compiled(expression(value)) if is_telling(value) else None
        self._secrets[value] = Secret(value, placeholder, pattern)
        self._own[placeholder] = value
        self._bytes += len(value)
        self._stale = self._stale or pattern is not None
        return placeholder

    def shrink(self) -> None:
        """Let the oldest secrets go until no more is kept than may be."""
        while len(self._secrets) > KEPT or self._bytes > KEPT_BYTES:
            value, secret = self._secrets.popitem(last=False)
            self._own.pop(secret.placeholder, None)
            # It stands in the session's texts for what is forgotten, and never for another.
            self._taken[secret.placeholder] = None
            self._bytes -= len(value)
            self._stale = True

    def restored(self, text: str) -> str:
        """Return *text* with the values in place of their placeholders."""
        if "[" not in text:
            return text
        return _PLACEHOLDER.sub(lambda found: self._own.get(found[0], found[0]), text)

    def _new(self, rule: str) -> str:
        number = self._numbers.get(rule, 0) + 1
        while f"[{rule}-{number}]" in self._taken:
            number += 1
        self._numbers[rule] = number
        return f"[{rule}-{number}]"

    def _telling(self) -> list[Secret]:
        """Return the secrets that have a pattern; the longer first, as one may hold another."""
        telling = [one for one in self._secrets.values() if one.pattern is not None]
        return sorted(telling, key=lambda one: -len(one.value))


class Books:
    """A book for each session; the sessions that spoke last have one."""

    def __init__(self) -> None:
        self._books: OrderedDict[str, Book] = OrderedDict()

    def __len__(self) -> int:
        return len(self._books)

    def of(self, session: str) -> Book:
        """Return the book of *session*, a new one if it has none."""
        book = self._books.setdefault(session, Book())
        self._books.move_to_end(session)
        while len(self._books) > SESSIONS:
            self._books.popitem(last=False)
        return book


def without_placeholders(text: str) -> str:
    """Return *text* without all that looks like a placeholder."""
    return _PLACEHOLDER.sub("", text) if "[" in text else text
