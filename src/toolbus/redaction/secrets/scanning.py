"""What rules and known secrets say of gathered texts: the only step that takes its time."""

from __future__ import annotations

import re
import sys
from bisect import bisect
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.secrets.collecting import strings
from toolbus.redaction.secrets.placeholders import placeholder_spans, without_placeholders
from toolbus.redaction.secrets.places import Place, around, known_places, places
from toolbus.redaction.secrets.rewriting import Edit
from toolbus.redaction.secrets.secret_search import SecretSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from toolbus.redaction.secrets.collecting import Collector
    from toolbus.redaction.secrets.engine import Engine, Hit, Spans
    from toolbus.redaction.secrets.plausibility import Judge
    from toolbus.redaction.secrets.rules import Rule
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

MOST_SECRETS = 200
"""Different secrets in one record: with more that are known it is withheld; more that are only
assumed share a placeholder."""

_MOST_PLACES = 250_000
"""Places in one text at which secrets stand, be it the same one."""

_SHORTEST, _REST = 3, 8
_NEAR = 2_048
"""How far from a placeholder something may begin that only shows when that stands there."""


class _RankedRule(NamedTuple):
    """A *rule* that found something; of several the least one counts."""

    is_loose: bool
    number: int
    rule: Rule


ESCAPED, _MOST_SOUGHT = r'["\\\n\r\t]', 64


