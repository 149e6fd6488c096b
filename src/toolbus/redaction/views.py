"""Views of a text: without colours and invisible characters, with lines joined, or unescaped.

A secret or an address may have characters inside it that a reader does not see: a terminal's
colour, a soft hyphen, the line break of a shell command. A value found in a view is edited in the
text itself, so each view maps its positions back to the text.

Each function is linear, and a clean text costs a few searches for single bytes.

Escapes of URLs, HTML, JSON and programs are decoded as well, one level of them: `jane%40x.com` and
`jane&#64;x.com` are read as `jane@x.com`. Only the lines around an escape are scanned again.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property
from html.entities import html5
from itertools import islice, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    Piece: TypeAlias = tuple[int, int, int]

# Each pattern begins with one rare character, so that the search leaps to it.
# ECMA-48, sections 5.3 to 5.6: a control sequence, a string with its end, and short ones. A string
# stops before the possible start of another, so that unfinished strings are not read repeatedly.
_SEQUENCE = re.compile(
    rb"\x1b\x1b*(?:\[[0-?]*[ -/]*[@-~]"
    rb"|[\]PX^_][^\n\x07\x1b\\]*(?:\x07|\x1b\\)?"
    rb"|[#%()*+][0-~]|[0-~])?"
)
# Escape sequences as programs write them into logs and JSON, visible there; only colours and the
# like. And a line that ends in a backslash, also inside JSON: YAML continues behind the next
# line's indentation, a shell with it; in a line of one word the indentation does not count.
_WRITTEN = re.compile(
    rb"\\(?:(?<!\\\\)\\{0,7}(?:x1[bB]|u001[bB]|u\{1[bB]\}|0?33|[eE])\[[0-?]*[ -/]*[A-Za-z]"
    rb"|(?:\r?\n|\\\\n)(?:[ \t]+(?=[^\s\\]+\\?[ \t]*(?:\r?\n|\\n|\Z)))?)"
)
_IN_CARETS = re.compile(rb"\^(?=\[\[)\[\[[0-?]*[ -/]*[A-Za-z]")
# Eight-bit sequences; soft hyphen; zero-width space, joiners and marks of direction; word joiner;
# byte order mark and variation selectors; those of Mongolian and combining characters.
_UNSEEN = (
    (b"\x1b", _SEQUENCE),
    (b"\\", _WRITTEN),
    (b"^", _IN_CARETS),
    (b"\xc2", re.compile(rb"\xc2(?:\xad|\x9b[0-?]*[ -/]*[@-~]?)")),
    (b"\xe2", re.compile(rb"\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xaf])")),
    (b"\xef", re.compile(rb"\xef(?:\xbb\xbf|\xb8[\x80-\x8f])")),
    (b"\xe1\xa0\x8e", re.compile(rb"\xe1(?=\xa0\x8e)..")),
    (b"\xcd\x8f", re.compile(rb"\xcd(?=\x8f).")),
)
_UNSEEN_ASCII = _UNSEEN[:3]
# Bytes that a view shows beside something unseen: to the first line's end behind _NEAR bytes, and
# at most _FAR.
_NEAR, _FAR = 512, 4_096
# Bytes that are scanned before other tasks have a turn.
_BLOCK = 131_072
# Line breaks, also escaped ones of JSON and of shells.
_LINE_BREAK = re.compile(rb"\\?\r?\n[ \t]*|(?:\\r)?\\n[ \t]*")
_WRITTEN_BREAK = re.compile(rb"\\[rn]")
_BLANKS = b" \t\r\n\\"
# YAML 1.2.2, section 8.1.3: a folded scalar. Only lines of one word are joined: values that are
# wrapped for their width alone.
_FOLDED = re.compile(rb">[0-9+-]{0,2}[ \t]*(?:\r?\n[ \t]+[!-~]+){2,1000}(?![^\r\n])")
_FOLD = re.compile(rb"(?:>[0-9+-]{0,2}[ \t]*)?\r?\n[ \t]+")


class TextView:
    """One view of a text: *data*, in UTF-8, and the mapping back to the text.

    *pieces* yields for each piece of the view its start and end in the text and its size here; it
    is called for the first mapping back, which is rare, and None if the view is the text itself.
    *end* is the end of the part of the text that the view covers.
    """

    def __init__(
        self,
        data: bytes,
        pieces: Callable[[], Iterable[Piece]] | None = None,
        end: int | None = None,
    ) -> None:
        self.data, self._pieces = data, pieces
        self.end = len(data) if end is None else end

    @cached_property
    def _origins(self) -> tuple[array[int], array[int], array[int]]:
        """The start of each piece in the view, in order, and its start and end in the text."""
        starts, origins, ends = array("Q"), array("Q"), array("Q")
        size = 0
        for origin, end, length in self._pieces() if self._pieces is not None else ():
            starts.append(size)
            origins.append(origin)
            ends.append(end)
            size += length
        return starts, origins, ends

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the text of bytes *start* to *end* of the view.

        The span includes bytes left out inside of it, and none that were left out around it.
        """
        if self._pieces is None:
            return start, end
        starts, origins, ends = self._origins
        first = bisect_right(starts, start) - 1
        final = max(bisect_left(starts, end) - 1, first)
        # A piece may be shorter here than in the text; the span then includes all of it.
        behind = starts[final + 1] if final + 1 < len(starts) else len(self.data)
        stop = ends[final] if end == behind else origins[final] + end - starts[final]
        return origins[first] + start - starts[first], stop


