"""The search for secrets that are known, in whatever form they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.redaction.secrets.boundaries import PARTING, open_value
from toolbus.redaction.secrets.engine import REACH, Engine
from toolbus.redaction.secrets.forms import LONGEST, expression
from toolbus.redaction.secrets.places import BLANK
from toolbus.redaction.secrets.rules import Rule
from toolbus.redaction.views import joined_views, views_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.secrets.engine import Hit, Spans

_BATCH, _BATCH_CHARS, _CHUNK = 32, 2_048, 1_024

_MERGED, _MERGED_SIZE = 128, 56_000
"""Expressions in a batch that is complete, and letters of them: RE2's filter takes some 80,000."""


class SecretSearch:
    """The expressions for telling secrets, in pieces if they are long."""

    def __init__(self) -> None:
        # Each new secret makes the engine of its batch anew, which takes its time, and looking by
        # each batch takes the same time, however large it is: so the last one is small.
        self._batches: dict[int, dict[str, Rule]] = {}
        self._engines: dict[int, Engine] = {}
        self._chunks: dict[str, tuple[str, ...]] = {}
        self._open: dict[str, Any | None] = {}
        self._blank: set[str] = set()

    def is_open(self, data: bytes) -> bool:
        """Tell whether *data*, cut where a growing text may be, ends amid of one that has blanks.

        Others have none inside, in whatever form they stand.
        """
        for text in (*views_to_end(data), *joined_views(data)) if self._open else ():
            view = text.data
            for form, known in self._open.items():
                # It is made when an answer is said, and then kept.
                expression = self._open[form] = known or open_value(form)
                if expression.search(view).start() < len(view.rstrip(b" \t")):
                    return True
        return False

    def has_blank(self) -> bool:
        """Tell whether any has a blank or a backslash inside."""
        return bool(self._blank)

    def knows(self) -> bool:
        """Tell whether there is anything to be found."""
        return bool(self._batches)

    def find(self, data: bytes, spans: Spans | None = None) -> Iterator[Hit | None]:
        """Give where secrets stand in *data*, in any form; the rule is the placeholder.

        It is looked at, and None is given between, as in `Engine.find`.
        """
        # Whoever has a turn in between may add and remove some.
        for number, batch in tuple(self._batches.items()):
            if number not in self._engines:
                reach = max(REACH, LONGEST * max(map(len, batch)))
                self._engines[number] = Engine(tuple(batch.values()), reach)
            names = {rule.name for rule in batch.values()}
            for hit in self._engines[number].find(data, spans):
                # The engine may know one that was removed since it was made.
                if hit is None or hit.rule.name in names:
                    yield hit

    def add(self, form: str, placeholder: str) -> None:
        """Search for *form*, which *placeholder* stands for."""
        if form in self._chunks:
            return
        # The last piece is none by itself: it could be of one letter.
        cuts = range(0, max(len(form) - _CHUNK // 2, 1), _CHUNK)
        chunks = [form[start : start + _CHUNK] for start in cuts[:-1]] + [form[cuts[-1] :]]
        self._chunks[form] = tuple(chunks)
        if PARTING.search(form):
            self._open[form] = None
        if BLANK.search(form):
            self._blank.add(form)
        for chunk in chunks:
            self._enter(chunk, placeholder)

    def remove(self, form: str) -> None:
        """Search for *form* no more."""
        self._open.pop(form, None)
        self._blank.discard(form)
        for chunk in self._chunks.pop(form, ()):
            for number, batch in tuple(self._batches.items()):
                if batch.pop(chunk, None) is not None and not batch:
                    del self._batches[number]
                    self._engines.pop(number, None)

    def _enter(self, chunk: str, placeholder: str) -> None:
        number = max(self._batches, default=0)
        batch = self._batches.get(number, {})
        if len(batch) >= _BATCH or sum(map(len, batch)) + len(chunk) > _BATCH_CHARS:
            self._merge(number)
            number += 1
        rule = Rule(placeholder, expression(chunk), foreign=True)
        self._batches.setdefault(number, {})[chunk] = rule
        self._engines.pop(number, None)

    def _merge(self, newest: int) -> None:
        """Put what is in the batch *newest* to that before it, if there is room."""
        before = max((number for number in self._batches if number < newest), default=None)
        if before is None or newest not in self._batches:
            return
        merged = {**self._batches[before], **self._batches[newest]}
        size = sum([len(rule.pattern) for rule in merged.values()])
        if len(merged) <= _MERGED and size <= _MERGED_SIZE:
            self._batches[before] = merged
            self._engines.pop(before, None)
            self._engines.pop(newest, None)
            del self._batches[newest]