class Scanner:
    """Looks at texts, and enters what it finds in *registry*; *engine* is None for known ones only.

    It looks at each text once: *edits* are of all that it saw so far. Its methods are generators
    of slices of work: between two of them others may have their turn. *tail* is what an earlier
    record ended with, which the first group begins with.
    """

    def __init__(
        self,
        engine: Engine | None,
        registry: SecretRegistry,
        allow: tuple[str, ...],
        tail: str | None = None,
    ) -> None:
        self._engine, self._registry, self._allow = engine, registry, allow
        self._tail, self._is_tail_repeated = tail, False
        self._known: set[str] = set()
        self._assumed: set[str] = set()
        # Assumed values that look random: the same secret wherever the record has them again.
        self._recurring = SecretSearch()
        self._seen_by_rules: set[tuple[str, ...]] = set()
        self._seen_by_registry: set[tuple[str, ...]] = set()
        self.edits: dict[tuple[str, ...], list[Edit]] = {}
        self.exact: dict[str, str] = {}

    def look(self, collected: Collector, *, again: bool) -> Iterator[None]:
        """Look at all that was *collected*; *again*, near placeholders only at what has changed."""
        # An equal text may also be one of this record's.
        self._is_tail_repeated = any(
            self._tail in group[group[0] == self._tail and len(group) > 1 :]
            for group in collected.groups
        )
        count = len(self._known) + len(self._assumed)
        if self._engine is not None:
            # First by all rules: what is found in the last text may stand in the first as well.
            for group in collected.groups:
                yield from self._group(self._by_rules, group, again=again)
            for encoded, value in collected.values.items():
                yield from self._value_by_rules(encoded, value, again=again)
        if not (self._registry.knows() or self._recurring.knows()):
            return
        if again and len(self._known) + len(self._assumed) > count:
            self._seen_by_registry.clear()
            again = False
        for group in collected.groups:
            yield from self._group(self._by_registry, group, again=again)
        for encoded, value in collected.values.items():
            yield from self._value_by_registry(encoded, value, again=again)

    def _group(
        self, find: Callable[..., Iterator[None]], group: tuple[str, ...], *, again: bool
    ) -> Iterator[None]:
        """Have *find* look at each of the texts, and at what stands where they meet."""
        for text in group:
            yield from find((text,), again=again)
        if len(group) > 1:
            yield from find(group, again=again)

    def _value_by_rules(self, encoded: str, value: Any, *, again: bool) -> Iterator[None]:
        """Look at JSON, where a key tells what its value is, and at its strings."""
        if (encoded,) in self._seen_by_rules:
            return
        self._seen_by_rules.add((encoded,))
        edits = yield from self._edits_of(encoded, _spans((encoded,), again=again), is_json=True)
        values = _values(encoded, edits)
        self.exact |= {secret: edit.placeholder for secret, edit in zip(values, edits, strict=True)}
        yield from self._leaves(self._by_rules, value, values, again=again)

    def _value_by_registry(self, encoded: str, value: Any, *, again: bool) -> Iterator[None]:
        """Look for known secrets in the strings of JSON."""
        if (encoded,) in self._seen_by_registry:
            return
        self._seen_by_registry.add((encoded,))
        # In all forms, that of JSON among them: what is not in the whole is in none of its strings.
        places = yield from self._known_in(encoded, None)
        yield from self._leaves(self._by_registry, value, _values(encoded, places), again=again)

    def _leaves(
        self, find: Callable[..., Iterator[None]], value: Any, values: list[str], *, again: bool
    ) -> Iterator[None]:
        """Have *find* look at those strings of JSON that may have what it has found in the whole.

        It is to be known where in a string that stands. One with escapes is another in the whole.
        """
        distinct = {*values}
        parts = [ESCAPED, *map(re.escape, distinct)] if len(distinct) <= _MOST_SOUGHT else [""]
        has_any = re.compile("|".join(parts)).search
        for group in strings(value):
            for text in group:
                if has_any(text):
                    yield from find((text,), again=again)
            if len(group) > 1:
                yield from find(group, again=again)

    def _by_rules(self, group: tuple[str, ...], *, again: bool) -> Iterator[None]:
        if group not in self._seen_by_rules:
            self._seen_by_rules.add(group)
            tail = len(group[0].encode()) if len(group) > 1 and group[0] == self._tail else 0
            edits = yield from self._edits_of("".join(group), _spans(group, again=again), tail=tail)
            self._enter(group, edits)

    def _by_registry(self, group: tuple[str, ...], *, again: bool) -> Iterator[None]:
        if group not in self._seen_by_registry:
            self._seen_by_registry.add(group)
            edits = yield from self._known_in("".join(group), _spans(group, again=again))
            self._enter(group, edits)

    def _enter(self, group: tuple[str, ...], edits: list[Edit]) -> None:
        """Enter the *edits* of a text; of adjoining ones those of what stands where they meet."""
        if edits and len(group) > 1:
            joints = [*_joints(group), sys.maxsize]
            edits = [edit for edit in edits if joints[bisect(joints, edit.start)] < edit.end]
        if edits:
            self.edits.setdefault(group, []).extend(edits)

    def _edits_of(
        self, text: str, spans: Spans | None, *, is_json: bool = False, tail: int = 0
    ) -> Generator[None, None, list[Edit]]:
        """Return the edits of *text*, which rules ask for; it begins with a *tail* of bytes."""
        best = yield from self._places(text.encode(), spans, tail)
        edits, recurs = [], text != self._tail or self._is_tail_repeated
        for start, end, value in sorted(best, key=lambda place: (place[0], -place[1])):
            yield
            rule = best[start, end, value].rule
            placeholder = self._named(value, rule, is_json=is_json)
            edits.append(Edit(start, end, placeholder))
            if recurs and value in self._assumed and self._judge.recurs(value):
                self._recurring.add(value, placeholder)
        return edits

    def _places(
        self, data: bytes, spans: Spans | None, tail: int
    ) -> Generator[None, None, dict[tuple[int, int, str], _RankedRule]]:
        """Return from where to where in *data* which secrets stand, with the best rule for each.

        Another view of the same place may show another value.
        """
        best: dict[tuple[int, int, str], _RankedRule] = {}
        # One secret at many places is kept once.
        values: dict[str, str] = {}
        for place in places(self._engine.find, data, spans) if self._engine is not None else ():
            yield
            if place is None or self._goes_on_by_chance(place, tail):
                continue
            key = (place.start, place.end, values.get(place.value, place.value))
            ranked = _RankedRule(place.hit.rule.loose, place.hit.number, place.hit.rule)
            if (key not in best or ranked < best[key]) and self._is_secret(place):
                values[place.value] = key[2]
                best[key] = ranked
                if len(best) > _MOST_PLACES:
                    raise UnexaminedError(_too_many_places())
        return best

    def _goes_on_by_chance(self, place: Place, tail: int) -> bool:
        """Tell whether *place* begins in a *tail* of bytes, which need not go on in the next text.

        A name there says nothing of a value in another record, nor does what is whole go on.
        """
        if place.start >= tail:
            return False
        edits = self.edits.get((self._tail or "",), ())
        is_whole = any((edit.start, edit.end) == (place.start, tail) for edit in edits)
        return place.hit.rule.loose or is_whole

    def _known_in(self, text: str, spans: Spans | None) -> Generator[None, None, list[Edit]]:
        """Return the edits of *text* for known secrets, in any form."""
        edits: dict[Edit, None] = {}  # What is found in two views is one.
        blank = self._registry.has_blank() or self._recurring.has_blank()
        for place in known_places(self._find_known, text.encode(), spans, blank=blank):
            yield
            if place is not None:
                edits[Edit(place.start, place.end, place.hit.rule.name)] = None
                if len(edits) > _MOST_PLACES:
                    raise UnexaminedError(_too_many_places())
        return [*edits]

    def _find_known(self, data: bytes, spans: Spans | None) -> Iterator[Hit | None]:
        yield from self._registry.find(data, spans)
        yield from self._recurring.find(data, spans)

    def _named(self, value: str, rule: Rule, *, is_json: bool) -> str:
        if rule.loose and self._is_one_too_many(value):
            return self._registry.shared_placeholder(rule.name)
        if not rule.loose:
            self._known.add(value)
            if len(self._known) > MOST_SECRETS:
                raise UnexaminedError(f"it holds more than {MOST_SECRETS} secrets")
        plain = _unescaped(value)
        # A text may be a piece of JSON, or have backslashes of its own: nobody knows.
        shown, also = (plain, None) if is_json or plain == value else (value, plain)
        return self._registry.placeholder(shown, rule.name, also, assumed=rule.loose)

    def _is_one_too_many(self, value: str) -> bool:
        """Tell whether *value* is assumed, after as many others as there may be."""
        if len(self._assumed) < MOST_SECRETS:
            self._assumed.add(value)
        return value not in self._assumed

    @cached_property
    def _judge(self) -> Judge:
        # Its many expressions are compiled when there is something to be judged.
        from toolbus.redaction.secrets.plausibility import Judge  # noqa: PLC0415

        return Judge()

    def _is_secret(self, place: Place) -> bool:
        """Tell whether what stands at *place* is a secret, and none that is allowed."""
        value = place.value
        if len(value) < _SHORTEST:
            return False
        rest = without_placeholders(value)
        if rest is not value and len(rest) < _REST:
            return False
        if any(value == allowed or fnmatchcase(value, allowed) for allowed in self._allow):
            return False
        return self._judge.is_likely(value, place.data, place.hit)


