"""Names and globs of names: matching, and intersection of two globs."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

LONGEST = 1_000
"""Characters of a component; a longer component counts as ``*``, as no file has such a name."""


class CharacterSet(NamedTuple):
    """A character class, ``[a-z]`` or ``[!a-z]``; ``?`` is the complement of the empty class."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool

    def contains(self, character: str) -> bool:
        """Return whether *character* is in the set."""
        return any(low <= character <= high for low, high in self.ranges) != self.is_negated


_SPECIAL = re.compile(r"[\\*?\[\](){}!+@]")
# POSIX 2.13.1: "]" may come first, and without an end the bracket is itself.
_ELEMENT = r"(?:\\.|\[[:.=]\w*[:.=]\]|[^\]\\])"
_SET = re.compile(rf"\[([!^]?+)(\]{_ELEMENT}*|{_ELEMENT}+)\]", re.DOTALL)
_CLASS = re.compile(r"\[[:.=]")
_RANGE = re.compile(r"(\\?.)(?:-(\\?.))?", re.DOTALL)
_ANY = CharacterSet((), is_negated=True)
_STAR = None
_Token = str | CharacterSet | None


class NameGlob(NamedTuple):
    """One component of a path: its *tokens*, and the *literal* name if it is not a glob."""

    tokens: tuple[_Token, ...]
    literal: str | None

    def meets(self, other: NameGlob, *, dot: bool = True) -> bool:
        """Return whether a name exists that both match.

        Without *dot*, the shell's rule applies: a leading wildcard of *other* matches no dot.
        """
        if self.literal is not None and other.literal is not None:
            return self.literal == other.literal
        if not dot and self.tokens[:1] == (".",) and not isinstance(other.tokens[0], str):
            return False
        return _meet(self.tokens, other.tokens)


DOUBLE = NameGlob((), None)
"""``**``: any number of components, including none."""


@lru_cache(maxsize=10_000)
def name_glob(text: str) -> NameGlob:
    """Return the glob *text*, in which a backslash quotes; ``@(…)`` and the like match anything."""
    if len(text) > LONGEST:
        return NameGlob((_STAR,), None)
    tokens: list[_Token] = []
    index = 0
    while index < len(text):
        token, index = _token(text, index)
        if not (token is _STAR and tokens and tokens[-1] is _STAR):
            tokens.append(token)
    is_literal = all(isinstance(token, str) for token in tokens)
    literal = "".join([token for token in tokens if isinstance(token, str)])
    return NameGlob(tuple(tokens), literal if is_literal else None)


@lru_cache(maxsize=10_000)
def plain_name(text: str) -> NameGlob:
    """Return the glob that only matches the name *text*."""
    return NameGlob(tuple(text), text)


def path_components(path: str) -> list[str]:
    """Return the components of *path*, without empty ones and dots."""
    return [part for part in path.split("/") if part not in {"", "."}]


def glob_quoted(text: str) -> str:
    """Return *text* quoted as a glob that matches only *text*."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def fold(name: str) -> str:
    """Return *name* as compared by file systems that ignore case, Unicode forms, or both.

    HFS+ also ignores zero-width characters (Technical Note TN1150); NTFS and APFS do not.
    """
    if name.isascii():
        return name.lower()
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", name).casefold())
    return "".join([each for each in composed if unicodedata.category(each) != "Cf"])


def _token(text: str, index: int) -> tuple[_Token, int]:
    """Return the token at *index* of a glob, and the next index."""
    character = text[index]
    if text[index + 1 : index + 2] == "(" and character in "*?+@!":
        return _STAR, _end_of_group(text, index + 1)
    if character == "*":
        return _STAR, index + 1
    if character == "?":
        return _ANY, index + 1
    if character == "\\" and index + 1 < len(text):
        return text[index + 1], index + 2
    if (match := _SET.match(text, index)) is not None:
        return _character_set(match[2], is_negated=bool(match[1])), match.end()
    return character, index + 1


def _end_of_group(text: str, start: int) -> int:
    """Return the index after the group of an extended glob that opens at *start*."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index + 1
    return len(text)


def _character_set(text: str, *, is_negated: bool) -> CharacterSet:
    """Return the set for *text*, the contents of the brackets."""
    if _CLASS.search(text):
        return _ANY  # Classes depend on the locale: any character may belong to one.
    pairs = _RANGE.findall(text)
    ranges = [(low[-1], (high or low)[-1]) for low, high in pairs]
    return CharacterSet(tuple(ranges), is_negated)


def _meet(first: tuple[_Token, ...], second: tuple[_Token, ...]) -> bool:
    """Run both globs as one automaton over pairs of positions; cost is their product."""
    states = {(0, 0)}
    pending = [(0, 0)]
    while pending:
        i, j = pending.pop()
        if i == len(first) and j == len(second):
            return True
        for state in _steps(first, second, i, j):
            if state not in states:
                states.add(state)
                pending.append(state)
    return False


def _steps(
    first: tuple[_Token, ...], second: tuple[_Token, ...], i: int, j: int
) -> list[tuple[int, int]]:
    mine = first[i] if i < len(first) else ""
    other = second[j] if j < len(second) else ""
    steps = []
    if mine is _STAR:
        steps.append((i + 1, j))
    if other is _STAR:
        steps.append((i, j + 1))
    # Both consume the next character; a star keeps its position.
    if mine != "" and other != "" and _share(mine, other):
        steps.append((i + (mine is not _STAR), j + (other is not _STAR)))
    return [state for state in steps if state != (i, j)]


def _share(mine: _Token, other: _Token) -> bool:
    if isinstance(mine, str):
        if isinstance(other, str):
            return mine == other
        return other is None or other.contains(mine)
    if isinstance(other, str):
        return mine is None or mine.contains(other)
    return True  # Two sets may be disjoint: this overstates, and never understates.
