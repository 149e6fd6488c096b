"""What stands for secrets: `[github-pat-1-x7k2m5]`, of a rule, a number and a session's suffix.

The suffix is random, so nobody who never read a session can write what stands for its secrets.
"""

from __future__ import annotations

import re
from os import urandom
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LETTERS, _DIGITS, _SUFFIX_LENGTH = "abcdefghijklmnopqrstuvwxyz", "234567", 6
_SUFFIX = re.compile(r"[a-z][a-z2-7]{5}")
_KIND = r"[a-z0-9][a-z0-9-]{0,79}-[1-9]\d{0,8}"
_PLACEHOLDER = re.compile(rf"\[({_KIND})-([a-z][a-z2-7]{{5}})\]")
# Former versions had none, and an evened text has none.
_WITH_OR_WITHOUT = re.compile(rf"\[{_KIND}(?:-[a-z][a-z2-7]{{5}})?\]")
_IN_BYTES = re.compile(_PLACEHOLDER.pattern.encode())


class Placeholder(NamedTuple):
    """What stands for the secret with *number* of those that *rule* found in a session."""

    rule: str
    number: int
    suffix: str

    def __str__(self) -> str:
        return f"[{self.rule}-{self.number}-{self.suffix}]"


def new_suffix() -> str:
    """Return a random suffix: six of `a-z2-7`."""
    # A letter first: digits behind a number would look like a phone's or a card's.
    first, *rest = urandom(_SUFFIX_LENGTH)
    letters = _LETTERS + _DIGITS
    return _LETTERS[first % len(_LETTERS)] + "".join(
        [letters[byte % len(letters)] for byte in rest]
    )


def is_suffix(value: object) -> bool:
    """Tell whether *value* is a suffix, as `new_suffix` makes them."""
    return isinstance(value, str) and _SUFFIX.fullmatch(value) is not None


def evened(text: str) -> str:
    """Return *text* without the suffixes of its placeholders: the same for each session."""
    return _PLACEHOLDER.sub(r"[\1]", text) if "[" in text else text


def without_placeholders(text: str) -> str:
    """Return *text* without all that looks like a placeholder."""
    return _WITH_OR_WITHOUT.sub("", text) if "[" in text else text


def placeholders_in(text: str) -> list[str]:
    """Return what looks like a placeholder in *text*, in order."""
    return [match[0] for match in _PLACEHOLDER.finditer(text)] if "[" in text else []


def placeholder_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Give where something that looks like a placeholder stands in *data*, UTF-8."""
    return (match.span() for match in _IN_BYTES.finditer(data))


def restored(text: str, value: Callable[[str], str | None]) -> str:
    """Return *text* with what *value* gives for a placeholder; what it gives None for stays."""
    if "[" not in text:
        return text
    return _PLACEHOLDER.sub(lambda match: value(match[0]) or match[0], text)