def _too_many_places() -> str:
    return f"secrets stand in more than {_MOST_PLACES:,} places of it"


def _values(encoded: str, edits: list[Edit]) -> list[str]:
    """Return what stands where *edits* are in the JSON *encoded*, as it was before that."""
    data = encoded.encode()
    return [_unescaped(data[edit.start : edit.end].decode(errors="ignore")) for edit in edits]


def _joints(group: tuple[str, ...]) -> list[int]:
    """Return the bytes at which the texts of *group* meet."""
    return list(accumulate([len(text.encode()) for text in group]))[:-1]


def joint_spans(group: tuple[str, ...]) -> Spans:
    """Return where to look in adjoining texts: where they meet."""
    return around([(joint, joint) for joint in _joints(group)])


def _spans(group: tuple[str, ...], *, again: bool) -> Spans | None:
    """Return where to look in *group*; None for everywhere.

    Of adjoining texts it is where they meet: each has been looked at by itself. What has been
    looked at before it was written anew is looked at *again* where something was taken out, since
    that may have stood between two halves of something else.
    """
    if len(group) == 1 and not again:
        return None
    if not again:
        return joint_spans(group)
    data = "".join(group).encode()
    joints = [(joint, joint) for joint in _joints(group)]
    ends = [(0, 0), (len(data), len(data))]
    return around([*ends, *joints, *placeholder_spans(data)], _NEAR)


def _unescaped(text: str) -> str:
    """Return *text*, which may stand in JSON, as it was before it was written there."""
    if "\\" not in text:
        return text
    try:
        plain = msgspec.json.decode(f'"{text}"', type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return plain
