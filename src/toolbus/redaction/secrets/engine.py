"""The engine that looks for all rules at once, in linear time.

One pass over the bytes tells which words of rules are in a text, and whether a name of a secret is:
only then a rule is looked for. A few rules have no words but usual ones: a second pass tells which
of these may match at all.

`places` looks in every view of a text, and leads back to where each match stands in the text.
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
    """Bytes from one up to another, in order."""
    Find: TypeAlias = "Callable[[bytes, Spans | None], Iterator[Hit | None]]"

STEP, REACH = 131_072, 16_384
"""Bytes that are looked at in one go, and how far beyond them a match may go."""

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
"""Words that stand in an eighth of the windows of CPython's library, or in more; those that most
pieces of 300 letters have come first, since rules that may match in one text are tried together."""

# An automaton of more patterns outgrows its memory.
_GROUP = 24


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
    """Looks for *rules* in UTF-8; what is longer than *reach* bytes may be found in part.

    A rule with keywords is compiled when a text has one of them. Raises `RegistrationError` for one
    without that RE2 cannot read, or that matches nothing at all.
    """

    def __init__(self, rules: tuple[Rule, ...], reach: int = REACH) -> None:
        check_installed()
        self.rules, self._reach = rules, reach
        wordless = [
            number for number, rule in enumerate(rules) if not (rule.keywords or rule.gates)
        ]
        for number in wordless:
            check_pattern(rules[number].name, rules[number].pattern)
        # A user's pattern may need so many states that all others would be slow beside it.
        self._always = [number for number in wordless if rules[number].foreign]
        self._searches: dict[int, _Search] = {}
        self._together: dict[frozenset[int], tuple[list[int], ExpressionSet]] = {}

    def find(self, data: bytes, spans: Spans | None = None) -> Iterator[Hit | None]:
        """Give what the rules find in *data*; None between steps, when others may have their turn.

        With *spans* only what begins in one of them is looked for.
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
        """Return the numbers of the rules that may match in *data*, in order."""
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
        """The words of all rules, or the pattern of one without, and whose each of them is."""
        numbers_of: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            words = rule.gates or [rf"(?i){re.escape(word)}" for word in rule.keywords]
            for word in words or ([] if rule.foreign else [rule.pattern]):
                numbers_of.setdefault(word, []).append(number)
        return ExpressionSet(numbers_of), list(numbers_of.values())

    @cached_property
    def _usual(self) -> list[frozenset[int]]:
        """The rules with a usual word, in groups."""
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
    """One *rule*, the one with *number*."""

    def __init__(self, number: int, rule: Rule) -> None:
        # What a user or a session looks for is not kept for everybody.
        expression = uncached(rule.pattern) if rule.foreign else compiled(rule.pattern)
        self._number, self._rule, self._expression = number, rule, expression
        groups: Mapping[str, int] = expression.groupindex
        self._name = groups.get("name")
        others = [other for other in range(1, expression.groups + 1) if other != self._name]
        self._groups = (groups["value"],) if "value" in groups else (*others, 0)
        """Where the secret is: in the first of these groups that holds any."""
        self._reader = READERS[rule.reader] if rule.reader else None

    def hits(self, data: bytes, window: tuple[int, int, int]) -> Iterator[Hit | None]:
        """Give what begins in *data* between the first two bytes of *window*, up to the third."""
        begin, end, reach = window
        for match in self._expression.finditer(data, begin, reach):
            first, final = match.span()
            # The next window has it whole.
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
    """Return the engine for *rules*: the same for all who use the same ones."""
    return Engine(rules)


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
    if not looks_the_same(data):
        yield from _places_in_views(find, data, spans, other_views)


def known_places(
    find: Find, data: bytes, spans: Spans | None, *, blank: bool = False
) -> Iterator[Place | None]:
    """Do as `places`, and also give what *find* finds where lines break inside of it.

    *blank* says that some of it has blanks or backslashes inside.
    """
    # Those are not found in what is squeezed, nor are those that only another view shows.
    count = -1 if blank and (b"\n" in data or b"\\n" in data) else 0
    for place in places(find, data, spans):
        count += place is not None and place.data is data and BLANK.search(place.value) is None
        yield place
    for start, end in spans or ((0, len(data)),):
        # What begins in a span may go on behind it.
        near = data[letter_start(data, start) if start else 0 : end + REACH]
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
    see: Callable[[bytes], Iterator[TextView]],
) -> Iterator[Place | None]:
    """Give what *find* finds in the views of *data* that *see* gives."""
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
    """Return where *hit* is in *data*, with the rest of a letter that it begins or ends in."""
    start, end = hit.start, hit.end
    if not data[start:end].isascii():
        start, end = letter_start(data, start), letter_end(data, end)
    return Place(start, end, data[start:end].decode(), data, hit)
