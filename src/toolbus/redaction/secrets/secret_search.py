"""The search for secrets that are known, in whatever form they stand."""

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
"""How many times as long as a value its longest form may be, more or less."""


def forms_of(value: str) -> list[str]:
    """Return expressions, in RE2's syntax, for *value* in each of its forms.

    JSON may stand inside JSON, so any number of backslashes will do. Of base64 all three
    alignments are in it, each without the letters that depend on what stands beside the value.
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


_CHUNK, _PIECE = 1_024, 8
"""Letters that are sought as one expression, and how many of them tell whether to look for it."""

_LEVELS = 16, 128
"""Expressions in the first engine, and in the second. The last one has any number."""

_HEAD, _LONGEST_WORD = 4, 512
"""Letters that values are told apart by, and how far back one without blanks may begin."""


class SecretSearch:
    """The expressions for telling secrets, in pieces if they are long."""

    def __init__(self) -> None:
        # Each new secret makes the first engine anew, which takes its time, and looking by each
        # engine takes the same time, however large it is: so the first one is small.
        self._levels: list[dict[str, Rule]] = [{} for _ in (*_LEVELS, 0)]
        self._engines: list[Engine | None] = [None for _ in self._levels]
        self._patterns: dict[str, list[str]] = {}
        """For each form the expressions of its pieces."""
        self.with_blank: set[str] = set()
        """Those with a blank or a backslash inside."""
        self._known_heads: tuple[dict[bytes, list[bytes]], re.Pattern[bytes]] | None = None

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
            for value in self._heads[0].get(data[:_HEAD], ())
        )

    def _heads_in(self, data: bytes) -> Iterator[int]:
        """Give where a value may begin that goes on at the end of *data*, in order."""
        # One without a blank can only begin in the last word.
        word = max(data.rfind(b" ") + 1, len(data) - _LONGEST_WORD)
        if self.with_blank:
            yield from (match.start() for match in self._heads[1].finditer(data, 0, word))
        yield from range(word, len(data))

    @property
    def _heads(self) -> tuple[dict[bytes, list[bytes]], re.Pattern[bytes]]:
        """The values by each of their beginnings, and an expression for those with a blank.

        The values are as they are, and with their lines joined.
        """
        if self._known_heads is None:
            by_head: dict[bytes, list[bytes]] = {}
            for value in map(str.encode, self._patterns):
                for written in {value, without_line_breaks(value)}:
                    for size in range(1, _HEAD + 1):
                        by_head.setdefault(written[:size], []).append(written)
            heads = sorted({re.escape(form.encode()[:_HEAD]) for form in self.with_blank})
            # Each place, also one that another overlaps.
            self._known_heads = by_head, re.compile(b"(?=" + b"|".join(heads) + b")")
        return self._known_heads

    def knows(self) -> bool:
        """Tell whether there is anything to be found."""
        return bool(self._patterns)

    def find(self, data: bytes, spans: Spans | None = None) -> Iterator[Hit | None]:
        """Give where secrets stand in *data*, in any form; the rule is the placeholder.

        It is looked at, and None is given between, as in `Engine.find`.
        """
        for level, rules in enumerate(self._levels):
            if rules and self._engines[level] is None:
                self._engines[level] = Engine(tuple(rules.values()), LONGEST * 2 * _CHUNK)
        # Another task may add and remove some while it has a turn.
        for rules, engine in [*zip(self._levels, self._engines, strict=True)]:
            for hit in engine.find(data, spans) if rules and engine is not None else ():
                # The engine may know one that was removed since it was made.
                if hit is None or hit.rule.pattern in rules:
                    yield hit

    def places(self, data: bytes, spans: Spans | None = None) -> Iterator[Place | None]:
        """Give where secrets stand in *data* or in another view of it, as `known_places` does."""
        return known_places(self.find, data, spans, blank=bool(self.with_blank))

    def add(self, form: str, placeholder: str) -> None:
        """Search for *form*, which *placeholder* stands for."""
        if form in self._patterns:
            return
        # The last piece is none by itself: it could be of one letter.
        cuts = range(0, max(len(form) - _CHUNK // 2, 1), _CHUNK)
        chunks = [form[start : start + _CHUNK] for start in cuts[:-1]] + [form[cuts[-1] :]]
        rules = [_rule(chunk, placeholder) for chunk in chunks]
        self._patterns[form] = [rule.pattern for rule in rules]
        self._known_heads = None
        if BLANK.search(form):
            self.with_blank.add(form)
        self._enter(0, {rule.pattern: rule for rule in rules})

    def remove(self, form: str) -> None:
        """Search for *form* no more."""
        self.with_blank.discard(form)
        self._known_heads = None
        for pattern in self._patterns.pop(form, ()):
            for rules in self._levels:
                rules.pop(pattern, None)

    def _enter(self, level: int, rules: dict[str, Rule]) -> None:
        """Add *rules* to a level; if they are too many for it, all of it goes to the next one."""
        rules, self._engines[level] = {**self._levels[level], **rules}, None
        if level < len(_LEVELS) and len(rules) > _LEVELS[level]:
            self._enter(level + 1, rules)
            rules = {}
        self._levels[level] = rules


def _rule(chunk: str, placeholder: str) -> Rule:
    """Return the rule for *chunk*, and as its gates the forms of the plainest piece of it."""
    # Many secrets begin alike: so of pieces that are equally plain it is the last.
    starts = range(max(len(chunk) - _PIECE, 0), -1, -1)
    pieces = [chunk[start : start + _PIECE] for start in starts]
    # A sign has many forms.
    signs = [len(_SIGN.findall(letters)) for letters in pieces]
    plainest = pieces[signs.index(min(signs))]
    return Rule(
        placeholder, "|".join(forms_of(chunk)), foreign=True, gates=tuple(forms_of(plainest))
    )
