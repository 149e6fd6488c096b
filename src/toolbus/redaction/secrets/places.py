"""Where rules match in a text, or in any view of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toolbus.redaction.secrets.engine import REACH
from toolbus.redaction.views import TextView, joined_views, looks_the_same, other_views, squeezed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.redaction.secrets.engine import Hit, Spans

# What has one is not found in a text without them.
BLANK = re.compile(r"[\s\\]")


class Place(NamedTuple):
    """Bytes of a text from *start* to *end*, where *hit* found *value* in *data*, a view of it."""

    start: int
    end: int
    value: str
    data: bytes
    hit: Hit


def places(
    find: Callable[[bytes, Spans | None], Iterator[Hit | None]],
    data: bytes,
    spans: Spans | None,
) -> Iterator[Place | None]:
    """Give where *find* finds something in *data*, or in another view of it.

    With *spans* only there. None is given between, as in `Engine.find`.
    """
    for hit in find(data, spans):
        yield hit and _place(TextView.of(data), hit)
    if spans is not None or not looks_the_same(data):
        yield from _places_in_views(find, data, spans, other_views)


def known_places(
    find: Callable[[bytes, Spans | None], Iterator[Hit | None]],
    data: bytes,
    spans: Spans | None,
    *,
    blank: bool = False,
) -> Iterator[Place | None]:
    """Do as `places`, and also give what *find* finds where lines break inside of it.

    *blank* says that some of it has blanks or backslashes inside.
    """
    # That is not found in what is squeezed.
    count = -1 if blank and (b"\n" in data or b"\\n" in data) else 0
    view = TextView.of(data)
    for hit in find(data, spans):
        place = hit and _place(view, hit)
        count += place is not None and BLANK.search(place.value) is None
        yield place
    if spans is not None or not looks_the_same(data):
        yield from _places_in_views(find, data, spans, other_views)
    for start, end in spans or ((0, len(data)),):
        # What begins in a span may go on behind it.
        near = data[_letter(data, start) : end + REACH]
        has_breaks = count >= 0 and (b"\n" in near or b"\\n" in near)
        for hit in find(squeezed(near), None) if has_breaks else ():
            count -= hit is not None
            yield None
    if count < 0:
        yield from _places_in_views(find, data, spans, joined_views)


def _places_in_views(
    find: Callable[[bytes, Spans | None], Iterator[Hit | None]],
    data: bytes,
    spans: Spans | None,
    see: Callable[[bytes], Iterator[TextView]],
) -> Iterator[Place | None]:
    """Give what *find* finds in the views of *data* that *see* gives."""
    for start, end in spans or ((0, len(data)),):
        begin = _letter(data, start)
        for view in see(data if spans is None else data[begin:end]):
            for hit in find(view.data, None):
                yield None if hit is None else _place(view, hit, begin)


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


def _place(view: TextView, hit: Hit, offset: int = 0) -> Place:
    """Return where *hit* is, with the rest of a letter that it begins or ends in."""
    start, end = _letter(view.data, hit.start), hit.end
    while end < len(view.data) and _goes_on(view.data[end]):
        end += 1
    value = view.data[start:end].decode()
    begin, stop = view.span(start, end)
    return Place(begin + offset, stop + offset, value, view.data, hit)


def _letter(data: bytes, index: int) -> int:
    """Return where the letter begins in *data* that has the byte at *index*."""
    while 0 < index < len(data) and _goes_on(data[index]):
        index -= 1
    return index


def _goes_on(byte: int) -> bool:
    return byte & 0xC0 == 0x80  # noqa: PLR2004 - RFC 3629, section 3
