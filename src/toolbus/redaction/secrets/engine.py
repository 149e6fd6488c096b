"""The engine that searches for all rules at once, in linear time.

One pass over the bytes finds the rules' keywords and names of secrets in a text; only rules with a
keyword there are searched. A few rules have only common keywords: a second pass selects those of
them that may match.

`places` searches every view of a text, and maps each match back to the text.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from toolbus.redaction.secrets.assigned import READERS
from toolbus.redaction.secrets.expressions import (
    ExpressionSet,
    check_installed,
    check_pattern,
    compiled,
    uncached,
)
from toolbus.redaction.views import (
    joined_views,
    letter_end,
    letter_start,
    looks_the_same,
    other_views,
    squeezed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from toolbus.redaction.secrets.rules import Rule
    from toolbus.redaction.views import TextView

    Spans: TypeAlias = "list[tuple[int, int]]"
    """Pairs of start and end bytes, in order."""
    Find: TypeAlias = "Callable[[bytes, Spans | None], Iterator[Hit | None]]"

STEP, REACH = 131_072, 16_384
"""Bytes that are searched at once, and bytes beyond them that a match may reach."""

_USUAL = (
    *(".", "ac", "s.", "sha", "fal", "pat", "val", "text", "use", "00", "|", "set", "put"),
    *("data", "sk", "code", "*", "key", "ion_", "add", "re_", "sess", "session", "-a", "token"),
    *("user", "content", "pass", "sid", "auth", "sso", "-u", "://", "bk", "ck_", "values", "bx"),
    *("hc", "https://", "ct_", "cio", "pt_", "%", "test_", "private", "key_", "cursor"),
    *("identity", "al-", "account", "crypt", "rman", "password", "ar_", "sia", "cs_", ":a"),
    *("zip", "curl", "reset", "box", " password", "verify", "magic", "rk_", "http://", "ps_"),
    *("sk_", '"value"', "ory_", "atat", "login", "stdin", "activate", "cca", "pwd", "sl."),
    *("md5", "linear", "remember", "ii-", "sg.", "identified"),
)
"""Words in at least an eighth of the windows of CPython's library, those in most pieces of 300
characters first, since rules that may match in one text are tried together."""

# An automaton of more patterns exceeds its memory.
_GROUP = 24


class Hit(NamedTuple):
    """A match of *rule*, with index *number*, from byte *start* to byte *end*.

    *name* is the span of the name that the value is assigned to, if the rule's pattern has a group
    `name`.
    """

    start: int
    end: int
    number: int
    rule: Rule
    name: tuple[int, int] | None = None


class Engine:
    """Searches UTF-8 for *rules*; a match longer than *reach* bytes may be found in part.

    A rule with keywords is compiled when a text has one of them. Raises `RegistrationError` for a
    rule without keywords that RE2 cannot read, or that matches the empty text.
    """

    def __init__(self, rules: tuple[Rule, ...], reach: int = REACH) -> None:
        check_installed()
        self.rules, self._reach = rules, reach
        wordless = [
            number for number, rule in enumerate(rules) if not (rule.keywords or rule.gates)
        ]
        for number in wordless:
            check_pattern(rules[number].name, rules[number].pattern)
        # A user's pattern may need so many states that it would slow all others in one automaton.
        self._always = [number for number in wordless if rules[number].foreign]
        self._searches: dict[int, _Search] = {}
        self._together: dict[frozenset[int], tuple[list[int], ExpressionSet]] = {}

    def find(self, data: bytes, spans: Spans | None = None) -> Iterator[Hit | None]:
        """Yield the matches of the rules in *data*, and None between steps, to let others run.

        With *spans* only matches that begin in one of them are searched for.
        """
        for start, stop in spans or ((0, len(data)),) if self.rules else ():
            for begin in range(start, min(stop, len(data)), STEP):
                if begin > start:
                    yield None
                end = min(stop, len(data), begin + STEP)
                reach = min(len(data), end + self._reach)
                for number in self._candidates(data[begin:reach]):
                    search = self._searches.get(number) or self._search(number)
                    yield from search.hits(data, (begin, end, reach))

    def _candidates(self, data: bytes) -> list[int]:
        """Return the indices of the rules that may match in *data*, in order."""
        words, numbers_of = self._words
        matching = words.match(data)
        if not matching:
            return self._always
        candidates = set(self._always).union(*[numbers_of[index] for index in matching])
        for group in self._usual if len(candidates) > 1 else ():
            usual = candidates & group
            if len(usual) > 1:
                numbers, together = self._together.get(group) or self._set_of(group)
                candidates -= usual.difference([numbers[index] for index in together.match(data)])
        return sorted(candidates)

    @cached_property
    def _words(self) -> tuple[ExpressionSet, list[list[int]]]:
        """The keywords of all rules, or the pattern of a rule without, and their rules' indices."""
        numbers_of: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            words = rule.gates or [rf"(?i){re.escape(word)}" for word in rule.keywords]
            for word in words or ([] if rule.foreign else [rule.pattern]):
                numbers_of.setdefault(word, []).append(number)
        return ExpressionSet(numbers_of), list(numbers_of.values())

    @cached_property
    def _usual(self) -> list[frozenset[int]]:
        """The rules with a common keyword, in groups."""
        rules_of: dict[str, list[int]] = {word: [] for word in _USUAL}
        for number, rule in enumerate(self.rules):
            word = next(filter(rule.keywords.__contains__, _USUAL), None)
            if word is not None and not rule.foreign:
                rules_of[word].append(number)
        usual = [number for numbers in rules_of.values() for number in numbers]
        starts = range(0, len(usual), _GROUP)
        return [frozenset(usual[start : start + _GROUP]) for start in starts]

    def _set_of(self, group: frozenset[int]) -> tuple[list[int], ExpressionSet]:
        numbers = sorted(group)
        together = numbers, ExpressionSet([self.rules[number].pattern for number in numbers])
        self._together[group] = together
        return together

    def _search(self, number: int) -> _Search:
        search = self._searches[number] = _Search(number, self.rules[number])
        return search


