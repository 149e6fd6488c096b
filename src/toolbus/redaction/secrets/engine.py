"""The engine that looks for all rules at once, in linear time: RE2, of the extra `redact`.

Why RE2: no pattern explodes in it, whoever wrote it; the published rules are written for its
syntax; and its filter tells by one pass which few of 450 patterns can match at all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import RegistrationError
from toolbus.settings.extras import needs_extra

try:
    import re2  # type: ignore[import-untyped]  # it has no hints
except ImportError:
    re2 = None  # Documentation can be read without it.

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from toolbus.redaction.secrets.rules import Rule

    Spans: TypeAlias = Sequence[tuple[int, int]]
    """Bytes from one up to another, in order."""

STEP, REACH = 131_072, 16_384
"""Bytes in which the filter looks at a time, and how far beyond them a match may go."""

_MEMORY = 8 << 20
# A set that runs out of memory finds nothing and does not say so. It must find this one.
_PROOF = b"\n\x00toolbus\x00"
# Nothing at all, the words of every program, and pieces of words: who may match in these is usual.
_SAMPLES = (
    b"\n",
    b"access key secret token password private",
    b"= :// re_ sg. ion_ pat. ey sk- pk_ pa_ live test_ amp; voyage vc http",
)


class Hit(NamedTuple):
    """What *rule*, the one with *number*, found from byte *start* to byte *end*.

    *name* has the first and the last byte but one of the name that the value was assigned to, if
    the rule's pattern has a group `name`.
    """

    start: int
    end: int
    number: int
    rule: Rule
    name: tuple[int, int] | None = None


class Engine:
    """Looks for *rules* in UTF-8; what is longer than *reach* bytes may be found in part."""

    def __init__(self, rules: tuple[Rule, ...], reach: int = REACH) -> None:
        if re2 is None:
            raise ImportError(needs_extra("to look for secrets needs RE2", "redact"), name="re2")
        self.rules, self._reach = rules, reach
        self._filter = re2.Filter()
        for rule in rules:
            _add(self._filter, rule)
        # An empty filter cannot be compiled.
        if rules:
            self._filter.Compile()
        self._usual = list(self._gathered())
        self._expressions = [self._filter.re(index) for index in range(len(rules))]
        self._groups = [
            _group_of(expression, rule)
            for expression, rule in zip(self._expressions, rules, strict=True)
        ]

    def find(self, data: bytes, spans: Spans | None = None) -> Iterator[Hit | None]:
        """Give what the rules find in *data*; None now and then, when others may have their turn.

        With *spans* only what begins in one of them is looked for.
        """
        for start, stop in spans or ((0, len(data)),) if self.rules else ():
            for begin in range(start, min(stop, len(data)), STEP):
                end = min(stop, len(data), begin + STEP)
                reach = min(len(data), end + self._reach)
                for index in self._candidates(data[begin:reach]):
                    yield from self._hits(index, data, (begin, end, reach))
                yield None

    def _candidates(self, data: bytes) -> set[int]:
        """Return the numbers of the rules that may match in *data*."""
        candidates = set(self._filter.Match(data, potential=True) or ())
        for numbers, together in self._usual:
            if not candidates.isdisjoint(numbers):
                among = together.Match(data + _PROOF) or ()
                if len(numbers) not in among:
                    raise MemoryError
                candidates.difference_update(numbers)
                candidates.update([numbers[index] for index in among if index < len(numbers)])
        return candidates

    def _gathered(self) -> Iterator[tuple[tuple[int, ...], re2.Set]]:
        """Give the rules that the filter seldom rules out, each group as one expression.

        They have no word that must be there, or only common ones, so each would be searched for
        by itself. A user's rules are: one may end in `$`, and the proof stands behind the text.
        """
        taken: set[int] = set()
        for sample in _SAMPLES if self.rules else ():
            among = self._filter.Match(sample, potential=True) or ()
            numbers = tuple(
                [number for number in among if not (number in taken or self.rules[number].foreign)]
            )
            taken.update(numbers)
            together = re2.Set.SearchSet(_options(4 * _MEMORY))
            for number in numbers:
                together.Add(self.rules[number].pattern)
            together.Add(re2.escape(_PROOF.decode()))
            together.Compile()
            yield numbers, together

    def _hits(self, index: int, data: bytes, window: tuple[int, int, int]) -> Iterator[Hit]:
        rule, (begin, end, reach) = self.rules[index], window
        names = self._expressions[index].groupindex.get("name")
        for match in self._expressions[index].finditer(data, begin, reach):
            # The next window has it whole.
            if match.start() >= end:
                break
            start, stop = _secret_of(match, self._groups[index], names)
            if start < stop:
                name = match.span(names) if names else None
                yield Hit(start, stop, index, rule, name)


@lru_cache(maxsize=8)
def engine_for(rules: tuple[Rule, ...]) -> Engine:
    """Return the engine for *rules*: the same for all who use the same ones."""
    return Engine(rules)


def _options(memory: int = _MEMORY) -> re2.Options:
    options = re2.Options()
    # What is wrong is raised; RE2 itself would write it to standard error.
    options.log_errors = False
    options.max_mem = memory
    return options


def _add(into: re2.Filter, rule: Rule) -> None:
    try:
        expression = re2.compile(rule.pattern, _options())
        into.Add(rule.pattern, _options())
    except re2.error as error:
        raise RegistrationError(
            f"rule {rule.name!r}", f"RE2 cannot read it: {_text(error)}"
        ) from None
    if expression.search(b"") is not None:
        raise RegistrationError(f"rule {rule.name!r}", "it matches where nothing stands")


def _text(error: Exception) -> str:
    reason = error.args[0] if error.args else "no regular expression"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _group_of(expression: re2.Pattern, rule: Rule) -> int | None:
    """Return the number of the group that holds the secret: *rule* says it, or it is `value`."""
    groups: Mapping[str, int] = expression.groupindex
    if rule.group is None:
        return groups.get("value")
    return groups[rule.group] if isinstance(rule.group, str) else rule.group


def _secret_of(match: re2.Match, group: int | None, names: int | None) -> tuple[int, int]:
    """Return where the secret stands: in *group*, or in the first that holds any but *names*."""
    if group is not None:
        span: tuple[int, int] = match.span(group)
        return span
    groups = [group for group in range(1, match.re.groups + 1) if group != names]
    spans: list[tuple[int, int]] = [match.span(group) for group in groups]
    return next((span for span in [*spans, match.span()] if span[0] < span[1]), (0, 0))
