"""Texts that an expression of RE2 matches, for tests: no library makes them for its syntax."""

from __future__ import annotations

import re
import string
from typing import NamedTuple, TypeAlias

from toolbus.redaction.secrets.expressions import compiled

# A class, an escape with its operand, or any other sign; only its extent matters here.
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP]\{\^?\w+\}|[pP]\w|.)", re.DOTALL)
_REPEAT = re.compile(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})(\??)")
_OPENING = re.compile(r"\((?:\?(?:P?<(\w+)>|([a-zA-Z]*(?:-[a-zA-Z]+)?)(:|\))))?")
_EMPTY = frozenset({"^", "$", r"\b", r"\B", r"\A", r"\z"})
_ENDLESS = -1


class Atom(NamedTuple):
    """One sign, or one of a class, as it is written, with its *flags*; an *empty* one has none."""

    text: str
    flags: str
    empty: bool


class Repeat(NamedTuple):
    """*item* from *least* to *limit* times, which is -1 for any number of times."""

    item: Node
    least: int
    limit: int
    lazy: bool


class Sequence(NamedTuple):
    """One item after another."""

    items: tuple[Node, ...]


class Choice(NamedTuple):
    """One of several."""

    items: tuple[Node, ...]


Node: TypeAlias = "Atom | Repeat | Sequence | Choice"


def shape_of(pattern: str) -> Node:
    """Return what *pattern* is made of; RE2 reads it, so it is a sound one."""
    return _PatternParser(pattern).choice("")


class _PatternParser:
    """Reads an expression from its begin to its end."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._position = pattern, 0

    def choice(self, flags: str) -> Node:
        """Return what stands up to the end of a group."""
        branches: list[list[Node]] = [[]]
        while self._position < len(self._pattern) and self._pattern[self._position] != ")":
            if self._pattern[self._position] == "|":
                self._position += 1
                branches.append([])
                continue
            opening = _OPENING.match(self._pattern, self._position)
            if opening is not None and opening[3] == ")":
                self._position, flags = opening.end(), _merged(flags, opening[2])
                continue
            branches[-1].append(self._repeated(self._item(opening, flags)))
        items = [Sequence(tuple(branch)) for branch in branches]
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _item(self, opening: re.Match[str] | None, flags: str) -> Node:
        if opening is not None:
            self._position = opening.end()
            item = self.choice(_merged(flags, opening[2] or ""))
            self._position += 1
            return item
        match = _CLASS.match(self._pattern, self._position)
        match = match or _ESCAPE.match(self._pattern, self._position)
        text = self._pattern[self._position] if match is None else match[0]
        self._position += len(text)
        return Atom(text, flags, text in _EMPTY)

    def _repeated(self, item: Node) -> Node:
        match = _REPEAT.match(self._pattern, self._position)
        if match is None:
            return item
        self._position = match.end()
        sign, least, comma, limit, lazy = match.groups()
        if sign:
            low, high = {"*": (0, _ENDLESS), "+": (1, _ENDLESS), "?": (0, 1)}[sign]
        else:
            low = int(least)
            high = int(limit) if limit else _ENDLESS if comma else low
        return Repeat(item, low, high, bool(lazy))


def _merged(flags: str, change: str) -> str:
    on, _, off = change.partition("-")
    return "".join(sorted({*flags, *on} - {*off}))


SIGNS = string.ascii_letters + string.digits + string.punctuation + " \t\n"
_SIGNS_OF: dict[Atom, list[str]] = {}


def example(node, rnd):
    """Return a text that *node* matches, but for what its anchors say."""
    match node:
        case Atom(empty=True):
            return ""
        case Atom():
            return rnd.choice(_signs_of(node))
        case Repeat(item, least, most, _):
            most = least + rnd.choice([0, 1, 4]) if most == _ENDLESS else most
            return "".join(
                [example(item, rnd) for _ in range(rnd.randint(least, min(most, least + 6)))]
            )
        case Sequence(items):
            return "".join([example(item, rnd) for item in items])
        case Choice(items):
            return example(rnd.choice(items), rnd)


def _signs_of(atom):
    if atom not in _SIGNS_OF:
        expression = compiled(f"^(?{atom.flags}:{atom.text})$")
        fitting = [sign for sign in SIGNS if expression.search(sign.encode())]
        plain = [sign for sign in fitting if sign.isalnum()]
        # Lines break where they may, often.
        breaks = ["\n"] * (len(fitting) // 2) if "\n" in fitting else []
        _SIGNS_OF[atom] = plain * 8 + fitting + breaks or [""]
    return _SIGNS_OF[atom]


def match_of(pattern, rnd):
    """Return a text in which *pattern* matches, or an empty one if none was found."""
    expression, shape = compiled(pattern), shape_of(pattern)
    texts = (example(shape, rnd) for _ in range(20))
    return next((text for text in texts if expression.search(text.encode())), "")
