"""The engine that looks for all rules at once, in linear time.

One pass over the bytes tells which words of rules are in a text, and a rule is only looked for if
one of its words is. A few rules have no words but usual ones: a second pass tells which of these
may match at all.

`places` looks in every view of a text, and leads back to where each match stands in the text.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.redaction.secrets.assigned import READERS
from toolbus.redaction.secrets.expressions import (
    AtomFilter,
    ExpressionSet,
    check_installed,
    compiled,
)
from toolbus.redaction.views import joined_views, looks_the_same, other_views, squeezed

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
    *(" password", '"value"', "%", "*", "-a", "-u", ".", "00", ":", "://", ":a", "ac"),
    *("account", "activate", "add", "al-", "ar_", "atat", "auth", "bk", "box", "bx", "cca"),
    *("cio", "ck_", "code", "content", "crypt", "cs_", "ct_", "curl", "cursor", "data", "ek"),
    *("fal", "hc", "http://", "https://", "identified", "identity", "ii-", "ion_", "key"),
    *("key_", "linear", "lk", "login", "magic", "md5", "ory_", "pass", "password", "pat"),
    *("private", "ps_", "pt_", "put", "pwd", "re", "re_", "remember", "reset", "rk_", "rman"),
    *("rpa", "s.", "sess", "session", "set", "sg.", "sha", "sia", "sid", "sk", "sk_", "sl."),
    *("squ", "sso", "stdin", "test_", "text", "token", "use", "user", "val", "values"),
    *("verify", "zip", "|"),
)
"""Words that stand in an eighth of the windows of CPython's library, or in more."""

# An automaton of more patterns outgrows its memory, and one for fewer passes gains nothing.
_GROUP, _FEW = 24, 2


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
        wordless = [number for number, rule in enumerate(rules) if not rule.keywords]
        # Names of secrets are sought everywhere: nearly each text has some.
        self._always = {number for number in wordless if rules[number].reader == "assigned"}
        self._wordless = [number for number in wordless if number not in self._always]
        self._atoms = AtomFilter([rules[number] for number in self._wordless])
        self._searches: dict[int, _Search] = {}
        self._together: dict[tuple[int, ...], ExpressionSet] = {}

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
                for number in sorted(self._candidates(data[begin:reach])):
                    search = self._searches.get(number) or self._search(number)
                    yield from search.hits(data, (begin, end, reach))

    def _candidates(self, data: bytes) -> set[int]:
        """Return the numbers of the rules that may match in *data*."""
        candidates = {*self._always}
        if self._wordless:
            candidates.update([self._wordless[index] for index in self._atoms.match(data)])
        if len(self._wordless) == len(self.rules):
            return candidates
        words, numbers_of = self._words
        candidates.update(*[numbers_of[index] for index in words.match(data)])
        for numbers in self._usual:
            usual = candidates.intersection(numbers)
            if len(usual) > _FEW:
                together = self._together.get(numbers) or self._set_of(numbers)
                matching = together.match(data)
                candidates -= usual.difference([numbers[index] for index in matching])
        return candidates

    @cached_property
    def _words(self) -> tuple[ExpressionSet, list[list[int]]]:
        """The words of all rules, and for each the rules that it is one of."""
        numbers_of: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            for word in rule.keywords:
                numbers_of.setdefault(word, []).append(number)
        return ExpressionSet(numbers_of, literal=True), list(numbers_of.values())

    @cached_property
    def _usual(self) -> list[tuple[int, ...]]:
        """The rules with a usual word, in groups."""
        usual_words = frozenset(_USUAL)
        usual = [
            number
            for number, rule in enumerate(self.rules)
            # A user's rule may end in `$`, and a set adds its proof to the end of a text.
            if not (
                usual_words.isdisjoint(rule.keywords) or rule.foreign or rule.reader == "assigned"
            )
        ]
        starts = range(0, len(usual), _GROUP)
        return [tuple(usual[start : start + _GROUP]) for start in starts]

    def _set_of(self, numbers: tuple[int, ...]) -> ExpressionSet:
        patterns = [self.rules[number].pattern for number in numbers]
        together = self._together[numbers] = ExpressionSet(patterns)
        return together

    def _search(self, number: int) -> _Search:
        rule = self.rules[number]
        # What a user or a session looks for is not kept for everybody.
        expression = (
            self._atoms.expression(self._wordless.index(number))
            if number in self._wordless
            else compiled(rule.pattern)
        )
        search = self._searches[number] = _Search(number, rule, expression)
        return search


class _Search:
    """One rule, the one with *number*, and its *expression*."""

    def __init__(self, number: int, rule: Rule, expression: Any) -> None:
        self._number, self._rule, self._expression = number, rule, expression
        groups: Mapping[str, int] = expression.groupindex
        self._name = groups.get("name")
        group = groups[rule.group] if isinstance(rule.group, str) else rule.group
        if group is None:
            group = groups.get("value")
        others = [other for other in range(1, expression.groups + 1) if other != self._name]
        self._groups = (*others, 0) if group is None else (group,)
        """Where the secret is: in the first of these groups that holds any."""
        self._reader = READERS[rule.reader] if rule.reader else None

    def hits(self, data: bytes, window: tuple[int, int, int]) -> Iterator[Hit | None]:
        """Give what begins in *data* between the first two bytes of *window*, up to the third."""
        begin, end, reach = window
        for match in self._expression.finditer(data, begin, reach):
            # The next window has it whole.
            if match.start() >= end:
                break
            name = match.span(self._name) if self._name else None
            if self._reader is not None and name is not None:
                for span in self._reader(data, name, match.end()):
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
    if not looks_the_same(data, is_whole=spans is None):
        yield from _places_in_views(find, data, spans, other_views)


def known_places(
    find: Find, data: bytes, spans: Spans | None, *, blank: bool = False
) -> Iterator[Place | None]:
    """Do as `places`, and also give what *find* finds where lines break inside of it.

    *blank* says that some of it has blanks or backslashes inside.
    """
    # That is not found in what is squeezed.
    count = -1 if blank and (b"\n" in data or b"\\n" in data) else 0
    for hit in find(data, spans):
        place = hit and _place(data, hit)
        count += place is not None and BLANK.search(place.value) is None
        yield place
    if not looks_the_same(data, is_whole=spans is None):
        yield from _places_in_views(find, data, spans, other_views)
    for start, end in spans or ((0, len(data)),):
        # What begins in a span may go on behind it.
        near = data[_letter(data, start) if start else 0 : end + REACH]
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
        begin = _letter(data, start)
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
        start = _letter(data, start)
        while end < len(data) and _goes_on(data[end]):
            end += 1
    return Place(start, end, data[start:end].decode(), data, hit)


def _letter(data: bytes, index: int) -> int:
    """Return where the letter begins in *data* that has the byte at *index*."""
    while 0 < index < len(data) and _goes_on(data[index]):
        index -= 1
    return index


def _goes_on(byte: int) -> bool:
    return byte & 0xC0 == 0x80  # noqa: PLR2004 - RFC 3629, section 3