def views(data: bytes) -> Iterator[TextView]:
    """Yield the views of the text *data*, in UTF-8: the text itself, and others that differ."""
    yield TextView(data)
    yield from other_views(data)


def other_views(data: bytes) -> Iterator[TextView]:
    """Yield the views of the text *data*, in UTF-8, other than *data* itself.

    Views cover parts of the text: without escape sequences of terminals (also as written in logs
    and JSON), without invisible characters, and with lines joined that end in a backslash; and
    folded scalars of YAML, unfolded.
    """
    patterns = _patterns(data)
    for start in range(0, len(data) if patterns else 0, _BLOCK):
        unseen = _unseen(patterns, data, max(0, start - _FAR), start + _BLOCK + _FAR)
        for begin, end, number, count in _windows(data, unseen):
            yield from _part(data, (begin, end), unseen[number : number + count])
    for scalar in _FOLDED.finditer(data):
        start, end = scalar.span()
        begin = max(data.rfind(b"\n", max(0, start - _FAR), start), 0)
        folds = [fold.span() for fold in _FOLD.finditer(data, start, end)]
        yield from _part(data, (begin, end), folds)


def looks_the_same(data: bytes) -> bool:
    """Return whether a quick test shows that *data* and its parts have no `other_views`."""
    # Most texts have none of these bytes, and one search for each is the fastest test.
    has_signs = b"\\" in data or b">" in data or b"\x1b" in data or b"^" in data
    return not has_signs and data.isascii()


def _patterns(data: bytes) -> list[re.Pattern[bytes]]:
    """Return the patterns of invisible characters that may match in *data*."""
    beginnings = _UNSEEN_ASCII if data.isascii() else _UNSEEN
    # Searching a single byte is several times as fast as searching several.
    return [
        pattern for beginning, pattern in beginnings if beginning[:1] in data and beginning in data
    ]


def views_to_end(data: bytes) -> Iterator[TextView]:
    """Yield the `views` of *data* that include its end, *data* itself first."""
    yield TextView(data)
    yield from (view for view in other_views(data) if view.end == len(data))


def joined_views(data: bytes) -> Iterator[TextView]:
    """Yield the view of *data* with all its lines joined, if it has several.

    The view serves the search for known values; an unknown value may be a whole line.
    """
    rest = without_line_breaks(data)
    if 0 < len(rest) < len(data):
        end = (len(data), len(data))
        yield TextView(
            rest, lambda: _between([*map(re.Match.span, _LINE_BREAK.finditer(data)), end])
        )


def without_line_breaks(data: bytes) -> bytes:
    """Return *data* with all its lines joined."""
    return _LINE_BREAK.sub(b"", data)


def squeezed(data: bytes) -> bytes:
    """Return *data* without blanks, line breaks and backslashes; a fast test.

    A value without any of these that is not in the result is not in `joined_views` either.
    """
    return _WRITTEN_BREAK.sub(b"", data).translate(None, _BLANKS)


def _unseen(
    patterns: list[re.Pattern[bytes]], data: bytes, start: int, end: int
) -> list[tuple[int, int]]:
    """Return the spans of matches of *patterns* in *data* from *start* to *end*, in order."""
    # The matches of each pattern are in order already, so sorting is fast.
    return sorted(
        [match.span() for pattern in patterns for match in pattern.finditer(data, start, end)]
    )


