"""The search for secrets that are known, in whatever form they stand."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING

from toolbus.redaction.secrets.engine import BLANK, REACH, Engine, known_places
from toolbus.redaction.secrets.rules import Rule
from toolbus.redaction.views import joined_views, views_to_end, without_line_breaks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.secrets.engine import Hit, Place, Spans

_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_SHORTEST = 8
_SIGN = re.compile(r"[^A-Za-z0-9_]")

LONGEST = 16
"""How many times as long as a value its longest form may be, more or less."""


def expression(value: str) -> str:
    """Return an expression, in RE2's syntax, for *value* in each of its forms.

    JSON may stand inside JSON, so any number of backslashes will do. Of base64 all three
    alignments are in it, each without the letters that depend on what stands beside the value.
    """
    data = value.encode()
    escaped = "".join([f"%{byte:02x}" for byte in data])
    return "|".join(
        [
            _SIGN.sub(_mixed, value),
            f"(?i:{escaped})",
            f"(?i:{data.hex()})",
            *[_armoured(core) for core in _cores(data)],
        ]
    )


def _mixed(sign: re.Match[str]) -> str:
    """Return *sign* as it stands, or escaped in one of the ways in which that is usual."""
    letter = sign[0]
    if letter == "-":
        return r"\-"
    codes = "".join([f"%{byte:02x}" for byte in letter.encode()])
    units = "".join([rf"\\+u{unit:04x}" for unit in _units(letter)])
    plain = [re.escape(letter), f"(?i:{codes})", f"(?i:{units})"]
    if letter in _ESCAPES:
        plain.append(rf"\\+{_ESCAPES[letter]}")
    elif letter in '/"\\':
        plain.append(rf"\\+{re.escape(letter)}")
    elif letter == " ":
        plain.append(r"\+")
    return f"(?:{'|'.join(plain)})"


def _units(text: str) -> list[int]:
    """Return *text* in UTF-16, which is what JSON escapes."""
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[index : index + 2]) for index in range(0, len(data), 2)]


def _cores(data: bytes) -> list[str]:
    """Return what is the same in the base64 of every text in which *data* stands."""
    cores = []
    for shift in range(3):
        # A letter tells six bits: those that begin in what stands before or end behind are cut.
        start = -(-8 * shift // 6)
        end = 8 * (shift + len(data)) // 6
        core = b64encode(bytes(shift) + data + bytes(3)).decode()[start:end]
        if len(core) >= _SHORTEST:
            cores.append(core)
    return cores


def _armoured(core: str) -> str:
    """Return an expression for base64 in either alphabet, which may be escaped itself."""
    either = {"+": r"(?:[+-]|%2[bB])", "/": r"(?:\\*/|_|%2[fF])"}
    return "".join([either.get(letter, letter) for letter in core])


_BATCH, _BATCH_CHARS, _CHUNK = 32, 2_048, 1_024

_MERGED, _MERGED_SIZE = 128, 56_000
"""Expressions in a batch that is complete, and letters of them: RE2's filter takes some 80,000."""

_HEAD, _LONGEST_WORD = 4, 512
"""Letters that values are told apart by, and how far back one without blanks may begin."""


