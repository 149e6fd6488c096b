"""Labels of texts: who said a text, whether its source is trusted, and what it holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNTRUSTED, UNKNOWN, PRIVATE = "untrusted", "unknown", "private"
_TRUSTED, _BETWEEN = "trusted", " · "
_LINE = re.compile(
    r"(trusted|untrusted|unknown) · (person|system|model|tool|agent|unknown)"
    r"(?: ([^\s·]+)(?: of ([^\s·]+))?)?((?: · [^\s·]+)*)"
)


class Label(Struct, frozen=True, kw_only=True):
    """The label of a text, said by *speaker*, a tool or agent *name*, of *server*.

    The speaker is a person, system, model, tool or agent, or unknown. Unless *is_trusted*, a
    stranger may have written the text. *holds* names what it holds: the kinds of values that
    redaction found, and "private" by a setting. *is_known* is False if a part of its sources was
    not seen; then it is not trusted.

    >>> Label(speaker="tool", name="web_fetch", holds=frozenset({"private"})).text
    'untrusted · tool web_fetch · private'
    """

    speaker: str
    name: str = ""
    server: str = ""
    is_trusted: bool = False
    is_known: bool = True
    holds: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The label in the words of rules: "untrusted", "unknown" and what the text holds."""
        doubts = [] if self.is_trusted and self.is_known else [UNTRUSTED]
        return frozenset([*doubts, *([] if self.is_known else [UNKNOWN]), *self.holds])

    def lowers(self, other: Label) -> bool:
        """Return whether *other* joined with this label is another one; without a copy."""
        is_lower = self.is_trusted < other.is_trusted or self.is_known < other.is_known
        return is_lower or not self.holds <= other.holds

    def joined(self, others: Iterable[Label]) -> Label:
        """Return this label with the doubts of all *others*, and with all that they hold."""
        is_trusted, is_known, holds = self.is_trusted, self.is_known, self.holds
        for other in others:
            is_trusted, is_known = is_trusted and other.is_trusted, is_known and other.is_known
            if not other.holds <= holds:
                holds |= other.holds
        is_trusted = is_trusted and is_known
        if (is_trusted, is_known, holds) == (self.is_trusted, self.is_known, self.holds):
            return self
        return replace(self, is_trusted=is_trusted, is_known=is_known, holds=holds)

    @property
    def text(self) -> str:
        """The label as one line, for the ledger and for people."""
        trust = UNKNOWN if not self.is_known else _TRUSTED if self.is_trusted else UNTRUSTED
        words = f"{self.speaker} {_word(self.name)}" if self.name else self.speaker
        if self.name and self.server:
            words = f"{words} of {_word(self.server)}"
        return _BETWEEN.join([trust, words, *map(_word, sorted(self.holds))])


UNSEEN = Label(speaker="unknown", is_known=False)
"""The label of a text whose source is unknown."""


def read_label(text: str) -> Label:
    """Return the label of a line; `UNSEEN` for a text that no label has."""
    if (match := _LINE.fullmatch(text)) is None:
        return UNSEEN
    trust, speaker, name, server, holds = match.groups("")
    return Label(
        speaker=speaker,
        name=unquote(name),
        server=unquote(server),
        is_trusted=trust == _TRUSTED,
        is_known=trust != UNKNOWN,
        holds=frozenset(map(unquote, holds.split(_BETWEEN)[1:])),
    )


def _word(name: str) -> str:
    """Return *name* without the signs that separate the parts of a line."""
    return name if name.isascii() and name.isidentifier() else quote(name, safe="/:@,+")


def strings_of(value: Any) -> Iterator[str]:
    """Yield the strings of the frozen JSON *value*, with the names of members."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case tuple() as items:
                waiting += reversed(items)
            case dict() as members:
                waiting += [each for member in reversed(members.items()) for each in member[::-1]]
