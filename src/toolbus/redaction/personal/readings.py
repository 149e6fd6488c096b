"""The ways to read a text: as it stands, without what nobody sees, and without escapes."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from toolbus.redaction.views import decoded, views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.redaction.views import View

# As people write them in other scripts: signs that look alike, each in place of one.
_ALIKE: dict[int, int | str] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x3000), " "),
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212, 0xFE58, 0xFE63), "-"),
    **{start + digit: str(digit) for start in (0x660, 0x6F0, 0x966) for digit in range(10)},
}
_LOOKS_ALIKE = re.compile(f"[{''.join(map(chr, _ALIKE))}]")
_CHUNK = 1_024

# Bytes that are decoded at once; nothing is as long as the overlap, with all its letters escaped.
_WINDOW, _OVERLAP = 1 << 16, 1 << 12


class TextReading:
    """A *text* to be searched, with the way back to the one that it is a reading of.

    *depth* is how much was taken off that one. *back* maps a span of bytes.
    """

    def __init__(
        self,
        text: str,
        depth: int,
        original: str,
        back: Callable[[int, int], tuple[int, int]],
    ) -> None:
        is_plain = text.isascii() or _LOOKS_ALIKE.search(text) is None
        self.text = text if is_plain else text.translate(_ALIKE)
        self.depth = depth
        self._written, self._original, self._back = text, original, back

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where letters *start* to *end* stand in the original."""
        if not self.depth:
            return start, end
        first, stop = self._back(self._offsets.byte(start), self._offsets.byte(end))
        return self._origins.letter(first), self._origins.letter(stop)

    @cached_property
    def _offsets(self) -> Offsets:
        return Offsets(self._written)

    @cached_property
    def _origins(self) -> Offsets:
        return Offsets(self._original)


class Offsets:
    """Which byte of a *text*, in UTF-8, a letter begins at, and the other way round."""

    def __init__(self, text: str) -> None:
        self._text = text
        chunks = [] if text.isascii() else range(0, len(text), _CHUNK)
        sizes = (len(_encoded(text[start : start + _CHUNK])) for start in chunks)
        self._bytes = [0, *accumulate(sizes)]

    def byte(self, letter: int) -> int:
        """Return the byte at which *letter* begins."""
        if self._text.isascii():
            return letter
        chunk = letter // _CHUNK
        return self._bytes[chunk] + len(_encoded(self._text[chunk * _CHUNK : letter]))

    def letter(self, byte: int) -> int:
        """Return the letter that begins at *byte*."""
        if self._text.isascii():
            return byte
        chunk = bisect_right(self._bytes, byte) - 1
        start = chunk * _CHUNK
        data = _encoded(self._text[start : start + _CHUNK])[: byte - self._bytes[chunk]]
        return min(start, len(self._text)) + len(data.decode(errors="surrogatepass"))


def readings(text: str) -> Iterator[TextReading]:
    """Give the readings of *text*, itself first; most texts have no other."""
    for depth, view in enumerate(views(_encoded(text))):
        seen = text if depth == 0 else _decoded(view.data)
        yield TextReading(seen, 2 * depth, text, view.span)
        for offset in range(0, max(len(view.data) - _OVERLAP, 1), _WINDOW - _OVERLAP):
            begin, end = _letters(view.data, offset), _letters(view.data, offset + _WINDOW)
            plain = decoded(view.data[begin:end])
            if plain is not None:
                back = _through(view, plain, begin)
                yield TextReading(_decoded(plain.data), 2 * depth + 1, text, back)


def _letters(data: bytes, offset: int) -> int:
    """Return *offset*, or where the letter begins that it is amid of."""
    while 0 < offset < len(data) and data[offset] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        offset -= 1
    return offset


def _through(view: View, plain: View, offset: int) -> Callable[[int, int], tuple[int, int]]:
    """Return the way back from *plain*, which is of what stands from *offset* of *view* on."""

    def back(start: int, end: int) -> tuple[int, int]:
        first, stop = plain.span(start, end)
        return view.span(first + offset, stop + offset)

    return back


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogatepass")