class SecretSearch:
    """The expressions for telling secrets, in pieces if they are long."""

    def __init__(self) -> None:
        # Each new secret makes the engine of its batch anew, which takes its time, and looking by
        # each batch takes the same time, however large it is: so the last one is small.
        self._batches: dict[int, dict[str, Rule]] = {}
        self._engines: dict[int, Engine] = {}
        self._chunks: dict[str, tuple[str, ...]] = {}
        self.with_blank: set[str] = set()
        """Those with a blank or a backslash inside."""
        self._by_head: dict[bytes, list[bytes]] | None = None

    def open_value(self, data: bytes) -> int:
        """Return where in *data* a value begins that may go on behind its end, else its length.

        A line may break inside of the value, be it there or not in the value itself.
        """
        for view in (*views_to_end(data), *joined_views(data)):
            size = len(view.data)
            for start in self._heads_in(view.data):
                if not self._begins_value(view.data[start:]):
                    continue
                place = view.span(start, size)[0]
                # A few letters are the beginning of a value only if they stand alone.
                if size - start >= _HEAD or not data[max(place - 1, 0) : place].isalnum():
                    return place
        return len(data)

    def _begins_value(self, data: bytes) -> bool:
        """Return whether a value begins with *data*, and goes on."""
        return any(
            len(value) > len(data) and value.startswith(data)
            for value in self._values_by_head.get(data[:_HEAD], ())
        )

    def _heads_in(self, data: bytes) -> Iterator[int]:
        """Give where a value may begin that goes on at the end of *data*, in order."""
        # One without a blank can only begin in the last word.
        word = max(data.rfind(b" ") + 1, len(data) - _LONGEST_WORD)
        if heads := {re.escape(form.encode()[:_HEAD]) for form in self.with_blank}:
            # Each place, also one that another overlaps.
            pattern = re.compile(b"(?=" + b"|".join(sorted(heads)) + b")")
            yield from (match.start() for match in pattern.finditer(data, 0, word))
        yield from range(word, len(data))

    @property
    def _values_by_head(self) -> dict[bytes, list[bytes]]:
        """The values, as they are and with their lines joined, by each of their beginnings."""
        if self._by_head is None:
            self._by_head = {}
            for value in map(str.encode, self._chunks):
                for written in {value, without_line_breaks(value)}:
                    for size in range(1, _HEAD + 1):
                        self._by_head.setdefault(written[:size], []).append(written)
        return self._by_head

    def knows(self) -> bool:
        """Tell whether there is anything to be found."""
        return bool(self._batches)

    def find(self, data: bytes, spans: Spans | None = None) -> Iterator[Hit | None]:
        """Give where secrets stand in *data*, in any form; the rule is the placeholder.

        It is looked at, and None is given between, as in `Engine.find`.
        """
        # Whoever has a turn in between may add and remove some.
        for number, batch in tuple(self._batches.items()):
            if number not in self._engines:
                reach = max(REACH, LONGEST * max(map(len, batch)))
                self._engines[number] = Engine(tuple(batch.values()), reach)
            names = {rule.name for rule in batch.values()}
            for hit in self._engines[number].find(data, spans):
                # The engine may know one that was removed since it was made.
                if hit is None or hit.rule.name in names:
                    yield hit

    def places(self, data: bytes) -> Iterator[Place | None]:
        """Give where secrets stand in *data* or in another view of it, as `known_places` does."""
        return known_places(self.find, data, None, blank=bool(self.with_blank))

    def add(self, form: str, placeholder: str) -> None:
        """Search for *form*, which *placeholder* stands for."""
        if form in self._chunks:
            return
        # The last piece is none by itself: it could be of one letter.
        cuts = range(0, max(len(form) - _CHUNK // 2, 1), _CHUNK)
        chunks = [form[start : start + _CHUNK] for start in cuts[:-1]] + [form[cuts[-1] :]]
        self._chunks[form] = tuple(chunks)
        self._by_head = None
        if BLANK.search(form):
            self.with_blank.add(form)
        for chunk in chunks:
            self._enter(chunk, placeholder)

    def remove(self, form: str) -> None:
        """Search for *form* no more."""
        self.with_blank.discard(form)
        self._by_head = None
        for chunk in self._chunks.pop(form, ()):
            for number, batch in tuple(self._batches.items()):
                if batch.pop(chunk, None) is not None and not batch:
                    del self._batches[number]
                    self._engines.pop(number, None)

    def _enter(self, chunk: str, placeholder: str) -> None:
        number = max(self._batches, default=0)
        batch = self._batches.get(number, {})
        if len(batch) >= _BATCH or sum(map(len, batch)) + len(chunk) > _BATCH_CHARS:
            self._merge(number)
            number += 1
        rule = Rule(placeholder, expression(chunk), foreign=True)
        self._batches.setdefault(number, {})[chunk] = rule
        self._engines.pop(number, None)

    def _merge(self, newest: int) -> None:
        """Put what is in the batch *newest* to that before it, if there is room."""
        before = max((number for number in self._batches if number < newest), default=None)
        if before is None or newest not in self._batches:
            return
        merged = {**self._batches[before], **self._batches[newest]}
        size = sum([len(rule.pattern) for rule in merged.values()])
        if len(merged) <= _MERGED and size <= _MERGED_SIZE:
            self._batches[before] = merged
            self._engines.pop(before, None)
            self._engines.pop(newest, None)
            del self._batches[newest]
