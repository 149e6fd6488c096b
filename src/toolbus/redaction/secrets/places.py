"""Where rules match in a text, or in any view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.redaction.views import views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.redaction.secrets.engine import Engine, Hit


class Place(NamedTuple):
    """Bytes of a text from *start* to *end*, where *hit* found *value* in *data*, a view of it."""

    start: int
    end: int
    value: str
    data: bytes
    hit: Hit


def places(engine: Engine, data: bytes, check: Callable[[], None]) -> Iterator[Place]:
    """Give where the rules of *engine* match in *data*; *check* is called often, and may raise."""
    for view in views(data):
        for hit in engine.find(view.data, check):
            start, end = _whole(view.data, hit)
            value = view.data[start:end].decode()
            yield Place(*view.span(start, end), value, view.data, hit)


def _whole(data: bytes, hit: Hit) -> tuple[int, int]:
    """Return the bytes of *hit*, and the rest of a letter that it begins or ends in."""
    start, end = hit.start, hit.end
    while start and data[start] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        end += 1
    return start, end
