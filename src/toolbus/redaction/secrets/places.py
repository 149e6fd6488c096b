"""Where rules match in a text, or in any view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.redaction.secrets.engine import REACH
from toolbus.redaction.views import TextView, views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.redaction.secrets.engine import Hit, Spans


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
    see: Callable[[bytes], Iterator[TextView]] = views,
) -> Iterator[Place | None]:
    """Give where *find* finds something in *data*, or in another view of it, as *see* gives them.

    With *spans* only there. None is given between, as in `Engine.find`.
    """
    plain = TextView.of(data)
    for hit in find(data, spans):
        yield None if hit is None else _place(plain, hit)
    for start, end in spans or ((0, len(data)),):
        begin = _letter(data, start)
        for view in see(data if spans is None else data[begin:end]):
            for hit in find(view.data, _seams(view)) if view.differs else ():
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


def _seams(view: TextView) -> Spans | None:
    """Return where to look in *view*: of what stands in one piece the text itself tells."""
    joints = view.joints(len(view.data) // REACH)
    return None if joints is None else around([(joint, joint) for joint in joints])


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
