"""The scan of one record: collect its texts, find secrets, name them, rewrite the record.

Each step is a coroutine that awaits `turn` where other tasks may run.
"""

from __future__ import annotations

import logging
import re
import sys
from bisect import bisect
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from toolbus.redaction.limits import UnexaminedError, WorkBudget, at_once, turn
from toolbus.redaction.placeholders import evened, placeholder_spans, without_placeholders
from toolbus.redaction.secrets.collecting import Collector, Edit, Rewriter, strings
from toolbus.redaction.secrets.engine import around, places
from toolbus.redaction.secrets.secret_search import SecretSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.limits import ScanLimits
    from toolbus.redaction.secrets.collecting import Group
    from toolbus.redaction.secrets.engine import Engine, Hit, Place, Spans
    from toolbus.redaction.secrets.plausibility import Judge
    from toolbus.redaction.secrets.rules import Rule
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

T = TypeVar("T")
logger = logging.getLogger("toolbus")

MOST_SECRETS = 200
"""Different secrets in one record, at most: with more known secrets the record is withheld; more
assumed ones share a placeholder."""

_MOST_PLACES = 250_000
"""Places of secrets in one text, at most, counting repetitions."""

# Removing one value may join the halves of another around its placeholder.
_ROUNDS = 3
# Placeholders may be longer than their values, and were scanned before.
_LONGER = 16
# Characters of a record that is scanned in one step, without a turn for other tasks.
_SMALL = 131_072
_SHORTEST, _REST = 3, 8
_PATIENCE = 64
_NEAR = 2_048
"""Bytes from a placeholder within which a match that the placeholder exposed may begin."""

_ESCAPED, _MOST_SOUGHT = r'["\\\n\r\t]', 64


class Sight(NamedTuple):
    """The means of a scan: *engine*, if it is to find secrets that are not known yet."""

    engine: Engine | None
    allow: tuple[str, ...]
    limits: ScanLimits


class Examination(Generic[T]):
    """Redacts *record*, whose texts *walk* visits; *stream* names the stream that it is a piece of.

    The first step is a gate: most records are small and clean, and need no other step.
    """

    def __init__(
        self,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        registry: SecretRegistry,
        sight: Sight,
        stream: str | None = None,
    ) -> None:
        self.record, self._walk, self._registry, self._sight = record, walk, registry, sight
        self._stream, self._budget = stream, WorkBudget(sight.limits)
        self._work: Coroutine[Any, Any, None] | None = None

    def begin(self) -> bool:
        """Return whether the scan ends with its first step, which registers no secret.

        Raises `UnexaminedError`.
        """
        self._work = self._cleaned()
        return self._budget.step(self._work) is not None

    async def end(self, lock: AbstractContextManager[Any]) -> T:
        """Return the record without secrets; the same object if it was clean.

        The registry is used with *lock* held. Raises `UnexaminedError`; the scan may be repeated
        afterwards.
        """
        work, self._work = self._work or self._cleaned(), None
        try:
            await self._budget.spend(work, lock)
        finally:
            with lock:
                self._registry.shrink()
        return self.record

    async def _cleaned(self) -> None:
        try:
            self.record = await self._clean()
        except UnexaminedError:
            raise
        except Exception as error:  # noqa: BLE001 - after any failure the record must not pass
            # The error's text and frames may hold secrets.
            logger.error("the scan for secrets failed: %s", type(error).__name__)  # noqa: TRY400
            raise UnexaminedError("the scan failed") from None

    async def _clean(self) -> T:
        limits, record, latest = self._sight.limits, self.record, ""
        tail = "" if self._stream is None else self._registry.tail(self._stream)
        scanner = Scanner(self._sight.engine, self._registry, self._sight.allow, tail)
        for number in range(_ROUNDS):
            again, times = number > 0, _LONGER if number else 1
            collected = Collector(limits.chars * times, tail)
            record = self._walk(record, collected)
            self._budget.chars = max(self._budget.chars, collected.chars)
            if collected.chars > _SMALL:
                await turn()
            latest = latest or collected.latest
            if results := await scanner.search(collected, again=again):
                # No other record of the session is scanned while secrets are registered.
                await turn()
                scanner.name(results)
            await scanner.look_for_known(collected, again=again)
            if not scanner.has_news:
                break
            scanner.has_news = False
            rewriter = Rewriter(scanner.edits, scanner.exact, collected.encoded, tail)
            new = self._walk(record, rewriter)
            if new is record:
                break
            record = new
        if self._stream is not None:
            self._registry.follow(self._stream, latest)
        return record


