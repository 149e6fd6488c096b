"""The same text seen in other ways: without colours and invisible letters, and with lines joined.

A secret, or an address, may stand in a text with something between its letters that a reader does
not see: a terminal's colour, a soft hyphen, the line break of a shell's command. What is found in a
view is edited in the text itself, so each view knows the way back.

Everything here is linear, and a clean text costs a few searches for single bytes.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from operator import add, sub
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# ECMA-48, sections 5.3 to 5.6: a control sequence, a string with its end, and short ones. A string
# stops before what could begin another, so that unfinished ones are not read again and again.
_SEQUENCE = (
    rb"(?:\[[0-?]*[ -/]*[@-~]"
    rb"|[\]PX^_][^\n\x07\x1b\\]*(?:\x07|\x1b\\)?"
    rb"|[#%()*+][0-~]|[0-~])"
)
_EIGHT_BIT = rb"\xc2\x9b[0-?]*[ -/]*[@-~]?"
# As programs write it into logs and JSON, where a reader sees it; only colours and the like.
_WRITTEN = (
    rb"\\(?<!\\\\)\\{0,7}(?:x1[bB]|u001[bB]|u\{1[bB]\}|0?33|[eE])\[[0-?]*[ -/]*[A-Za-z]"
    rb"|\^\[\[[0-?]*[ -/]*[A-Za-z]"
)
# Soft hyphen; zero-width space, joiners and marks of direction; word joiner; byte order mark.
_INVISIBLE = (
    rb"\xc2\xad|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xef\xb8[\x80-\x8f]"
    rb"|\xe1\xa0\x8e|\xcd\x8f"
)
# A line that ends in a backslash; the second is one in JSON. YAML goes on behind the indentation of
# the next line, and a shell with it: of a line of one word it does not count.
_CONTINUED = rb"\\(?:\r?\n|\\\\n)(?:[ \t]+(?=[^\s\\]+\\?[ \t]*(?:\r?\n|\\n|\Z)))?"
# Each of its ways begins with one letter, by which the search leaps.
_STRIPPED = re.compile(
    rb"\x1b\x1b*" + _SEQUENCE + rb"?|" + rb"|".join([_EIGHT_BIT, _WRITTEN, _INVISIBLE, _CONTINUED])
)
# Each begins with a letter that is seldom, by which the search leaps.
_HINTS = (
    re.compile(rb"\\(?:\r?\n|\\\\n|x1[bB]|u001[bB]|u\{1[bB]|0?33\[|[eE]\[)"),
    re.compile(rb"\^\[\["),
)
_HINTS_BEYOND_ASCII = (
    *(b"\xc2\xad", b"\xc2\x9b", b"\xe2\x80", b"\xe2\x81"),
    *(b"\xef\xbb\xbf", b"\xef\xb8", b"\xe1\xa0\x8e", b"\xcd\x8f"),
)
# YAML 1.2.2, section 8.1.3: a folded scalar. Of its lines only those of one word are joined: what
# is wrapped for its width alone.
_FOLDED = re.compile(rb">[0-9+-]{0,2}[ \t]*(?:\r?\n[ \t]+[!-~]+){2,1000}(?![^\r\n])")
_FOLD = re.compile(rb"(?:>[0-9+-]{0,2}[ \t]*)?\r?\n[ \t]+")


class TextView:
    """A text as it is seen in one way: *data*, in UTF-8, is it without *cuts*, if there are any.

    Those are told, in order, when somebody asks for the way back, which is seldom.
    """

    def __init__(self, data: bytes, cuts: Callable[[], Iterable[tuple[int, int]]] | None) -> None:
        self.data, self._cuts = data, cuts

    @classmethod
    def of(cls, data: bytes) -> TextView:
        """Return the view of a text that is the text *data* itself."""
        return cls(data, None)

    @property
    def differs(self) -> bool:
        """Whether it is another than the text itself."""
        return self._cuts is not None

    @cached_property
    def _offsets(self) -> tuple[array[int], array[int]]:
        """Where in the view a piece begins, in order, and where each stands in the text."""
        starts, origins = array("Q"), array("Q")
        size = position = 0
        for start, end in self._cuts() if self._cuts is not None else ():
            if start > position:
                starts.append(size)
                origins.append(position)
                size += start - position
            position = end
        starts.append(size)
        origins.append(position)
        return starts, origins

    def joints(self, limit: int) -> list[int] | None:
        """Return where pieces meet in the view, or None if there are more than *limit* of them."""
        joints, removed = list[int](), 0
        for start, end in self._cuts() if self._cuts is not None else ():
            joints.append(start - removed)
            removed += end - start
            if len(joints) > limit:
                return None
        return joints

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where bytes *start* to *end* of the view stand in the text, as one span.

        What was left out inside of them is in it, and what was left out around them is not.
        """
        if self._cuts is None:
            return start, end
        starts, origins = self._offsets
        first = bisect_right(starts, start) - 1
        final = max(bisect_left(starts, end) - 1, first)
        return origins[first] + start - starts[first], origins[final] + end - starts[final]


