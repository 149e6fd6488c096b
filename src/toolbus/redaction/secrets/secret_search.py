"""The search for secrets that are known, in whatever form they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.redaction.secrets.engine import REACH, Engine
from toolbus.redaction.secrets.forms import LONGEST, expression
from toolbus.redaction.secrets.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.secrets.engine import Hit, Spans

_BATCH, _BATCH_CHARS, _CHUNK = 32, 2_048, 1_024


class SecretSearch:
    """The expressions for telling secrets, in pieces if they are long."""

    def __init__(self) -> None:
        # A filter of hundreds is slow, and each new secret would make all of it anew.
        self._batches: dict[int, dict[str, Rule]] = {}
        self._engines: dict[int, Engine] = {}
        self._chunks: dict[str, tuple[tuple[int, str], ...]] = {}

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
            yield from self._engines[number].find(data, spans)

    def add(self, form: str, placeholder: str) -> None:
        """Search for *form*, which *placeholder* stands for."""
        # The last piece is none by itself: it could be of one letter.
        cuts = range(0, max(len(form) - _CHUNK // 2, 1), _CHUNK)
        chunks = [form[start : start + _CHUNK] for start in cuts[:-1]] + [form[cuts[-1] :]]
        self._chunks[form] = tuple([(self._enter(chunk, placeholder), chunk) for chunk in chunks])

    def remove(self, form: str) -> None:
        """Search for *form* no more."""
        for batch, chunk in self._chunks.pop(form, ()):
            self._batches[batch].pop(chunk, None)
            self._engines.pop(batch, None)
            if not self._batches[batch]:
                del self._batches[batch]

    def _enter(self, chunk: str, placeholder: str) -> int:
        number = max(self._batches, default=0)
        batch = self._batches.get(number, {})
        if len(batch) >= _BATCH or sum(map(len, batch)) + len(chunk) > _BATCH_CHARS:
            number += 1
        rule = Rule(placeholder, expression(chunk), foreign=True)
        self._batches.setdefault(number, {})[chunk] = rule
        self._engines.pop(number, None)
        return number
