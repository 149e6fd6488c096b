"""Which words stand in everything that a pattern matches: without them nobody needs to look.

Letters are taken without case, so a word is in lower case whatever the pattern says.
"""

from __future__ import annotations

import re
import re._constants as op
import re._parser as parser
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_WORDS, _MOST_LETTERS = 32, 4
# What only RE2 knows, in words of Python's `re`; whether letters have a case does not matter here.
_TRANSLATED = (
    (re.compile(r"\(\?[imsU-]+\)"), ""),
    (re.compile(r"\(\?[imsU-]+:"), "(?:"),
    (re.compile(r"\\z"), r"\\Z"),
    (re.compile(r"\[\[:alnum:\]"), "[a-zA-Z0-9"),
)


class _Words(NamedTuple):
    """What is *exact*: all that a part can match; else *needed*: one of these is in each match."""

    exact: frozenset[str] | None = None
    needed: frozenset[str] = frozenset()

    def best(self) -> frozenset[str]:
        return self.needed if self.exact is None else self.exact


_NOTHING = frozenset({""})


def keywords(pattern: str) -> tuple[str, ...]:
    """Return words of which one stands in each match of *pattern*; none if nobody can tell."""
    words = _of_all(parser.parse(translated(pattern))).best()
    if min(map(len, words), default=0) == 0:
        return ()
    shortest = [word for word in words if not any(other in word for other in words - {word})]
    return tuple(sorted(shortest))


def translated(pattern: str) -> str:
    """Return *pattern* as Python's `re` reads it, with case, and `.` that matches no line's end."""
    for known, instead in _TRANSLATED:
        pattern = known.sub(instead, pattern)
    return pattern


def _of_all(parts: Iterable[tuple[Any, Any]]) -> _Words:
    """Return the words of *parts* that follow each other."""
    run, runs, is_exact = _NOTHING, [frozenset[str]()], True
    for part in parts:
        words = _of(*part)
        if words.exact is not None and len(run) * len(words.exact) <= _MOST_WORDS:
            run = frozenset([first + second for first, second in product(run, words.exact)])
            continue
        runs += [run, words.needed]
        run = _NOTHING if words.exact is None else words.exact
        is_exact = False
    return _Words(run) if is_exact else _Words(needed=max([*runs, run], key=_worth))


def _worth(words: frozenset[str]) -> tuple[int, int]:
    """Return how well *words* tell a text in which a pattern may match from others."""
    return min(map(len, words), default=0), -len(words)


def _of(kind: Any, value: Any) -> _Words:
    match kind:
        case op.LITERAL:
            return _Words(frozenset({chr(value).lower()}) if value < 128 else None)
        case op.IN:
            return _of_letters(value)
        case op.AT:
            return _Words(_NOTHING)
        case op.SUBPATTERN:
            return _of_all(value[-1])
        case op.BRANCH:
            return _of_either([_of_all(branch) for branch in value[1]])
        case op.MAX_REPEAT | op.MIN_REPEAT:
            return _of_repeated(*value)
    return _Words()


def _of_letters(letters: list[tuple[Any, Any]]) -> _Words:
    found: set[str] = set()
    for kind, value in letters:
        if kind is op.LITERAL and value < 128:
            found.add(chr(value).lower())
        elif kind is op.RANGE and value[1] - value[0] < _MOST_LETTERS and value[1] < 128:
            found |= {chr(code).lower() for code in range(value[0], value[1] + 1)}
        else:
            return _Words()
    return _Words(frozenset(found)) if len(found) <= _MOST_LETTERS else _Words()


def _of_either(branches: list[_Words]) -> _Words:
    exact = [branch.exact for branch in branches if branch.exact is not None]
    union = frozenset[str]().union(*[branch.best() for branch in branches])
    if len(exact) == len(branches) and len(union) <= _MOST_WORDS:
        return _Words(union)
    is_needed = all("" not in branch.best() and branch.best() for branch in branches)
    return _Words(needed=union if is_needed else frozenset())


def _of_repeated(least: int, most: int, parts: Any) -> _Words:
    words = _of_all(parts)
    if words.exact is not None and most == 1:
        return _Words(words.exact if least else words.exact | _NOTHING)
    if least == 0:
        return _Words()
    if words.exact is not None and least == most and len(words.exact) ** least <= _MOST_WORDS:
        return _Words(frozenset(["".join(each) for each in product(words.exact, repeat=least)]))
    best = words.best()
    return _Words(needed=best if "" not in best else frozenset())
