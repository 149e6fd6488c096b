"""The search for known secrets in all their encodings."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING

from toolbus.redaction.secrets.engine import BLANK, Engine, known_places
from toolbus.redaction.secrets.rules import Rule
from toolbus.redaction.views import joined_views, views_to_end, without_line_breaks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.secrets.engine import Hit, Place, Spans

_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_SHORTEST = 8
_SIGN = re.compile(r"[^A-Za-z0-9_]")

LONGEST = 16
"""The approximate length of a value's longest form, in lengths of the value."""


def forms_of(value: str) -> list[str]:
    """Return expressions, in RE2's syntax, for *value* in each of its encodings.

    JSON may be nested in JSON, so any number of backslashes matches. Base64 has all three
    alignments, each without the characters that depend on the bytes beside the value.
    """
    data = value.encode()
    escaped = "".join([f"%{byte:02x}" for byte in data])
    return [
        _SIGN.sub(_mixed, value),
        f"(?i:{escaped})",
        f"(?i:{data.hex()})",
        *[_armoured(core) for core in _cores(data)],
    ]


def _mixed(sign: re.Match[str]) -> str:
    """Return an expression for *sign*, plain or in one of the usual escapes."""
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
    """Return the units of *text* in UTF-16, the units of JSON's escapes."""
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[index : index + 2]) for index in range(0, len(data), 2)]


