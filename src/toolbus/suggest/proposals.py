"""Proposed rules: the smallest set that answers most of the questions of the evidence.

A rule needs three approved calls in two sessions, at least an hour between the first and the last.
Of the forms of a part, the family is tried before the exact call. A refusal of a call, by anybody,
rules out its exact form and its family.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolbus.messages.immutable import thaw
from toolbus.policy.history.counted_calls import judge_first
from toolbus.policy.paths.name_globs import glob_quoted
from toolbus.policy.rules.protection import PROTECTED
from toolbus.suggest.call_forms import Forms, NoFormError, command_text, forms_of
from toolbus.suggest.call_readings import CallReadings
from toolbus.suggest.path_families import family_patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toolbus.policy.facts import CallPart
    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.policy.rules.records import PartVerdict
    from toolbus.suggest.evidence import AskedCall

Form: TypeAlias = Literal["exact", "family"]
LEAST_CALLS, LEAST_SESSIONS, LEAST_NS = 3, 2, 3_600 * 10**9
"""The least calls, sessions and nanoseconds between first and last of the evidence of a rule."""

_SHORT = 60
"""The characters of a rule's name."""

_ALLOWED, _DENIED = "the policy allows it today", "the policy denies it today"
_RARE = "it was not approved often enough, in enough sessions"
_REFUSED = "a person refused the same"


class Proposal(NamedTuple):
    """A proposed rule of a *form*: its table as in a policy file, and its *evidence*.

    *covers* is the number of approved calls of which it answers a part or the whole. A *caution*
    tells a person what the rule leaves open, or is "".
    """

    rule: Mapping[str, Any]
    form: Form
    evidence: tuple[AskedCall, ...]
    covers: int
    caution: str = ""


class Suggestions(NamedTuple):
    """The *proposals*, families first, and the number of calls *left_out* by reason."""

    proposals: tuple[Proposal, ...]
    left_out: Mapping[str, int]


class _Slot(NamedTuple):
    """A part of the call *asked* that a person was asked about: a rule answers it or not."""

    asked: AskedCall
    call: int
    forms: Forms

    @property
    def place(self) -> tuple[int, object]:
        """The call with the part."""
        return self.call, self.forms.exact


class _Candidate(NamedTuple):
    """The *slots* of one form."""

    form: Form
    slots: list[_Slot]


def propose(asked: Iterable[AskedCall], policy: PolicyFile) -> Suggestions:
    """Return the rules to add to *policy*, which answer most of the *asked* calls."""
    proposer = _Proposer(policy)
    for number, call in enumerate(asked):
        proposer.take(call, number)
    return proposer.suggestions()


class _Proposer:
    """Collects the forms of asked calls for *policy*."""

    def __init__(self, policy: PolicyFile) -> None:
        self._readings = CallReadings(policy)
        self._names = {rule.name for rule in policy.tables.rule}
        self._candidates: dict[object, _Candidate] = {}
        self._refused: set[object] = set()
        self._left_out: Counter[str] = Counter()

    def take(self, asked: AskedCall, number: int) -> None:
        """Add call number *number*, an approved or a refused one, or the reason to leave it out."""
        if asked.answer == "no":
            self._refused |= {key for forms in self._all_forms(asked) for key in _keys(forms)}
            return
        try:
            slots = self._slots(asked, number)
        except NoFormError as error:
            self._left_out[error.reason] += 1
            return
        for slot in slots:
            for key, form in _keys(slot.forms).items():
                self._candidates.setdefault(key, _Candidate(form, [])).slots.append(slot)

    def _all_forms(self, asked: AskedCall) -> Iterator[Forms]:
        """Yield the forms of all parts of *asked* that have one."""
        read = self._readings.read(asked)
        for part in read.reading.parts:
            with suppress(NoFormError):
                yield forms_of(part, read.reading, read.base, absolute=read.is_of_session)

    def _slots(self, asked: AskedCall, number: int) -> list[_Slot]:
        """Return the parts of *asked* for rules; raises `NoFormError`."""
        if asked.unfit or asked.answer != "yes":
            raise NoFormError(asked.unfit or "nobody has answered")
        read = self._readings.read(asked)
        verdict = judge_first(read.judge, read.reading)
        if verdict.verdict != "ask":
            raise NoFormError(_ALLOWED if verdict.verdict == "allow" else _DENIED)
        parts = [_by_default(part) for part in verdict.decided]
        return [
            _Slot(
                asked, number, forms_of(part, read.reading, read.base, absolute=read.is_of_session)
            )
            for part in parts
        ]

    def suggestions(self) -> Suggestions:
        """Return the rules, each for parts that no rule before it answers."""
        answered: set[tuple[int, object]] = set()
        chosen: list[tuple[_Candidate, dict[str, Any]]] = []
        order = sorted(self._candidates.items(), key=_rank)
        for key, candidate in order:
            new = {slot.place for slot in candidate.slots} - answered
            is_usable = key not in self._refused and len(new) >= LEAST_CALLS
            if is_usable and _is_evidence(candidate) and (rule := _rule_of(candidate)):
                answered |= new
                chosen.append((candidate, rule))
        open_calls = {
            slot.call
            for _, candidate in order
            for slot in candidate.slots
            if slot.place not in answered
        }
        self._count_left_out(open_calls)
        return Suggestions(tuple(self._proposals(chosen, open_calls)), dict(self._left_out))

    def _count_left_out(self, open_calls: set[int]) -> None:
        refused = {
            slot.call
            for key, candidate in self._candidates.items()
            for slot in candidate.slots
            if key in self._refused
        }
        counts = {_REFUSED: len(open_calls & refused), _RARE: len(open_calls - refused)}
        self._left_out.update({reason: count for reason, count in counts.items() if count})

    def _proposals(
        self, chosen: list[tuple[_Candidate, dict[str, Any]]], open_calls: set[int]
    ) -> Iterator[Proposal]:
        """Yield the *chosen* rules that answer whole calls, of which none is an open call."""
        for candidate, rule in chosen:
            slots = [slot for slot in candidate.slots if slot.call not in open_calls]
            if slots:
                evidence = tuple(sorted([slot.asked for slot in candidate.slots], key=_time))
                covers, caution = len({slot.call for slot in slots}), slots[0].forms.caution
                yield Proposal(self._named(rule), candidate.form, evidence, covers, caution)

    def _named(self, rule: dict[str, Any]) -> dict[str, Any]:
        """Return *rule* with a name that no other rule has."""
        short = rule["name"] if len(rule["name"]) <= _SHORT else f"{rule['name'][: _SHORT - 1]}…"
        names = chain([short], (f"{short} ({number})" for number in count(2)))
        name = next(each for each in names if each not in self._names)
        self._names.add(name)
        return {**rule, "name": name}


