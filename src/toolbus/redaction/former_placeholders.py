"""Placeholders of toolbus 0.3, `[github-pat-1-x7k2m5]` and `[email-1]`, in sessions that go on.

Such a session keeps the highest number of each kind, the suffix of its placeholders for secrets,
and numbers beside digests of the values: `{"numbers": …, "suffix": …, "values": …}`. None is given
any more; those that its model has read are denied, filled and unquoted like any other.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from toolbus.redaction.placeholders import KIND, NUMBER, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.components.state import State

# Brackets may be escaped, as in an address or an expression; six random letters need none.
_OPEN, _CLOSE = r"(?:\[|%5[Bb])", r"\\?(?:\]|%5[Dd])"
LIKELY = re.compile(rf"[a-z0-9]-{NUMBER}(?:-{SUFFIX}|{_CLOSE})")
"""The end of a text that may be such a placeholder."""

_WHOLE = re.compile(rf"\[({KIND})-({NUMBER})-({SUFFIX})\]")


class FormerPlaceholders:
    """The placeholders that 0.3 gave in a session, by the JSON that is *stored* for it."""

    def __init__(self, stored: Any, find_key: Callable[[], bytes | None]) -> None:
        fields = stored if isinstance(stored, Mapping) else {}
        self._numbers = {
            kind: number
            for kind, number in _items(fields.get("numbers"))
            if type(number) is int and number > 0 and re.fullmatch(KIND, kind)
        }
        suffix = fields.get("suffix")
        self.suffix = suffix if isinstance(suffix, str) and re.fullmatch(SUFFIX, suffix) else ""
        self._values, self._find_key = fields.get("values"), find_key
        # The longest first: one kind may end as another one is called.
        names = sorted(map(re.escape, self._numbers), key=len, reverse=True)
        named = rf"({'|'.join(names) or '(?!)'})-({NUMBER})"
        whole = f"{named}-{self.suffix}" if self.suffix else f"{_OPEN}{named}{_CLOSE}"
        self._pattern = re.compile(whole)

    def find(self, text: str) -> str | None:
        """Return how the first of them in *text* is shown, or None."""
        for match in self._pattern.finditer(text):
            if int(match[2]) <= self._numbers[match[1]]:
                # In a denial, which is a result, a suffix would be taken for a quotation.
                return f"[{match[1]}-{match[2]}{'-…' if self.suffix else ''}]"
        return None

    def value_of(self, placeholder: str, values: Iterable[str]) -> str | None:
        """Return which of *values* the *placeholder* of a secret stood for, or None."""
        match = _WHOLE.fullmatch(placeholder)
        if match is None or match[3] != self.suffix:
            return None
        of_kind = dict(_items(dict(_items(self._values)).get(match[1])))
        digests = {digest for digest, number in of_kind.items() if number == int(match[2])}
        if not digests or (key := self._find_key()) is None:
            return None
        return next((value for value in values if _digest(value, key) in digests), None)


async def former_placeholders(state: State | None) -> FormerPlaceholders:
    """Return those of the session of *state*; raises `StoreError`."""
    if state is None:
        return FormerPlaceholders(None, lambda: None)
    return FormerPlaceholders(await state.read(), state.digest_key)


def _digest(value: str, key: bytes) -> str:
    data = f"value:{value}".encode(errors="surrogatepass")
    digest = blake2b(data, key=key, digest_size=16).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, Mapping) else ()