class _SecretSpan(NamedTuple):
    """A *value* from byte *start* to *end* of a text, found by *rule*."""

    start: int
    end: int
    value: str
    rule: Rule


class _SearchedText(NamedTuple):
    """The matches in the texts of *group*, which may be the encoding of one JSON value."""

    group: Group
    findings: list[_SecretSpan]
    is_json: bool


class Scanner:
    """Searches texts for secrets, and registers them in *registry*.

    *engine* is None to search for known secrets only. Each text is searched once: *edits* holds the
    edits of all texts so far, *exact* the placeholders of JSON strings. *tail* is the end of an
    earlier record, with which the first group begins.
    """

    def __init__(
        self, engine: Engine | None, registry: SecretRegistry, allow: tuple[str, ...], tail: str
    ) -> None:
        self._find = _find_nothing if engine is None else engine.find
        self._registry, self._allow, self._tail = registry, allow, tail
        self._certain: set[str] = set()
        self._assumed: set[str] = set()
        self._names: dict[tuple[str, str, bool, bool], str] = {}
        self._has_grown = False
        # Assumed values that look random are secrets wherever the record repeats them.
        self._recurring: SecretSearch | None = None
        self._searched: set[Group] = set()
        self._looked_at: set[Group] = set()
        self.edits: dict[Group, list[Edit]] = {}
        self.exact: dict[str, str] = {}
        self.has_news = False
        """Whether there are edits that were not applied yet."""

    async def search(self, collected: Collector, *, again: bool) -> list[_SearchedText]:
        """Return the rules' matches in the texts of *collected* that were not searched yet.

        With *again*, rewritten texts are searched near placeholders only.
        """
        results: list[_SearchedText] = []
        # All texts before known secrets: a secret found in the last text may be in the first.
        for group in collected.groups:
            for part in collected.parts(group):
                await self._search_part(part, results, again=again)
        for encoded, value in collected.values.items():
            if (encoded,) not in self._searched:
                self._searched.add((encoded,))
                findings = await self._findings(encoded, _spans((encoded,), again=again))
                if findings:
                    results.append(_SearchedText((encoded,), findings, is_json=True))
                for part in _leaves(encoded, value, findings):
                    await self._search_part(part, results, again=again)
        return results

    async def _search_part(self, part: Group, results: list[_SearchedText], *, again: bool) -> None:
        """Add to *results* the rules' matches in a text, or where several texts meet."""
        if part in self._searched:
            return
        self._searched.add(part)
        if len(self._searched) % _PATIENCE == 0:
            await turn()
        tail = len(part[0].encode()) if len(part) > 1 and part[0] == self._tail else 0
        findings = await self._findings("".join(part), _spans(part, again=again), tail)
        if findings:
            results.append(_SearchedText(part, findings, is_json=False))

    async def _findings(self, text: str, spans: Spans | None, tail: int = 0) -> list[_SecretSpan]:
        """Return the secrets in *text*, in order, each by the best rule; *tail* is its first bytes.

        Views of one place may show different values.
        """
        best: dict[tuple[int, int, str], tuple[bool, int, Rule]] = {}
        for number, place in enumerate(places(self._find, text.encode(), spans)):
            if place is None or number % _PATIENCE == _PATIENCE - 1:
                await turn()
            if place is None:
                continue
            key, rule = place[:3], place.hit.rule
            # The lowest rank wins among rules that match the same place.
            ranked = (rule.loose, place.hit.number, rule)
            if key in best and best[key][:2] <= ranked[:2]:
                continue
            # A match that ends in the tail was found with the earlier record.
            if place.end <= tail or (place.start < tail and self._goes_on_by_chance(place, tail)):
                continue
            if self._is_secret(place):
                best[key] = ranked
                if len(best) > _MOST_PLACES:
                    raise UnexaminedError(_too_many_places())
        ordered = sorted(best, key=lambda key: (key[0], -key[1]))
        return [_SecretSpan(*key, best[key][2]) for key in ordered]

    def name(self, results: list[_SearchedText]) -> None:
        """Register the *results* of a search, and note their edits."""
        for group, findings, is_json in results:
            edits = [
                Edit(start, end, self._name(value, rule, is_json=is_json))
                for start, end, value, rule in findings
            ]
            for finding, edit in zip(findings, edits, strict=True):
                if finding.value in self._assumed and self._judge.recurs(finding.value):
                    self._recurring = self._recurring or SecretSearch()
                    self._recurring.add(finding.value, edit.placeholder)
            if is_json:
                values = _values(group[0], edits)
                self.has_news = True
                self.exact |= {
                    value: edit.placeholder for value, edit in zip(values, edits, strict=True)
                }
            else:
                self._enter(group, edits)

    async def look_for_known(self, collected: Collector, *, again: bool) -> None:
        """Note the edits for known secrets in *collected*, in any of their encodings."""
        if self._recurring is None and not self._registry.search.knows():
            return
        if self._has_grown:
            # A newly found secret may be in a text that was searched before.
            self._looked_at.clear()
            self._has_grown = again = False
        for group in collected.groups:
            for part in collected.parts(group):
                await self._look_at_part(part, again=again)
        for encoded, value in collected.values.items():
            if (encoded,) not in self._looked_at:
                self._looked_at.add((encoded,))
                # In all encodings, JSON's too: a secret that is not in the whole is in no string.
                edits = await self._known_in(encoded, None)
                for part in _leaves(encoded, value, edits):
                    await self._look_at_part(part, again=again)

    async def _look_at_part(self, part: Group, *, again: bool) -> None:
        if part in self._looked_at:
            return
        self._looked_at.add(part)
        if len(self._looked_at) % _PATIENCE == 0:
            await turn()
        if edits := await self._known_in("".join(part), _spans(part, again=again)):
            self._enter(part, edits)

    async def _known_in(self, text: str, spans: Spans | None) -> list[Edit]:
        """Return the edits of *text* for known secrets, in any encoding."""
        edits: dict[Edit, None] = {}  # A match in two views is one edit.
        data, searches = text.encode(), (self._registry.search, self._recurring)
        sought = [search.places(data, spans) for search in searches if search and search.knows()]
        for number, place in enumerate(chain.from_iterable(sought)):
            if place is None or number % _PATIENCE == _PATIENCE - 1:
                await turn()
            if place is None:
                continue
            edits[Edit(place.start, place.end, place.hit.rule.name)] = None
            if len(edits) > _MOST_PLACES:
                raise UnexaminedError(_too_many_places())
        return [*edits]

    def _enter(self, group: Group, edits: list[Edit]) -> None:
        """Note the *edits* of a text; for adjoining texts only edits across their joints."""
        if edits and len(group) > 1:
            joints = [*_joints(group), sys.maxsize]
            edits = [edit for edit in edits if joints[bisect(joints, edit.start)] < edit.end]
        if edits:
            self.has_news = True
            self.edits.setdefault(group, []).extend(edits)

    def _name(self, value: str, rule: Rule, *, is_json: bool) -> str:
        """Return the placeholder of *value*, found by *rule*."""
        key = (value, rule.name, rule.loose, is_json)
        if key not in self._names:
            self._names[key] = self._new_name(value, rule, is_json=is_json)
        return self._names[key]

    def _new_name(self, value: str, rule: Rule, *, is_json: bool) -> str:
        self._has_grown = self._has_grown or value not in (
            self._assumed if rule.loose else self._certain
        )
        if not rule.loose:
            self._certain.add(value)
            if len(self._certain) > MOST_SECRETS:
                raise UnexaminedError(f"it holds more than {MOST_SECRETS} secrets")
        elif value not in self._assumed:
            if len(self._assumed) >= MOST_SECRETS:
                return self._registry.shared_placeholder(rule.name)
            self._assumed.add(value)
        plain = _unescaped(value)
        # A text may be a piece of JSON or have backslashes of its own, so both forms are known.
        shown, also = (plain, None) if is_json or plain == value else (value, plain)
        return self._registry.placeholder(shown, rule.name, also, assumed=rule.loose)

    @cached_property
    def _judge(self) -> Judge:
        # The judge's many expressions are compiled at the first candidate.
        from toolbus.redaction.secrets.plausibility import Judge  # noqa: PLC0415

        return Judge()

    def _goes_on_by_chance(self, place: Place, tail: int) -> bool:
        """Return whether *place*, which begins in the *tail*, need not continue in this record.

        A name in the tail does not describe a value in another record, and a complete secret does
        not continue.
        """
        return place.hit.rule.loose or (place.start, tail) in self._tail_spans

    @cached_property
    def _tail_spans(self) -> set[tuple[int, int]]:
        """The spans of complete secrets in the tail."""
        findings = at_once(self._findings(self._tail, None))
        return {(finding.start, finding.end) for finding in findings}

    def _is_secret(self, place: Place) -> bool:
        """Return whether *place* is a secret that is not allowed."""
        value = place.value
        if len(value) < _SHORTEST:
            return False
        rest = without_placeholders(value)
        if rest is not value and len(rest) < _REST:
            return False
        for allowed in self._allow:
            if value == allowed or fnmatchcase(value, allowed):
                return False
        # A placeholder's letters are random and must not make the text beside it look random.
        judged = value if rest is value else evened(value)
        return self._judge.is_likely(judged, place.data, place.hit)


