"""The gate before an examination: one quick look at a small record, since most hold no secret.

A record passes only if the searches of an examination's first round find nothing in it. Without a
find nothing is numbered, rewritten or looked at again, so that round is the whole examination.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.redaction.secrets.collecting import Collector, SecretVisitor, strings
from toolbus.redaction.secrets.places import known_places, places
from toolbus.redaction.secrets.scanning import ESCAPED, joint_spans
from toolbus.redaction.views import looks_the_same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.secrets.engine import Engine, Spans
    from toolbus.redaction.secrets.examination import Sight
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

T = TypeVar("T")

_SMALL = 16_384
"""Characters up to which no other task has to have its turn in between."""

_PATIENCE = 64
"""Steps after which one text is left to the examination, which lets others have their turn."""

_has_escapes = re.compile(ESCAPED).search


def passes(
    record: T,
    walk: Callable[[T, TextVisitor], T],
    registry: SecretRegistry,
    sight: Sight,
    stream: str | None = None,
) -> bool:
    """Return whether an examination of *record* would find nothing; False where that is not sure.

    A record that passes is the latest one of its *stream*, as if it had been examined.
    """
    limits, since = sight.limits, sight.limits.clock()
    collector = Collector(min(limits.chars, _SMALL))
    visitor = _FirstTexts(collector)
    try:
        # A walk that changes a record by itself has done so before anything is found.
        clean = walk(record, visitor) is record
        tail = None if stream is None else registry.tail(stream)
        for data, spans in _texts(collector, (tail, *visitor.first) if tail else ()):
            if not clean:
                break
            clean = not _finds(data, spans, registry, sight.engine)
        limits.check(limits.clock() - since, collector.chars)
    except Exception:  # noqa: BLE001 - the examination meets it again, and says so
        return False
    if clean and stream is not None:
        registry.follow(stream, visitor.latest)
    return clean


class _FirstTexts(SecretVisitor):
    """Shows *collector* the texts of a record, and notes the *first* ones, and the *latest*.

    The end of an earlier record goes before the first ones; the latest is what goes on.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector, self.latest = collector, ""
        self.first: tuple[str, ...] = ()

    def json(self, value: Any) -> Any:
        """Show *value*, which no other record goes on in."""
        return self._collector.json(value)

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Show *texts*."""
        self.first, self.latest = self.first or texts, self.latest or texts[-1]
        return self._collector.texts(texts)


def _texts(
    collector: Collector, behind_tail: tuple[str, ...]
) -> Iterator[tuple[bytes, Spans | None]]:
    """Give each text that an examination looks at, and the spans of it where texts meet.

    *behind_tail* are texts of the record behind one of an earlier record, which was examined there.
    """
    for group in collector.groups:
        yield from _group(group)
    if behind_tail:
        yield _joined(behind_tail)
    for encoded, value in collector.values.items():
        yield encoded.encode(), None
        for group in strings(value):
            # Any other string stands in the whole as it is.
            if len(group) > 1 or _has_escapes(group[0]):
                yield from _group(group)


def _group(group: tuple[str, ...]) -> Iterator[tuple[bytes, Spans | None]]:
    for text in group:
        yield text.encode(), None
    if len(group) > 1:
        yield _joined(group)


def _joined(group: tuple[str, ...]) -> tuple[bytes, Spans]:
    return "".join(group).encode(), joint_spans(group)


def _finds(
    data: bytes, spans: Spans | None, registry: SecretRegistry, engine: Engine | None
) -> bool:
    """Return whether anything is found in *data*, or the search for it takes long."""
    if engine is not None and _any(
        engine.find(data, spans) if looks_the_same(data) else places(engine.find, data, spans)
    ):
        return True
    if not registry.knows():
        return False
    return _any(known_places(registry.find, data, spans, blank=registry.has_blank()))


def _any(hits: Iterator[object]) -> bool:
    return any(hit is not None or step > _PATIENCE for step, hit in enumerate(hits))