def _windows(data: bytes, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the parts of *data* around *spans*: begin, end, first span and number of spans."""
    number = 0
    while number < len(spans):
        begin, count = _begin(data, spans[number][0]), 0
        end = begin
        for start, stop in islice(spans, number, None):
            if count and start > end:
                break
            if stop + _NEAR > end:
                end = _end(data, stop)
            count += 1
        yield begin, end, number, count
        number += count


def _begin(data: bytes, start: int) -> int:
    """Return the start of a line some way before *start*, or at least of a character."""
    far = max(0, start - _FAR)
    line = data.rfind(b"\n", far, max(0, start - _NEAR))
    return line if line >= 0 else letter_start(data, far)


def _end(data: bytes, end: int) -> int:
    """Return the end of a line some way behind *end*, or at least of a character."""
    far = min(end + _FAR, len(data))
    line = data.find(b"\n", end + _NEAR, far)
    return line if line >= 0 else letter_start(data, far)


def letter_start(data: bytes, index: int) -> int:
    """Return the start of the character in *data* that includes the byte at *index*."""
    while 0 < index < len(data) and data[index] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        index -= 1
    return index


def letter_end(data: bytes, index: int) -> int:
    """Return *index*, or the end of the character in *data* if *index* is inside one."""
    while index < len(data) and data[index] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        index += 1
    return index


def _part(data: bytes, window: tuple[int, int], cuts: list[tuple[int, int]]) -> Iterator[TextView]:
    """Yield the view of *data* in *window* without *cuts*, if anything is left."""
    (begin, end), all_cuts = window, [(0, window[0]), *cuts, (window[1], len(data))]
    rest = b"".join([data[start:stop] for (_, start), (stop, _) in pairwise(all_cuts)])
    if rest and len(rest) < end - begin:
        yield TextView(rest, lambda: _between(all_cuts), end)


def _between(cuts: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    """Yield the pieces of a text between its *cuts*; the last cut is at the text's end."""
    position = 0
    for start, end in cuts:
        if start > position:
            yield position, start, start - position
        position = end


# RFC 3986, section 2.1; HTML, section 13.5; RFC 8259, section 7. JSON in JSON has more backslashes.
_ESCAPE = re.compile(
    rb"%([0-9A-Fa-f]{2})"
    rb"|&#(?:([0-9]{1,7})|[xX]([0-9A-Fa-f]{1,6}));"
    rb"|&([A-Za-z]{2,8});"
    rb"|\\{1,8}(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([nrtbf\"/]))"
)
_NAMED = {
    name[:-1].encode(): ord(sign)
    for name, sign in html5.items()
    if name[-1] == ";" and len(sign) == 1
}
_SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b" ", b"f": b" ", b'"': b'"', b"/": b"/"}
_AROUND = 512
"""Bytes of a long line that are scanned before and behind an escape."""


def decoded(data: bytes) -> TextView | None:
    """Return the lines of *data*, UTF-8, that have escapes, decoded; None if there are none."""
    pieces = [*_pieces(data)]
    if not pieces:
        return None
    view = b"".join([segment for _, _, segment in pieces])
    return TextView(view, lambda: [(start, end, len(segment)) for start, end, segment in pieces])


def _pieces(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and decoded bytes of each piece of the lines with escapes."""
    position = stop = 0
    for escape in _ESCAPE.finditer(data) if _is_hinted(data) else ():
        sign = _meaning(escape)
        if sign is None:
            continue
        start, end = escape.span()
        if start >= stop:
            if position < stop:
                yield position, stop, data[position:stop]
            position = _line_start(data, start, stop)
            yield position, position, b"\n"
        if position < start:
            yield position, start, data[position:start]
        yield start, end, sign
        position, stop = end, max(stop, _line_end(data, end))
    if position < stop:
        yield position, stop, data[position:stop]


def _is_hinted(data: bytes) -> bool:
    return b"%" in data or b"&" in data or b"\\" in data


def _line_start(data: bytes, start: int, earliest: int) -> int:
    earliest = max(start - _AROUND, earliest)
    return letter_end(data, data.rfind(b"\n", earliest, start) + 1 or earliest)


def _line_end(data: bytes, end: int) -> int:
    limit = min(end + _AROUND, len(data))
    stop = data.find(b"\n", end, limit)
    return letter_end(data, limit if stop < 0 else stop)


def _meaning(escape: re.Match[bytes]) -> bytes | None:
    """Return the character of *escape*, in UTF-8, or None if it is not a valid escape."""
    octet, decimal, hexadecimal, name, unit, byte, short = escape.groups()
    if octet is not None:
        code = int(octet, 16)
        # Bytes above ASCII belong to characters that numbers never and addresses hardly have.
        return bytes([code]) if code < 0x80 else None  # noqa: PLR2004 - the end of ASCII
    if short is not None:
        return _SHORT[short]
    if name is not None:
        code = _NAMED.get(name, 0)
    else:
        code = int(decimal) if decimal is not None else int(hexadecimal or unit or byte, 16)
    try:
        return chr(code).encode() if code else None
    except (ValueError, OverflowError):  # A lone surrogate, or beyond Unicode.
        return None
