"""What is known of the secrets of one session: their placeholders, and the way back."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from toolbus.redaction.secrets.engine import REACH, Engine
from toolbus.redaction.secrets.forms import LONGEST, expression
from toolbus.redaction.secrets.heuristics import is_telling
from toolbus.redaction.secrets.rules import Rule
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.redaction.secrets.engine import Hit

MAX_SECRETS, MAX_CHARS, MAX_SESSIONS = 256, 65_536, 256
"""Secrets and letters of them that are kept for a session, and sessions; the oldest are let go."""

_TAKEN, _STREAMS = 10_000, 16
_BATCH, _BATCH_CHARS, _CHUNK = 32, 2_048, 1_024
_PLACEHOLDER = re.compile(r"\[[a-z0-9][a-z0-9-]{0,79}-[1-9]\d{0,8}\]")


class Secret(NamedTuple):
    """What stands for a value; if it is telling, its pieces, each in the batch that it is in."""

    placeholder: str
    chunks: tuple[tuple[int, str], ...] = ()


class SecretRegistry:
    """The secrets of one session, of which the latest are kept."""

    def __init__(self) -> None:
        self._secrets: OrderedDict[str, Secret] = OrderedDict()
        self._values: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.lock = LoopLock()
        self._taken: OrderedDict[str, None] = OrderedDict()
        self._chars = 0
        # A filter of hundreds is slow, and each new secret would make all of it anew.
        self._batches: dict[int, dict[str, Rule]] = {}
        self._engines: dict[int, Engine] = {}
        self._tails: OrderedDict[str, str] = OrderedDict()
        self.noted = False

    def __len__(self) -> int:
        return len(self._secrets)

    def knows(self) -> bool:
        """Tell whether there is anything to be found."""
        return bool(self._batches)

    def find(self, data: bytes, check: Callable[[], None]) -> Iterator[Hit]:
        """Give where telling secrets stand in *data*, in any form; the rule is the placeholder."""
        for number, batch in self._batches.items():
            if number not in self._engines:
                reach = max(REACH, LONGEST * max(map(len, batch)))
                self._engines[number] = Engine(tuple(batch.values()), reach)
            yield from self._engines[number].find(data, check)

    def note(self, text: str) -> None:
        """Remember what *text* calls a placeholder and is none of ours: that name is taken."""
        if "[" not in text:
            return
        for match in _PLACEHOLDER.findall(text):
            if match not in self._values:
                self._taken[match] = None
        while len(self._taken) > _TAKEN:
            self._taken.popitem(last=False)

    def placeholder(self, value: str, rule: str, also: str | None = None) -> str:
        """Return what stands for *value*, which *rule* found: always the same.

        It stands for *also* as well, which may be the same value written in another way.
        """
        if (secret := self._secrets.get(value)) is not None:
            self._secrets.move_to_end(value)
            return secret.placeholder
        placeholder = self._new(rule)
        self._values[placeholder] = value
        for form in (value,) if also is None or also in self._secrets else (value, also):
            chunks = self._enter_all(form, placeholder) if is_telling(form) else ()
            self._secrets[form] = Secret(placeholder, chunks)
            self._chars += len(form)
        return placeholder

    def shrink(self) -> None:
        """Let the oldest secrets go until no more is kept than may be."""
        while len(self._secrets) > MAX_SECRETS or self._chars > MAX_CHARS:
            self._forget(next(iter(self._secrets)))

    def undo(self, numbers: Mapping[str, int]) -> None:
        """Forget the secrets whose placeholders have higher numbers than *numbers* say."""
        for value, secret in tuple(self._secrets.items()):
            rule, _, number = secret.placeholder.strip("[]").rpartition("-")
            if int(number) > numbers.get(rule, 0):
                self._forget(value)
        self.numbers = dict(numbers)

    def restored(self, text: str) -> str:
        """Return *text* with the values in place of their placeholders."""
        if "[" not in text:
            return text
        return _PLACEHOLDER.sub(lambda match: self._values.get(match[0], match[0]), text)

    def tail(self, stream: str) -> str:
        """Return what the latest text of *stream* ended with."""
        return self._tails.get(stream, "")

    def follow(self, stream: str, tail: str) -> None:
        """Remember what the latest text of *stream* ended with."""
        self._tails[stream] = tail
        self._tails.move_to_end(stream)
        while len(self._tails) > _STREAMS:
            self._tails.popitem(last=False)

    def _forget(self, value: str) -> None:
        secret = self._secrets.pop(value)
        self._values.pop(secret.placeholder, None)
        self._chars -= len(value)
        for batch, chunk in secret.chunks:
            self._batches[batch].pop(chunk, None)
            self._engines.pop(batch, None)
            if not self._batches[batch]:
                del self._batches[batch]

    def _new(self, rule: str) -> str:
        number = self.numbers.get(rule, 0) + 1
        while f"[{rule}-{number}]" in self._taken:
            number += 1
        self.numbers[rule] = number
        return f"[{rule}-{number}]"

    def _enter_all(self, value: str, placeholder: str) -> tuple[tuple[int, str], ...]:
        """Enter *value*, in pieces if it is long; return the batch of each piece."""
        # The last piece is none by itself: it could be of one letter.
        cuts = range(0, max(len(value) - _CHUNK // 2, 1), _CHUNK)
        chunks = [value[start : start + _CHUNK] for start in cuts[:-1]] + [value[cuts[-1] :]]
        return tuple([(self._enter(chunk, placeholder), chunk) for chunk in chunks])

    def _enter(self, chunk: str, placeholder: str) -> int:
        number = max(self._batches, default=0)
        batch = self._batches.get(number, {})
        if len(batch) >= _BATCH or sum(map(len, batch)) + len(chunk) > _BATCH_CHARS:
            number += 1
        rule = Rule(placeholder, expression(chunk), foreign=True)
        self._batches.setdefault(number, {})[chunk] = rule
        self._engines.pop(number, None)
        return number


class SessionRegistries:
    """A registry for each session; the sessions that spoke last have one."""

    def __init__(self) -> None:
        self._registries: OrderedDict[str, SecretRegistry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._registries)

    def of(self, session: str) -> SecretRegistry:
        """Return the registry of *session*, a new one if it has none."""
        registry = self._registries.setdefault(session, SecretRegistry())
        self._registries.move_to_end(session)
        while len(self._registries) > MAX_SESSIONS:
            self._registries.popitem(last=False)
        return registry


def without_placeholders(text: str) -> str:
    """Return *text* without all that looks like a placeholder."""
    return _PLACEHOLDER.sub("", text) if "[" in text else text
