r"""What stands escaped in a text, as URLs, HTML, JSON and programs escape it: one level of it.

`jane%40x.com`, `jane&#64;x.com` and `jane\u0040x.com` are read as what they mean. Only the lines
around an escape are read anew, and what is found there leads back to where it stands in the text.
"""

from __future__ import annotations

import re
from html.entities import html5
from typing import TYPE_CHECKING

from toolbus.redaction.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

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
"""How many bytes of a long line are read before and behind an escape."""


def decoded(data: bytes) -> View | None:
    """Return the lines of the text *data*, in UTF-8, that have escapes, without these, or None."""
    pieces = [*_pieces(data)]
    if not pieces:
        return None
    view = b"".join([segment for _, _, segment in pieces])
    return View(view, lambda: [(start, end, len(segment)) for start, end, segment in pieces])


def _pieces(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Give where each piece of the lines with escapes begins and ends, and how it is read."""
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
    start = data.rfind(b"\n", earliest, start) + 1 or earliest
    while data[start] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629: amid of a letter
        start += 1
    return start


def _line_end(data: bytes, end: int) -> int:
    limit = min(end + _AROUND, len(data))
    stop = data.find(b"\n", end, limit)
    stop = limit if stop < 0 else stop
    while stop < len(data) and data[stop] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        stop += 1
    return stop


def _meaning(escape: re.Match[bytes]) -> bytes | None:
    """Return the letter that *escape* stands for, in UTF-8, or None if it stands for none."""
    octet, decimal, hexadecimal, name, unit, byte, short = escape.groups()
    if octet is not None:
        code = int(octet, 16)
        # Others are bytes of a letter, which no number and hardly an address has.
        return bytes([code]) if code < 0x80 else None  # noqa: PLR2004 - the end of ASCII
    if short is not None:
        return _SHORT[short]
    if name is not None:
        code = _NAMED.get(name, 0)
    else:
        code = int(decimal) if decimal is not None else int(hexadecimal or unit or byte, 16)
    try:
        return chr(code).encode() if code else None
    except (ValueError, OverflowError):  # A half of a pair, or beyond Unicode.
        return None