class _Search:
    """The search for one *rule*, with index *number*."""

    def __init__(self, number: int, rule: Rule) -> None:
        # A user's or a session's own pattern is not cached for the whole process.
        expression = uncached(rule.pattern) if rule.foreign else compiled(rule.pattern)
        self._number, self._rule, self._expression = number, rule, expression
        groups: Mapping[str, int] = expression.groupindex
        self._name = groups.get("name")
        others = [other for other in range(1, expression.groups + 1) if other != self._name]
        self._groups = (groups["value"],) if "value" in groups else (*others, 0)
        """The groups of the pattern; the secret is the first one that matched."""
        self._reader = READERS[rule.reader] if rule.reader else None

    def hits(self, data: bytes, window: tuple[int, int, int]) -> Iterator[Hit | None]:
        """Yield the matches that begin between the first two bytes of *window*, up to the third."""
        begin, end, reach = window
        for match in self._expression.finditer(data, begin, reach):
            first, final = match.span()
            # The next window includes the whole match.
            if first >= end:
                break
            name = match.span(self._name) if self._name else None
            if self._reader is not None and name is not None:
                for span in self._reader(data, name, final):
                    yield span and Hit(*span, self._number, self._rule, name)
                continue
            for group in self._groups:
                start, stop = match.span(group)
                if start < stop:
                    yield Hit(start, stop, self._number, self._rule, name)
                    break


@lru_cache(maxsize=8)
def engine_for(rules: tuple[Rule, ...]) -> Engine:
    """Return the engine for *rules*, shared by all users of the same rules."""
    return Engine(rules)


# Values with a blank are not found in a text whose blanks were removed.
BLANK = re.compile(r"[\s\\]")


class Place(NamedTuple):
    """A match in a text from byte *start* to *end*: *hit* of *value* in *data*, a view of it."""

    start: int
    end: int
    value: str
    data: bytes
    hit: Hit


def places(find: Find, data: bytes, spans: Spans | None) -> Iterator[Place | None]:
    """Yield the matches of *find* in *data* and its other views, and None as in `Engine.find`.

    With *spans* only matches that begin in one of them.
    """
    for hit in find(data, spans):
        yield hit and _place(data, hit)
    if not looks_the_same(data):
        yield from _places_in_views(find, data, spans, other_views)


def known_places(
    find: Find, data: bytes, spans: Spans | None, *, blank: bool = False
) -> Iterator[Place | None]:
    """Yield the matches as `places` does, and also matches with line breaks inside.

    *blank* says whether a known value has blanks or backslashes inside.
    """
    # Squeezed data does not show values with blanks, nor values that only another view shows.
    count = -1 if blank and (b"\n" in data or b"\\n" in data) else 0
    for place in places(find, data, spans):
        count += place is not None and place.data is data and BLANK.search(place.value) is None
        yield place
    for start, end in spans or ((0, len(data)),):
        # A match that begins in a span may continue behind it.
        near = data[letter_start(data, start) if start else 0 : end + REACH]
        has_breaks = count >= 0 and (b"\n" in near or b"\\n" in near)
        for hit in find(squeezed(near), None) if has_breaks else ():
            count -= hit is not None
            if hit is None:
                yield None
    if count < 0:
        yield from _places_in_views(find, data, spans, joined_views)


def around(places: Iterable[tuple[int, int]], reach: int = REACH) -> Spans:
    """Return the spans, in order, in which a match that includes one of the *places* may begin."""
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
    see: Callable[[bytes], Iterator[TextView]],
) -> Iterator[Place | None]:
    """Yield the matches of *find* in the views of *data* that *see* yields."""
    for start, end in spans or ((0, len(data)),):
        begin = letter_start(data, start)
        for view in see(data if spans is None else data[begin:end]):
            for hit in find(view.data, None):
                if hit is None:
                    yield None
                    continue
                place = _place(view.data, hit)
                first, stop = view.span(place.start, place.end)
                yield place._replace(start=first + begin, end=stop + begin)


def _place(data: bytes, hit: Hit) -> Place:
    """Return the place of *hit* in *data*, extended to whole characters."""
    start, end = hit.start, hit.end
    if not data[start:end].isascii():
        start, end = letter_start(data, start), letter_end(data, end)
    return Place(start, end, data[start:end].decode(), data, hit)
