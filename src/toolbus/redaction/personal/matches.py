"""Matches of personal data, the readings of a text in which they are found, and their merging."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.redaction.limits import WorkBudget
from toolbus.redaction.personal.lines import Line
from toolbus.redaction.views import decoded, letter_start, views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.redaction.limits import ScanLimits
    from toolbus.redaction.views import TextView

# Characters of other scripts that look like ASCII signs, one for one.
_ALIKE: dict[int, int | str] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x3000), " "),
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212, 0xFE58, 0xFE63), "-"),
    **{start + digit: str(digit) for start in (0x660, 0x6F0, 0x966) for digit in range(10)},
}
_LOOKS_ALIKE = re.compile(f"[{''.join(map(chr, _ALIKE))}]")
_CHUNK = 1_024

# Bytes that are decoded at once; a value is shorter than the overlap even if fully escaped.
_WINDOW, _OVERLAP = 1 << 16, 1 << 12


class TextReading:
    """One reading of a text: *text* to be scanned, and the mapping back to the original.

    *depth* counts the decodings. *back* maps a span of bytes to bytes of the original, and
    *origins* those bytes to its characters.
    """

    def __init__(
        self,
        text: str,
        depth: int,
        origins: Offsets,
        back: Callable[[int, int], tuple[int, int]],
    ) -> None:
        is_plain = text.isascii() or _LOOKS_ALIKE.search(text) is None
        self.text = text if is_plain else text.translate(_ALIKE)
        self.depth = depth
        self._offsets, self._origins, self._back = Offsets(text), origins, back

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original of characters *start* to *end*."""
        if not self.depth:
            return start, end
        first, stop = self._back(self._offsets.byte(start), self._offsets.byte(end))
        return self._origins.letter(first), self._origins.letter(stop)


class Offsets:
    """Maps characters of a *text* to bytes of its UTF-8, and back."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _bytes(self) -> list[int]:
        """The bytes at which chunks of characters begin."""
        chunks = range(0, len(self._text), _CHUNK)
        return [
            0,
            *accumulate([len(_encoded(self._text[start : start + _CHUNK])) for start in chunks]),
        ]

    def byte(self, letter: int) -> int:
        """Return the byte at which character number *letter* begins."""
        if self._text.isascii():
            return letter
        chunk = letter // _CHUNK
        return self._bytes[chunk] + len(_encoded(self._text[chunk * _CHUNK : letter]))

    def letter(self, byte: int) -> int:
        """Return the number of the character that begins at *byte*."""
        if self._text.isascii():
            return byte
        chunk = bisect_right(self._bytes, byte) - 1
        start = chunk * _CHUNK
        data = _encoded(self._text[start : start + _CHUNK])[: byte - self._bytes[chunk]]
        return min(start, len(self._text)) + len(data.decode(errors="surrogatepass"))


def readings(text: str) -> Iterator[TextReading]:
    """Yield the readings of *text*, the text itself first; most texts have no other."""
    origins = Offsets(text)
    for depth, view in enumerate(views(_encoded(text))):
        seen = text if depth == 0 else _decoded(view.data)
        yield TextReading(seen, 2 * depth, origins, view.span)
        for offset in range(0, max(len(view.data) - _OVERLAP, 1), _WINDOW - _OVERLAP):
            begin = letter_start(view.data, offset)
            end = letter_start(view.data, offset + _WINDOW)
            plain = decoded(view.data[begin:end])
            if plain is not None:
                back = partial(_span, view, plain, begin)
                yield TextReading(_decoded(plain.data), 2 * depth + 1, origins, back)


def _span(view: TextView, plain: TextView, offset: int, start: int, end: int) -> tuple[int, int]:
    """Return the span in the text for a span of *plain*, a view of *view* from *offset* on."""
    first, stop = plain.span(start, end)
    return view.span(first + offset, stop + offset)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogatepass")


class PersonalDataMatch(Struct, frozen=True):
    """A match in a text from *start* to *end*; *value* is its normal form.

    *depth* is the depth of the reading in which it was found.
    """

    start: int
    end: int
    kind: str
    value: str
    depth: int = 0


Judge: TypeAlias = Callable[[re.Match[str], Line], tuple[str, int] | None]
"""Returns the value of a candidate and its end, or None if the candidate is rejected."""

_GROUPS = 6
_REMEMBERED = 50_000


class Appraisal(WorkBudget):
    """The budget of one record's scan, with a cache of libraries' answers about candidates."""

    def __init__(self, limits: ScanLimits) -> None:
        super().__init__(limits)
        self._answers: dict[tuple[Callable[[str], Any], str], Any] = {}

    def ask(self, question: Callable[[str], Any], candidate: str) -> Any:
        """Return *question* of *candidate*, computed once."""
        key = (question, candidate)
        if key not in self._answers:
            self.check()
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = question(candidate)
        return self._answers[key]


def scan(
    pattern: re.Pattern[str], line: Line, kind: str, judge: Judge
) -> Iterator[PersonalDataMatch]:
    """Yield the matches of *pattern* that *judge* accepts; rejected ones may overlap others."""
    position = line.start
    while (match := pattern.search(line.text, position, line.end)) is not None:
        judged = judge(match, line)
        if judged is None:
            position = match.start() + 1
        else:
            value, position = judged
            yield PersonalDataMatch(match.start(), position, kind, value)


def ends_of(match: re.Match[str]) -> Iterator[int]:
    """Yield the possible ends of *match*: another number may follow right behind it."""
    end = match.end()
    for _ in range(_GROUPS):
        yield end
        cut = match.string.rfind(" ", match.start(), end)
        if cut < 0:
            return
        end = cut


def merged(matches: Iterable[PersonalDataMatch]) -> list[PersonalDataMatch]:
    """Return *matches* in order of place, overlapping ones merged into one that covers them all.

    A merged match has the kind and value of the deepest, then the longest, then the first match.
    """
    chosen: list[PersonalDataMatch] = []
    is_alone, size = True, 0
    for match in sorted(matches, key=lambda match: (match.start, match.start - match.end)):
        if not chosen or match.start >= chosen[-1].end or (is_alone and _cleans(match, chosen[-1])):
            if chosen and match.start < chosen[-1].end:
                chosen.pop()
            chosen.append(match)
            is_alone, size = True, match.end - match.start
            continue
        previous = decisive = chosen.pop()
        if (match.depth, match.end - match.start) > (previous.depth, size):
            decisive, size = match, match.end - match.start
        end = max(previous.end, match.end)
        chosen.append(replace(decisive, start=previous.start, end=end))
        is_alone = False
    return chosen


def _cleans(match: PersonalDataMatch, wider: PersonalDataMatch) -> bool:
    """Return whether *match* is *wider* without an escape that a deeper reading has decoded."""
    return (
        match.kind == wider.kind
        and match.depth > wider.depth
        and wider.start <= match.start
        and match.end <= wider.end
    )


def located(match: PersonalDataMatch, reading: TextReading) -> PersonalDataMatch:
    """Return *match*, found in *reading*, with its span in the original text."""
    if not reading.depth:
        return match
    start, end = reading.span(match.start, match.end)
    return replace(match, start=start, end=end, depth=reading.depth)