def _find_nothing(_data: bytes, _spans: Spans | None = None) -> Iterator[Hit | None]:
    return iter(())


def _leaves(encoded: str, value: Any, edits: Sequence[Edit | _SecretSpan]) -> Iterator[Group]:
    """Yield the strings of the JSON *value* that may hold the matches of *edits* in the whole.

    The place inside the string is needed. A string with escapes differs in the whole, and adjoining
    strings begin an array.
    """
    if not edits and "\\" not in encoded and '["' not in encoded:
        return
    distinct = {*_values(encoded, edits)}
    parts = [_ESCAPED, *map(re.escape, distinct)] if len(distinct) <= _MOST_SOUGHT else [""]
    has_any = re.compile("|".join(parts)).search
    for group in strings(value):
        yield from [(text,) for text in group if has_any(text)]
        if len(group) > 1:
            yield group


def _values(encoded: str, edits: Iterable[Edit | _SecretSpan]) -> list[str]:
    """Return the original values at the places of *edits* in the JSON *encoded*."""
    data = encoded.encode() if edits else b""
    return [_unescaped(data[edit.start : edit.end].decode(errors="ignore")) for edit in edits]


def _joints(group: Group) -> list[int]:
    """Return the bytes at which the texts of *group* meet."""
    return list(accumulate([len(text.encode()) for text in group]))[:-1]


def _spans(group: Group, *, again: bool) -> Spans | None:
    """Return the spans of *group* to search; None for everywhere.

    Adjoining texts are searched where they meet: each was searched alone. With *again*, rewritten
    texts are searched around placeholders, since a removed value may have parted the halves of
    another.
    """
    if len(group) == 1 and not again:
        return None
    near = [(joint, joint) for joint in _joints(group)] if len(group) > 1 else []
    if not again:
        return around(near)
    data = "".join(group).encode()
    return around([(0, 0), (len(data), len(data)), *near, *placeholder_spans(data)], _NEAR)


def _unescaped(text: str) -> str:
    """Return *text*, which may be a part of JSON, without JSON's escapes."""
    if "\\" not in text:
        return text
    try:
        plain = msgspec.json.decode(f'"{text}"', type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return plain


def _too_many_places() -> str:
    return f"it holds secrets in more than {_MOST_PLACES:,} places"
