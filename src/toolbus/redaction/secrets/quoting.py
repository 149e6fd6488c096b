"""Placeholders of ours in what a tool returns: somebody quotes them, and gets nothing by it.

Whoever reads a session can write its placeholders into an issue or a web page. If a model quoted
them from there into a call, the vault would give out a value because a stranger wished it. So
the letters are taken out of what comes in.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from toolbus.redaction.placeholders import LETTERS
from toolbus.redaction.secrets.collecting import SecretVisitor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from toolbus.redaction.former_placeholders import FormerPlaceholders
    from toolbus.redaction.placeholders import SessionPlaceholders

QUOTED = "(quoted)"
"""The mark in place of the letters: `[github-pat-(quoted)]` is not a placeholder."""


class Unquoter(SecretVisitor):
    """Takes the letters of *placeholders* out of texts, and the suffix of the *former* ones.

    Those of the placeholders *allowed* stay.
    """

    def __init__(
        self,
        placeholders: SessionPlaceholders,
        former: FormerPlaceholders | None = None,
        allowed: Collection[str] = (),
    ) -> None:
        self._placeholders = placeholders
        # What is allowed comes first, and is no span.
        parts = [*map(re.escape, allowed), LETTERS.pattern]
        if former is not None and former.suffix:
            parts.append(rf"(?<![A-Za-z0-9])({former.suffix})(?![A-Za-z0-9])")
        self._pattern = re.compile("|".join(parts))

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Return *texts* without quotations, also where one goes on in the next text."""
        whole = "".join(texts)
        spans = [*self._quotations(whole)]
        if not spans:
            return texts
        return tuple(_pieces(whole, spans, [0, *accumulate(map(len, texts))]))

    def _quotations(self, whole: str) -> Iterator[tuple[int, int]]:
        for match in self._pattern.finditer(whole):
            group = match.lastindex
            if group == 2 or (group == 1 and self._placeholders.is_own(match[1])):  # noqa: PLR2004 - the suffix
                yield match.span(group)


def _pieces(whole: str, spans: list[tuple[int, int]], bounds: list[int]) -> Iterator[str]:
    """Give *whole* between *bounds*, with a mark where one of *spans* begins and none of it."""
    index = 0
    for begin, end in pairwise(bounds):
        pieces, position = list[str](), begin
        while index < len(spans) and spans[index][0] < end:
            start, stop = spans[index]
            pieces += [whole[position : max(start, begin)], QUOTED if start >= begin else ""]
            position = min(stop, end)
            if stop > end:
                break  # It goes on in the next text.
            index += 1
        yield "".join([*pieces, whole[position:end]])