def _keys(forms: Forms) -> dict[object, Form]:
    """Return the keys of *forms* with their forms, the widest first."""
    families: dict[object, Form] = {} if forms.family is None else {forms.family: "family"}
    return {**families, forms.exact: "exact"}


def _by_default(verdict: PartVerdict) -> CallPart:
    """Return the part of *verdict* if an allow rule can lift its question.

    Raises `NoFormError` for a question by a rule: ask beats allow, so only that rule can change.
    """
    if verdict.decided.rule is not None:
        raise NoFormError(f"{verdict.decided.rule.label} asks; only a change of that rule helps")
    if verdict.decided.key == PROTECTED:
        raise NoFormError("a protection that no rule lifts asks")
    return verdict.part


def _rank(item: tuple[object, _Candidate]) -> tuple[bool, int, str]:
    key, candidate = item
    return candidate.form == "exact", -len(candidate.slots), str(key)


def _time(asked: AskedCall) -> tuple[int, str]:
    return asked.asked_ns, asked.session_id


def _is_evidence(candidate: _Candidate) -> bool:
    """Return whether the calls of *candidate* are many, in several sessions and far apart."""
    calls = [slot.asked for slot in candidate.slots]
    times = sorted([call.answered_ns for call in calls])
    is_far = not times[0] or times[-1] - times[0] >= LEAST_NS
    return (
        len(calls) >= LEAST_CALLS
        and len({call.root for call in calls}) >= LEAST_SESSIONS
        and is_far
    )


def _rule_of(candidate: _Candidate) -> dict[str, Any]:
    """Return the rule for *candidate*, empty if its paths have nothing in common."""
    if candidate.form == "family":
        return _family_rule(candidate)
    slot = candidate.slots[0]
    tool, text = slot.forms.exact
    if tool:
        arguments = thaw(slot.asked.call.arguments)
        return {"name": f"{tool} {text}", "verdict": "allow", "tools": tool, "exactly": arguments}
    return {"name": text, "verdict": "allow", "exactly": text}


def _family_rule(candidate: _Candidate) -> dict[str, Any]:
    family = candidate.slots[0].forms.family
    paths = {slot.forms.paths for slot in candidate.slots}
    if family is None or len(paths) < LEAST_CALLS:
        return {}
    limits: dict[str, list[str]] = {}
    makes_folders = family.words[:1] == ("mkdir",)
    for verb, values in zip(family.verbs, zip(*paths, strict=True), strict=True):
        patterns = family_patterns(
            set(values), is_written=verb == "writes", makes_folders=makes_folders
        )
        if not patterns:
            return {}
        limits[verb] = sorted({*limits.get(verb, ()), *patterns})
    if family.base:
        start = glob_quoted(family.base)
        limits = {verb: [f"{start}{each[1:]}" for each in limits[verb]] for verb in limits}
    effects = frozenset({"read"}).union(*[slot.forms.effects for slot in candidate.slots])
    text = command_text(family.folder, family.words, family.base) if family.words else family.tool
    name = f"{text} in {', '.join(dict.fromkeys(family.tops))}"
    called = {"exactly": text} if family.words else {"tools": family.tool}
    return {"name": name, "verdict": "allow", **called, "effects": sorted(effects), **limits}
