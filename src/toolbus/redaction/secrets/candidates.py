"""Which of many rules may match in a text at all, told by a few passes over it."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolbus.redaction.secrets.expressions import AtomFilter, ExpressionSet, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.redaction.secrets.rules import Rule

_GROUPED_AFTER, _GROUP = (1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24), 24
"""Bytes after which rules that are seldom ruled out are put into groups, and rules in one."""

_OFTEN = 12
"""A rule is seldom ruled out if it may match in one of so many bytes, or in more."""


class Candidates:
    """Tells which of *rules* may match: by their keywords, or by pieces of their patterns.

    Its numbers are those of the rules. What a search needs is compiled when it is needed first.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._by_atoms = [number for number, rule in enumerate(rules) if not rule.keywords]
        self._atoms = AtomFilter([rules[number] for number in self._by_atoms])
        self._groups = _Groups(rules)

    def match(self, data: bytes) -> set[int]:
        """Return the numbers of the rules that may match in *data*."""
        candidates = {self._by_atoms[index] for index in self._atoms.match(data)}
        words, numbers_of = self._keywords
        for index in words.match(data) if numbers_of else ():
            candidates.update(numbers_of[index])
        return self._groups.narrowed(candidates, data)

    def expression(self, number: int) -> Any:
        """Return the expression of a rule."""
        rule = self._rules[number]
        # What a user or a session looks for is not kept for everybody.
        return (
            compiled(rule.pattern)
            if rule.keywords
            else self._atoms.expression(self._by_atoms.index(number))
        )

    @cached_property
    def _keywords(self) -> tuple[ExpressionSet, list[list[int]]]:
        """The keywords of all rules, and for each the rules that it is one of."""
        numbers_of: dict[str, list[int]] = {}
        for number, rule in enumerate(self._rules):
            for keyword in rule.keywords:
                numbers_of.setdefault(keyword, []).append(number)
        return ExpressionSet(numbers_of, literal=True), list(numbers_of.values())


class _Groups:
    """Rules that keywords seldom rule out, each group of them as one expression.

    Their words are usual ones, so each would be searched for by itself, nearly everywhere and for
    nothing. Which ones those are the texts show. A user's rules stay alone: one may end in `$`, and
    behind the text that a set looks at stands its proof.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules, self._lock = rules, Lock()
        self._bytes: Counter[int] = Counter()
        self._seen, self._steps = 0, list(_GROUPED_AFTER)
        self._groups: tuple[tuple[tuple[int, ...], ExpressionSet], ...] = ()

    def narrowed(self, candidates: set[int], data: bytes) -> set[int]:
        """Return those *candidates* that a look at their whole patterns does not rule out."""
        remaining = set(candidates)
        for numbers, together in self._groups:
            if len(candidates.intersection(numbers)) > 1:
                remaining.difference_update(numbers)
                remaining.update([numbers[index] for index in together.match(data)])
        if self._steps:
            self._learn(candidates, len(data))
        return remaining & candidates

    def _learn(self, candidates: set[int], size: int) -> None:
        """Note that *size* bytes had these *candidates*; put rules that often are into groups."""
        with self._lock:
            self._seen += size
            for number in candidates:
                self._bytes[number] += size
            if self._steps and self._seen >= self._steps[0]:
                self._steps = [step for step in self._steps if step > self._seen]
                # All anew: each group costs a pass, so there are to be few.
                self._groups = tuple(self._gathered())

    def _gathered(self) -> Iterator[tuple[tuple[int, ...], ExpressionSet]]:
        often = [
            number
            for number, size in self._bytes.most_common()
            if size * _OFTEN >= self._seen
            if not self._rules[number].foreign
        ]
        for start in range(0, len(often) - 1, _GROUP):
            numbers = tuple(often[start : start + _GROUP])
            yield numbers, ExpressionSet([self._rules[number].pattern for number in numbers])