def _cores(data: bytes) -> list[str]:
    """Return the parts that the base64 of every text around *data* has in common."""
    cores = []
    for shift in range(3):
        # A character is six bits: characters with bits of the neighbouring bytes are cut.
        start = -(-8 * shift // 6)
        end = 8 * (shift + len(data)) // 6
        core = b64encode(bytes(shift) + data + bytes(3)).decode()[start:end]
        if len(core) >= _SHORTEST:
            cores.append(core)
    return cores


def _armoured(core: str) -> str:
    """Return an expression for *core*, base64 in either alphabet and possibly escaped."""
    either = {"+": r"(?:[+-]|%2[bB])", "/": r"(?:\\*/|_|%2[fF])"}
    return "".join([either.get(letter, letter) for letter in core])


_CHUNK, _PIECE = 1_024, 8
"""Characters of one expression, and characters of the piece that gates it."""

_LEVELS = 16, 128
"""Expressions in the first engine, and in the second; the last engine has any number."""

_HEAD, _LONGEST_WORD = 4, 512
"""Characters that tell values apart, and the longest value without blanks in an open end."""


class SecretSearch:
    """The expressions for distinctive secrets, in pieces if they are long."""

    def __init__(self) -> None:
        # Each new secret rebuilds the first engine, which costs time by its size, while a search
        # costs the same for an engine of any size: so the first one is small.
        self._levels: list[dict[str, Rule]] = [{} for _ in (*_LEVELS, 0)]
        self._engines: list[Engine | None] = [None for _ in self._levels]
        self._patterns: dict[str, list[str]] = {}
        """The expressions of each form's pieces."""
        self.with_blank: set[str] = set()
        """The forms with a blank or a backslash inside."""
        self._known_heads: tuple[dict[bytes, list[bytes]], re.Pattern[bytes]] | None = None

    def open_value(self, data: bytes) -> int:
        """Return the start of a value that may continue behind the end of *data*, or its length.

        The text may break the value's lines differently.
        """
        for view in (*views_to_end(data), *joined_views(data)):
            size = len(view.data)
            for start in self._heads_in(view.data):
                if not self._begins_value(view.data[start:]):
                    continue
                place = view.span(start, size)[0]
                # A few characters count as the beginning of a value only at a word's start.
                if size - start >= _HEAD or not data[max(place - 1, 0) : place].isalnum():
                    return place
        return len(data)

    def _begins_value(self, data: bytes) -> bool:
        """Return whether *data* is the beginning of a longer value."""
        return any(
            len(value) > len(data) and value.startswith(data)
            for value in self._heads[0].get(data[:_HEAD], ())
        )

    def _heads_in(self, data: bytes) -> Iterator[int]:
        """Yield the possible starts of a value that continues behind *data*, in order."""
        # A value without a blank can only begin in the last word.
        word = max(data.rfind(b" ") + 1, len(data) - _LONGEST_WORD)
        if self.with_blank:
            yield from (match.start() for match in self._heads[1].finditer(data, 0, word))
        yield from range(word, len(data))

    @property
    def _heads(self) -> tuple[dict[bytes, list[bytes]], re.Pattern[bytes]]:
        """The values by their beginnings, and an expression for values with a blank.

        Each value is included plain and with its lines joined.
        """
        if self._known_heads is None:
            by_head: dict[bytes, list[bytes]] = {}
            for value in map(str.encode, self._patterns):
                for written in {value, without_line_breaks(value)}:
                    for size in range(1, _HEAD + 1):
                        by_head.setdefault(written[:size], []).append(written)
            heads = sorted({re.escape(form.encode()[:_HEAD]) for form in self.with_blank})
            # A lookahead, to find overlapping places as well.
            self._known_heads = by_head, re.compile(b"(?=" + b"|".join(heads) + b")")
        return self._known_heads

    def knows(self) -> bool:
        """Return whether there are secrets to search for."""
        return bool(self._patterns)

    def find(self, data: bytes, spans: Spans | None = None) -> Iterator[Hit | None]:
        """Yield the known secrets in *data*, in any encoding, and None as in `Engine.find`.

        A hit's rule has the placeholder as its name.
        """
        for level, rules in enumerate(self._levels):
            if rules and self._engines[level] is None:
                self._engines[level] = Engine(tuple(rules.values()), LONGEST * 2 * _CHUNK)
        # Another task may add and remove secrets during its turn.
        for rules, engine in [*zip(self._levels, self._engines, strict=True)]:
            for hit in engine.find(data, spans) if rules and engine is not None else ():
                # The engine may still have a secret that was removed since it was built.
                if hit is None or hit.rule.pattern in rules:
                    yield hit

    def places(self, data: bytes, spans: Spans | None = None) -> Iterator[Place | None]:
        """Yield the known secrets in *data* and its other views, as `known_places` does."""
        return known_places(self.find, data, spans, blank=bool(self.with_blank))

    def add(self, form: str, placeholder: str) -> None:
        """Add *form* of the secret of *placeholder* to the search."""
        if form in self._patterns:
            return
        # The last piece is joined with the one before: alone it could be a single character.
        cuts = range(0, max(len(form) - _CHUNK // 2, 1), _CHUNK)
        chunks = [form[start : start + _CHUNK] for start in cuts[:-1]] + [form[cuts[-1] :]]
        rules = [_rule(chunk, placeholder) for chunk in chunks]
        self._patterns[form] = [rule.pattern for rule in rules]
        self._known_heads = None
        if BLANK.search(form):
            self.with_blank.add(form)
        self._enter(0, {rule.pattern: rule for rule in rules})

    def remove(self, form: str) -> None:
        """Remove *form* from the search."""
        self.with_blank.discard(form)
        self._known_heads = None
        for pattern in self._patterns.pop(form, ()):
            for rules in self._levels:
                rules.pop(pattern, None)

    def _enter(self, level: int, rules: dict[str, Rule]) -> None:
        """Add *rules* to a level; a level that overflows moves all its rules to the next one."""
        rules, self._engines[level] = {**self._levels[level], **rules}, None
        if level < len(_LEVELS) and len(rules) > _LEVELS[level]:
            self._enter(level + 1, rules)
            rules = {}
        self._levels[level] = rules


def _rule(chunk: str, placeholder: str) -> Rule:
    """Return the rule for *chunk*, gated by the forms of its plainest piece."""
    # Many secrets begin alike: so the last of equally plain pieces is chosen.
    starts = range(max(len(chunk) - _PIECE, 0), -1, -1)
    pieces = [chunk[start : start + _PIECE] for start in starts]
    # A sign has many encodings.
    signs = [len(_SIGN.findall(letters)) for letters in pieces]
    plainest = pieces[signs.index(min(signs))]
    return Rule(
        placeholder, "|".join(forms_of(chunk)), foreign=True, gates=tuple(forms_of(plainest))
    )
