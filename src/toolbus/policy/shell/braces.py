"""Brace expansion: ``a{b,c}`` and ``{1..3}``, as the section "Brace Expansion" of bash's manual."""

from __future__ import annotations

import re
from itertools import pairwise, product
from typing import Any, TypeAlias

from toolbus.policy.shell.tree import Parameter

Tokens: TypeAlias = list[Any]
_MAX_WORDS = 64
_MAX_NESTING = 8
_NUMBERS = re.compile(r"(-?(?:0|[1-9]\d{0,8}))\.\.(-?(?:0|[1-9]\d{0,8}))\Z")
_LETTERS = re.compile(r"([a-z])\.\.([a-z])\Z|([A-Z])\.\.([A-Z])\Z")


def expand_braces(tokens: Tokens, nesting: int = 0) -> list[Tokens] | None:
    """Return the words that *tokens* become, or None if that is not certain or too much.

    A token is an unquoted character, a backslash with the character that it quotes, or anything
    that is no text.
    """
    if "{" not in tokens or not _has_comma_or_sequence(tokens):
        return [tokens]
    if nesting > _MAX_NESTING or _joins_a_name(tokens):
        return None
    start = tokens.index("{")
    end = _matching(tokens, start)
    if end is None:
        return None
    items = _items(tokens[start + 1 : end])
    if items is not None and len(items) == 1 and "}" in tokens[end + 1 :]:
        return None  # To which of them the first brace belongs, depends.
    rest = expand_braces(tokens[end + 1 :], nesting + 1)
    if items is None or rest is None:
        return None
    middle: list[Tokens] = []
    for item in items:
        expanded = expand_braces(item, nesting + 1) if len(items) > 1 else [item]
        if expanded is None or len(middle) > _MAX_WORDS:
            return None
        middle += expanded
    if len(middle) * len(rest) > _MAX_WORDS:
        return None
    return [[*tokens[:start], *inner, *after] for inner, after in product(middle, rest)]


def _has_comma_or_sequence(tokens: Tokens) -> bool:
    """Return whether there is what each brace expansion needs: ``repos/{owner}/{repo}`` is none."""
    return "," in tokens or (".", ".") in pairwise(tokens)


def _joins_a_name(tokens: Tokens) -> bool:
    """Return whether braces follow a ``$x`` at once: ``$x{1,2}`` is ``$x1 $x2``."""
    return any(
        following == "{" and isinstance(token, Parameter) and token.short
        for token, following in pairwise(tokens)
    )


def _matching(tokens: Tokens, start: int) -> int | None:
    depth = 0
    for index in range(start, len(tokens)):
        if tokens[index] == "{":
            depth += 1
        elif tokens[index] == "}":
            depth -= 1
            if not depth:
                return index
    return None


def _items(inner: Tokens) -> list[Tokens] | None:
    """Return the alternatives between two braces; a single one has its braces still."""
    items: list[Tokens] = [[]]
    depth = 0
    for token in inner:
        depth += (token == "{") - (token == "}")  # noqa: S105 - a sign
        if token == "," and not depth:  # noqa: S105
            items.append([])
        else:
            items[-1].append(token)
    if len(items) > 1:
        return items
    if "{" in inner:
        return None
    text = "".join(token if isinstance(token, str) else "\0" for token in inner)
    if ".." in text:
        return _sequence(text)
    return [["{", *inner, "}"]]


def _sequence(text: str) -> list[Tokens] | None:
    if match := _NUMBERS.match(text):
        first, final = int(match[1]), int(match[2])
        if abs(final - first) > _MAX_WORDS:
            return None
        step = 1 if first <= final else -1
        return [list(str(number)) for number in range(first, final + step, step)]
    if match := _LETTERS.match(text):
        first, final = (ord(letter) for letter in match.groups() if letter)
        step = 1 if first <= final else -1
        return [[chr(code)] for code in range(first, final + step, step)]
    return None
