"""Where rules match in a text, or in any view of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toolbus.redaction.secrets.engine import REACH
from toolbus.redaction.views import joined_views, looks_the_same, other_views, squeezed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from toolbus.redaction.secrets.engine import Hit, Spans
    from toolbus.redaction.views import View

    Find: TypeAlias = Callable[[bytes, Spans | None], Iterator[Hit | None]]

# What has one is not found in a text without them.
BLANK = re.compile(r"[\s\\]")


class Place(NamedTuple):
    """Bytes of a text from *start* to *end*, where *hit* found *value* in *data*, a view of it."""

    start: int
    end: int
    value: str
    data: bytes
    hit: Hit


def places(find: Find, data: bytes, spans: Spans | None) -> Iterator[Place | None]:
    """Give where *find* finds something in *data*, or in another view of it.

    With *spans* only there. None is given between, as in `Engine.find`.
    """
    for hit in find(data, spans):
        yield hit and _place(data, hit)
    if not looks_the_same(data, is_whole=spans is None):
        yield from _places_in_views(find, data, spans, other_views)


def known_places(
    find: Find, data: bytes, spans: Spans | None, *, blank: bool = False
) -> Iterator[Place | None]:
    """Do as `places`, and also give what *find* finds where lines break inside of it.

    *blank* says that some of it has blanks or backslashes inside.
    """
    # That is not found in what is squeezed.
    count = -1 if blank and (b"\n" in data or b"\\n" in data) else 0
    for hit in find(data, spans):
        place = hit and _place(data, hit)
        count += place is not None and BLANK.search(place.value) is None
        yield place
    if not looks_the_same(data, is_whole=spans is None):
        yield from _places_in_views(find, data, spans, other_views)
    for start, end in spans or ((0, len(data)),):
        # What begins in a span may go on behind it.
        near = data[_letter(data, start) : end + REACH]
        has_breaks = count >= 0 and (b"\n" in near or b"\\n" in near)
        for hit in find(squeezed(near), None) if has_breaks else ():
            count -= hit is not None
            if hit is None:
                yield None
    if count < 0:
        yield from _places_in_views(find, data, spans, joined_views)


def around(places: Iterable[tuple[int, int]], reach: int = REACH) -> Spans:
    """Return the spans in which something may begin that holds one of the *places*, in order."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted(places):
        begin, stop = max(0, start - reach), end + reach
        if spans and begin <= spans[-1][1]:
            begin, former_stop = spans.pop()
            stop = max(stop, former_stop)
        spans.append((begin, stop))
    return spans


def _places_in_views(
    find: Find,
    data: bytes,
    spans: Spans | None,
    see: Callable[[bytes], Iterator[View]],
) -> Iterator[Place | None]:
    """Give what *find* finds in the views of *data* that *see* gives."""
    for start, end in spans or ((0, len(data)),):
        begin = _letter(data, start)
        for view in see(data if spans is None else data[begin:end]):
            for hit in find(view.data, None):
                if hit is None:
                    yield None
                    continue
                place = _place(view.data, hit)
                first, stop = view.span(place.start, place.end)
                yield place._replace(start=first + begin, end=stop + begin)


def _place(data: bytes, hit: Hit) -> Place:
    """Return where *hit* is in *data*, with the rest of a letter that it begins or ends in."""
    start, end = hit.start, hit.end
    if not data[start:end].isascii():
        start = _letter(data, start)
        while end < len(data) and _goes_on(data[end]):
            end += 1
    return Place(start, end, data[start:end].decode(), data, hit)


def _letter(data: bytes, index: int) -> int:
    """Return where the letter begins in *data* that has the byte at *index*."""
    while 0 < index < len(data) and _goes_on(data[index]):
        index -= 1
    return index


def _goes_on(byte: int) -> bool:
    return byte & 0xC0 == 0x80  # noqa: PLR2004 - RFC 3629, section 3
