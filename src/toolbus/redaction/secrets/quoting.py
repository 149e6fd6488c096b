"""Placeholders of ours in what a tool returns: somebody quotes them, and gets nothing by it.

Whoever reads a session can write its placeholders into an issue or a web page. If a model quoted
them from there into a call, the vault would give out a value because a stranger wished it. So
the suffix is taken out of what comes in, wherever it stands by itself.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from toolbus.redaction.secrets.collecting import SecretVisitor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

QUOTED = "(quoted)"
"""What stands in place of a suffix: `[github-pat-1-(quoted)]` is no placeholder."""


class Unquoter(SecretVisitor):
    """Takes *suffix* out of texts, but for that of the placeholders *allowed*."""

    def __init__(self, suffix: str, allowed: Collection[str] = ()) -> None:
        self._suffix = suffix
        # What is allowed comes first, and is no span.
        names = "|".join(map(re.escape, allowed)) or "(?!)"
        self._pattern = re.compile(rf"(?:{names})|((?<![A-Za-z0-9]){suffix}(?![A-Za-z0-9]))")

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Return *texts* without suffixes, also where one goes on in the next text."""
        whole = "".join(texts)
        if self._suffix not in whole:
            return texts
        spans = [match.span() for match in self._pattern.finditer(whole) if match[1]]
        return tuple(_pieces(whole, spans, [0, *accumulate(map(len, texts))]))


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
