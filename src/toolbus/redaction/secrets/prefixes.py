r"""Which texts are the beginning of something that an expression of RE2 matches.

A rule says what a whole secret looks like. Of a text that is still growing the question is another
one: does it end in what may become one? For `ab{3}c` that is what ends in `(?:a(?:b{0,3}c?)?)?`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from toolbus.redaction.secrets.expressions import compiled

# A class, an escape with its operand, or any other sign; only its extent matters here.
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP]\{\^?\w+\}|[pP]\w|.)", re.DOTALL)
_REPEAT = re.compile(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})(\??)")
_OPENING = re.compile(r"\((?:\?(?:P?<(\w+)>|([a-zA-Z]*(?:-[a-zA-Z]+)?)(:|\))))?")
_EMPTY = frozenset({"^", "$", r"\b", r"\B", r"\A", r"\z"})
_ENDLESS = -1
_LONG = 2


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


class PatternShape:
    """The shape of an expression: what its matches begin with, and where they may have a sign."""

    def __init__(self, pattern: str) -> None:
        self._root = shape_of(pattern)

    def beginnings(self) -> str:
        """Return an expression for all beginnings of matches, the empty one among them."""
        return _prefix(self._root)

    def goes_on_behind(self, signs: str) -> bool:
        """Tell whether a match may have one of *signs*, and something behind that."""
        return _goes_on(self._root, signs, followed=False)

    def ends_early(self) -> bool:
        """Tell whether a match, once it is whole, is not made longer by what comes later."""
        return _is_lazy(self._root)

    def heads(self) -> frozenset[str]:
        """Return words in lower case of which every match begins with one; none if unknown."""
        heads = _heads(self._root)
        return heads if heads and all(len(head) >= _LONG for head in heads) else frozenset()


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


def _written(node: Node) -> str:
    """Return *node* as an expression that can be repeated."""
    match node:
        case Atom(text, flags, _):
            return f"(?{flags}:{text})" if flags else text
        case Repeat(item, least, limit, _):
            return f"(?:{_written(item)}{{{least},{'' if limit == _ENDLESS else limit}}})"
        case Sequence(items):
            return f"(?:{''.join(map(_written, items))})"
        case Choice(items):
            return f"(?:{'|'.join(map(_written, items))})"


def _prefix(node: Node) -> str:
    match node:
        case Atom(_, _, empty):
            return "" if empty else f"(?:{_written(node)})?"
        case Repeat(Atom(empty=False) as item, _, limit, _):
            return f"(?:{_written(item)}){'*' if limit == _ENDLESS else f'{{0,{limit}}}'}"
        case Repeat(item, _, limit, _):
            count = "*" if limit == _ENDLESS else f"{{0,{max(limit - 1, 0)}}}"
            return f"(?:{_written(item)}){count}{_prefix(item)}"
        case Choice(items):
            return f"(?:{'|'.join(map(_prefix, items))})"
        case Sequence(items):
            whole = ""
            for item in reversed(items):
                rest = f"{_written(item)}{whole}" if whole else ""
                if isinstance(item, Atom) and not item.empty:
                    whole = f"(?:{rest or _written(item)})?"
                else:
                    whole = f"(?:{rest}|{_prefix(item)})" if rest else _prefix(item)
            return whole


def _size(node: Node) -> int:
    """Return how many signs *node* may have at most, or some number if it is large."""
    match node:
        case Atom(_, _, empty):
            return 0 if empty else 1
        case Repeat(item, _, limit, _):
            return _size(item) * (2 if limit == _ENDLESS else limit)
        case Sequence(items):
            return sum(map(_size, items))
        case Choice(items):
            return max(map(_size, items))


def _goes_on(node: Node, signs: str, *, followed: bool) -> bool:
    match node:
        case Atom():
            return followed and _has_any(node, signs)
        case Repeat(item, _, limit, _):
            return _goes_on(item, signs, followed=followed or limit not in {0, 1})
        case Choice(items):
            return any(_goes_on(item, signs, followed=followed) for item in items)
        case Sequence(items):
            return any(
                _goes_on(item, signs, followed=followed or any(map(_size, items[index + 1 :])))
                for index, item in enumerate(items)
            )


@lru_cache(maxsize=4_096)
def _has_any(atom: Atom, signs: str) -> bool:
    if atom.empty:
        return False
    expression = compiled(f"^{_written(atom)}$")
    return any(expression.search(sign.encode()) is not None for sign in signs)


def _is_lazy(node: Node) -> bool:
    match node:
        case Atom():
            return True
        case Repeat(item, _, limit, lazy):
            endless = limit == _ENDLESS and _may_have_blank(item)
            return _is_lazy(item) and (lazy or not endless)
        case Sequence(items) | Choice(items):
            return all(map(_is_lazy, items))


def _may_have_blank(node: Node) -> bool:
    match node:
        case Atom():
            return _has_any(node, " \n")
        case Repeat(item, _, _, _):
            return _may_have_blank(item)
        case Sequence(items) | Choice(items):
            return any(map(_may_have_blank, items))


def _heads(node: Node) -> frozenset[str]:
    """Return what every match of *node* begins with, one of these; empty for nothing certain."""
    match node:
        case Atom():
            letter = _letter(node)
            return frozenset({letter}) if letter else frozenset()
        case Repeat(item, least, _, _):
            return _heads(item) if least else frozenset()
        case Choice(items):
            heads = [_heads(item) for item in items]
            return frozenset().union(*heads) if all(heads) else frozenset()
        case Sequence(items):
            return _heads_of(
                [item for item in items if not isinstance(item, Atom) or not item.empty]
            )


def _heads_of(items: list[Node]) -> frozenset[str]:
    """Return the heads of a sequence: letters that follow each other are one word."""
    is_line = bool(items) and items[0] == _LINE_START
    while items and (items[0] == _LINE_START or _is_skipped(items[0], is_line=is_line)):
        items = items[1:]
    word = ""
    for item in items:
        letter = _letter(item) if isinstance(item, Atom) else ""
        if not letter:
            break
        word += letter
    if word or not items:
        return frozenset({word}) if word else frozenset()
    return _heads(items[0])


def _is_skipped(node: Node, *, is_line: bool) -> bool:
    """Tell whether *node* has no letters: a text never ends amid of what has none.

    Unless it has blanks, behind which a text may end, but not at the beginning of a line.
    """
    match node:
        case Repeat(Atom() as item, 0, _, _):
            return not _has_any(item, _SOME_LETTERS if is_line else f"{_SOME_LETTERS} \n\t")
    return False


def _letter(atom: Atom) -> str:
    """Return the only letter that *atom* may be, in lower case; "" if it may be several."""
    text = atom.text
    if _CLASS.fullmatch(text):
        letters = {letter.lower() for letter in text[1:-1]}
        return letters.pop() if len(letters) == 1 and text[1:-1].isalpha() else ""
    if len(text) == 2 and text[0] == "\\":  # noqa: PLR2004 - an escaped sign
        return "" if text[1].isalnum() else text[1]
    return text.lower() if len(text) == 1 and text != "." and not atom.empty else ""


_LINE_START = Choice(
    (Sequence((Atom("^", "", empty=True),)), Sequence((Atom(r"\n", "", empty=False),)))
)
_SOME_LETTERS = "aZ0"
