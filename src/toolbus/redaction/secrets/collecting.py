"""The texts of a record, gathered before any of them is examined."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from toolbus.messages.codec import encode
from toolbus.messages.immutable import FrozenDict
from toolbus.messages.text_walker import TextVisitor, rewrite_json
from toolbus.redaction.encoded import EncodedText, encoded_texts
from toolbus.redaction.limits import UnexaminedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_ENCODED = 10_000
_LONG = 4_096


class SecretVisitor(TextVisitor):
    """Goes into all base64 data, whatever type that claims to have."""

    def reads(self, _mime_type: str | None, /) -> bool:
        """Return True: a key file has no type that says so."""
        return True


class Collector(SecretVisitor):
    """Gathers the texts of a record, each once, and changes nothing.

    Raises `UnexaminedError` for more than *max_chars* letters in all.
    """

    def __init__(self, max_chars: int) -> None:
        self._max_chars, self.chars, self._encoded_count = max_chars, 0, 0
        self.groups: dict[tuple[str, ...], None] = {}
        """Texts that follow each other; one that stands alone is a group of its own."""
        self.values: dict[str, Any] = {}
        """JSON values, by what they are in JSON."""
        self.encoded: dict[str, tuple[EncodedText, ...]] = {}
        """The texts that stand encoded in another one."""

    def texts(self, adjoining: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Gather *adjoining* texts."""
        self._count(sum(map(len, adjoining)))
        self.groups[adjoining] = None
        for text in adjoining:
            self._gather_encoded(text)
        return adjoining

    def json(self, value: Any) -> Any:
        """Gather *value*, whose keys tell what its values are."""
        if isinstance(value, str):
            self.texts((value,))
        elif value is not None and value not in ((), {}):
            encoded = encode(self._without_long(value)).decode()
            self._count(len(encoded))
            self.values[encoded] = value
            # Of most no text is one, and then none of its strings is.
            if next(encoded_texts(encoded.encode()), None) is not None:
                for group in strings(value):
                    for text in group:
                        self._gather_encoded(text)
        return value

    def _without_long(self, value: Any) -> Any:
        """Return *value* without its long texts, which are gathered by themselves.

        They are too long for a key to tell what they are, and stand in most results twice: as text
        as well. Those that adjoin others stay.
        """
        long = {group for group in strings(value) if len(group) == 1 and len(group[0]) > _LONG}
        if not long:
            return value
        for group in long:
            self.texts(group)
        return rewrite_json(value, lambda group, _: ("",) if group in long else group)

    def _gather_encoded(self, text: str) -> None:
        """Gather what stands in *text* in base64, as a text of its own: of that, no more."""
        if text in self.encoded:
            return
        inner = tuple(islice(encoded_texts(text.encode()), _MAX_ENCODED))
        if inner:
            self.encoded[text] = inner
            self.groups.update({(encoded.text,): None for encoded in inner})
            self._encoded_count += len(inner)
            if self._encoded_count >= _MAX_ENCODED:
                raise UnexaminedError(f"{_MAX_ENCODED:,} texts in it, or more, are encoded")

    def _count(self, chars: int) -> None:
        self.chars += chars
        if self.chars > self._max_chars:
            raise UnexaminedError(f"it is too large: more than {self._max_chars:,} characters")


def strings(value: Any) -> Iterator[tuple[str, ...]]:
    """Give the strings of the frozen JSON *value*, keys too; those of an array are adjoining."""
    pending = [value]
    while pending:
        item = pending.pop()
        if type(item) is str:
            yield (item,)
        elif type(item) is FrozenDict:
            for key in item:
                yield (key,)
            pending += item.values()
        elif type(item) is tuple:
            if len(item) > 1 and {*map(type, item)} == {str}:
                yield item
            else:
                pending += item


class TailVisitor(SecretVisitor):
    """Shows *visitor* the first texts behind *tail*, which went before them."""

    def __init__(self, visitor: TextVisitor, tail: str | None) -> None:
        self._visitor, self._tail, self.latest = visitor, tail, ""

    def json(self, value: Any) -> Any:
        """Show *value*, which no tail goes before."""
        return self._visitor.json(value)

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Show *texts*, the first of all behind the tail."""
        if not self._tail:
            self.latest = self.latest or texts[-1]
            return self._visitor.texts(texts)
        tail, self._tail, self.latest = self._tail, None, texts[-1]
        return self._visitor.texts((tail, *texts))[1:]