class JoinedLines(TextView):
    """A text as it is without the ends of its lines, a backslash before and the indentation after.

    Of all views it has by far the most pieces, so none of them is told one by one.
    """

    def __init__(self, data: bytes) -> None:
        self._lines = data.split(b"\n")
        first, *others = self._lines
        self._indented = [first, *[line.lstrip(b" \t") for line in others]]
        pieces = self._indented
        if b"\r" in data or b"\\\n" in data:
            ends = [line.removesuffix(b"\r").removesuffix(b"\\") for line in pieces[:-1]]
            pieces = [*ends, pieces[-1]]
        self._pieces = pieces
        super().__init__(b"".join(pieces), tuple)

    @cached_property
    def _offsets(self) -> tuple[array[int], array[int]]:
        starts = accumulate(map(len, self._pieces[:-1]), initial=0)
        line_starts = accumulate([len(line) + 1 for line in self._lines[:-1]], initial=0)
        indents = map(sub, map(len, self._lines), map(len, self._indented))
        return array("Q", starts), array("Q", map(add, line_starts, indents))

    def joints(self, limit: int) -> list[int] | None:
        """Return where lines meet, or None if there are more than *limit* of them."""
        return None if len(self._lines) > limit else [*self._offsets[0][1:]]


def views(data: bytes) -> Iterator[TextView]:
    """Give views of the text *data*, in UTF-8: itself, and others if there is something to see.

    One other is without escape sequences of terminals (also as they are written in logs and JSON),
    without invisible letters, and with lines joined that end in a backslash. One is of the folded
    scalars of YAML, as if they were not folded.
    """
    yield TextView.of(data)
    if _is_hinted(data):
        stripped = _STRIPPED.sub(b"", data)
        yield from _if_other(data, stripped, lambda: map(re.Match.span, _STRIPPED.finditer(data)))
    if (view := _unfolded(data)) is not None:
        yield view


def all_views(data: bytes) -> Iterator[TextView]:
    """Give what `views` gives, and the text with all its lines joined, if it has several.

    That is where to look for what is known: of what is not, a line may be the whole.
    """
    yield from views(data)
    if b"\n" in data and (view := JoinedLines(data)).data:
        yield view


def _is_hinted(data: bytes) -> bool:
    if b"\x1b" in data or any(hint.search(data) for hint in _HINTS):
        return True
    return not data.isascii() and any(hint in data for hint in _HINTS_BEYOND_ASCII)


def _unfolded(data: bytes) -> TextView | None:
    """Return the folded scalars of *data*, each behind its key, or None if there are none."""
    left_out: list[tuple[int, int]] = []
    position = 0
    for scalar in _FOLDED.finditer(data):
        begin = max(data.rfind(b"\n", position, scalar.start()), position)
        left_out.append((position, begin))
        left_out += [fold.span() for fold in _FOLD.finditer(data, *scalar.span())]
        position = scalar.end()
    if not left_out:
        return None
    left_out.append((position, len(data)))
    pieces = [data[start:end] for (_, start), (end, _) in pairwise([(0, 0), *left_out])]
    return TextView(b"".join(pieces), lambda: left_out)


def _if_other(
    data: bytes, rest: bytes, cuts: Callable[[], Iterable[tuple[int, int]]]
) -> Iterator[TextView]:
    """Give the view *rest* of *data*, which is it without *cuts*, if it is some of it."""
    if 0 < len(rest) < len(data):
        yield TextView(rest, cuts)
