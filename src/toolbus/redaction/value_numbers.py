"""The numbers that values of one session have, by kind; nothing here holds a value.

A value is known by its digest with a key that all processes of a user have in common
(`toolbus.settings.user_key`). What is kept for the session is that digest beside the number.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_STORED, MAX_KNOWN = 2_048, 16_384
"""Values of a session that other processes know again, and that this one does; the oldest go."""

_DIGEST_BYTES = 16
_KIND = re.compile("[a-z0-9][a-z0-9-]{0,79}")


class ValueNumber(NamedTuple):
    """The *number* of a value among those of its *kind*."""

    kind: str
    number: int


class ValueNumbers:
    """The numbers of one session; *highest* is that of each kind.

    *fresh* are those that were given since `begin`, by the digests of their values, and *aliases*
    digests of the same values in another form: they have no numbers of their own.
    """

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        self.fresh: dict[str, ValueNumber] = {}
        self.aliases: dict[str, str] = {}
        self._known: dict[str, ValueNumber] = {}
        self._find_key: Callable[[], bytes | None] | None = None
        self._key, self.lasts = b"", False

    def begin(self, find_key: Callable[[], bytes | None] | None) -> None:
        """Begin to give numbers; *find_key* gives the key if there is one that lasts.

        It is asked for with the first value.
        """
        self._find_key = find_key
        self._settle()

    def of(self, kind: str, value: str, also: str | None = None) -> ValueNumber:
        """Return the number of *value*, the next one of *kind* if it has none yet.

        *also* is the same value in another form. *value* is to say what it is a value of: it is
        one whatever its *kind*.
        """
        digest = self._digest(value)
        known = self._known.get(digest)
        if known is not None:
            return known
        number = self.highest[kind] = self.highest.get(kind, 0) + 1
        known = self._known[digest] = self.fresh[digest] = ValueNumber(kind, number)
        if also is not None and (alias := self._digest(also)) not in self._known:
            self._known[alias], self.aliases[alias] = known, digest
        return known

    def undo(self, highest: Mapping[str, int]) -> None:
        """Forget the values whose numbers are higher than *highest* say."""
        for digest, (kind, number) in tuple(self._known.items()):
            if number > highest.get(kind, 0):
                del self._known[digest]
        self.highest = dict(highest)
        self.fresh, self.aliases = {}, {}

    def learn(self, known: Mapping[str, ValueNumber]) -> None:
        """Take over *known*, which all processes of the session agree on."""
        self._known.update(known)

    def _settle(self) -> None:
        """Forget the oldest values beyond those that are known; not while numbers are agreed on."""
        self.fresh, self.aliases = {}, {}
        if (surplus := len(self._known) - MAX_KNOWN) > 0:
            for digest in [*self._known][:surplus]:
                del self._known[digest]

    def _digest(self, value: str) -> str:
        if not self._key:
            key = None if self._find_key is None else self._find_key()
            self._key, self.lasts = key or token_bytes(32), key is not None
        data = value.encode(errors="surrogatepass")
        digest = blake2b(data, key=self._key, digest_size=_DIGEST_BYTES).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()


def stored_form(known: Mapping[str, ValueNumber]) -> dict[str, dict[str, int]]:
    """Return the numbers in *known* by kind and digest, at most `MAX_STORED`: the highest.

    A flood of one kind takes the place of its own kind first, and not of the others.
    """
    by_kind: dict[str, dict[str, int]] = {}
    for digest, (kind, number) in known.items():
        by_kind.setdefault(kind, {})[digest] = number
    limit = _limit_of_each(map(len, by_kind.values()))
    for kind, numbers in by_kind.items():
        if len(numbers) > limit:
            latest = sorted(numbers.items(), key=lambda item: item[1])[len(numbers) - limit :]
            by_kind[kind] = dict(latest)
    return {kind: numbers for kind, numbers in by_kind.items() if numbers}


def known_in(stored: Any, highest: Mapping[str, int]) -> dict[str, ValueNumber]:
    """Return what `stored_form` made, as far as *stored* is that: no number above *highest*."""
    known = dict[str, ValueNumber]()
    for kind, numbers in stored.items() if isinstance(stored, Mapping) else ():
        if not _KIND.fullmatch(kind):
            continue  # It would be read by the model, as a part of a placeholder.
        for digest, number in numbers.items() if isinstance(numbers, Mapping) else ():
            if type(number) is int and 0 < number <= highest.get(kind, 0):
                known[digest] = ValueNumber(kind, number)
    return known


def _limit_of_each(sizes: Iterable[int]) -> int:
    """Return how many there may be of each of several kinds of *sizes*, `MAX_STORED` in all."""
    remaining, smallest = MAX_STORED, sorted(sizes)
    while smallest:
        share = remaining // len(smallest)
        if smallest[0] > share:
            return share
        remaining -= smallest.pop(0)
    return MAX_STORED
