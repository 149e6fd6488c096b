"""Proposed rules: a small set that answers most of the questions of the evidence.

A rule needs three approved calls in two sessions, at least an hour between the first and the last.
Of the forms of a part, the family is tried before the exact call. A refusal of a call, by anybody,
rules out its exact form and its family.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolbus.messages.immutable import thaw
from toolbus.policy.history.counted_calls import judge_first
from toolbus.policy.paths.name_globs import glob_quoted
from toolbus.policy.rules.protection import PROTECTED
from toolbus.policy.rules.values import first_words
from toolbus.suggest.call_forms import Family, Forms, NoFormError, command_text, forms_of
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

_LONGEST_NAME = 60


class Proposal(NamedTuple):
    """A proposed rule of a *form*: its table as in a policy file, and its *evidence*.

    *covers* is the number of approved calls that it helps to answer. A *caution* tells a person
    what the rule leaves open, or is "".
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


class _Question(NamedTuple):
    """A part of call number *call*, about which a person was *asked*; a rule answers it or not."""

    call: int
    asked: AskedCall
    forms: Forms

    @property
    def keys(self) -> list[object]:
        """Its forms: this very call, and the family if a rule can name it."""
        return [self.forms.exact, *([self.forms.family] if self.forms.paths else [])]


def propose(asked: Iterable[AskedCall], policy: PolicyFile) -> Suggestions:
    """Return the rules to add to *policy*, which answer most of the *asked* calls."""
    readings, left_out = CallReadings(policy), Counter[str]()
    # Several stores may have copies of a session.
    each_once = {(call.session_id, call.call.id, call.answer): call for call in asked}
    refused, by_key = set[object](), dict[object, list[_Question]]()
    for number, call in enumerate(sorted(each_once.values(), key=_time)):
        if call.answer == "no":
            refused |= _refused_keys(call, readings)
            continue
        try:
            questions = list(_questions(call, number, readings))
        except NoFormError as error:
            left_out[error.reason] += 1
            continue
        for question in questions:
            for key in question.keys:
                by_key.setdefault(key, []).append(question)
    chosen, unanswered = _chosen(by_key, refused)
    if unanswered:
        left_out["it was refused once, or not approved often enough in several sessions"] += len(
            unanswered
        )
    names = {rule.name for rule in policy.tables.rule}
    return Suggestions(tuple(_proposals(chosen, unanswered, names)), left_out)


def _time(asked: AskedCall) -> tuple[int, str, str]:
    return asked.asked_ns, asked.session_id, asked.call.id


def _refused_keys(asked: AskedCall, readings: CallReadings) -> set[object]:
    """Return the keys of the forms that a refusal rules out."""
    read, keys = readings.read(asked), set[object]()
    for part in read.reading.parts:
        with suppress(NoFormError):
            forms = forms_of(part, read)
            keys |= {forms.exact, forms.family}
    return keys


def _questions(asked: AskedCall, number: int, readings: CallReadings) -> Iterator[_Question]:
    """Yield the questions about the parts of *asked*; raises `NoFormError`."""
    if asked.unfit or asked.answer != "yes":
        raise NoFormError(asked.unfit or "nobody has answered")
    read = readings.read(asked)
    verdict = judge_first(read.judge, read.reading)
    if verdict.verdict != "ask":
        does = "allows" if verdict.verdict == "allow" else "denies"
        raise NoFormError(f"the policy {does} it today")
    for part in map(_by_default, verdict.decided):
        yield _Question(number, asked, forms_of(part, read))


def _by_default(verdict: PartVerdict) -> CallPart:
    """Return the part of *verdict* if an allow rule can lift its question.

    Raises `NoFormError` for a question by a rule: ask beats allow, so only that rule can change.
    """
    if verdict.decided.rule is not None:
        raise NoFormError(f"{verdict.decided.rule.label} asks; only a change of that rule helps")
    if verdict.decided.key == PROTECTED:
        raise NoFormError("a protection that no rule lifts asks")
    return verdict.part


def _chosen(
    by_key: Mapping[object, list[_Question]], refused: set[object]
) -> tuple[list[tuple[dict[str, Any], list[_Question]]], set[int]]:
    """Return rules with the questions that they answer, and the calls that are not answered."""
    chosen, answered = [], set[tuple[int, object]]()
    order = sorted(
        by_key.items(),
        key=lambda each: (not isinstance(each[0], Family), -len(each[1]), str(each[0])),
    )
    for key, questions in order:
        new = {(each.call, each.forms.exact) for each in questions} - answered
        if key not in refused and len(new) >= LEAST_CALLS and _are_evidence(questions):
            rule = (
                _family_rule(key, questions) if isinstance(key, Family) else _exact_rule(questions)
            )
            if rule:
                answered |= new
                chosen.append((rule, questions))
    every = {(each.call, each.forms.exact) for _, questions in order for each in questions}
    return chosen, {call for call, _ in every - answered}


def _are_evidence(questions: list[_Question]) -> bool:
    """Return whether the calls of *questions* are many, in several sessions and far apart."""
    calls = [each.asked for each in questions]
    times = [call.answered_ns for call in calls]
    is_far = max(times) - min(times) >= LEAST_NS
    return (
        len(calls) >= LEAST_CALLS
        and len({each.root for each in calls}) >= LEAST_SESSIONS
        and is_far
    )


def _exact_rule(questions: list[_Question]) -> dict[str, Any]:
    tool, text = questions[0].forms.exact
    if tool:
        arguments = thaw(questions[0].asked.call.arguments)
        return {"name": f"{tool} {text}", "verdict": "allow", "tools": tool, "exactly": arguments}
    return {"name": text, "verdict": "allow", "exactly": text}


def _family_rule(family: Family, questions: list[_Question]) -> dict[str, Any]:
    """Return the rule for *questions* of one family, empty if their paths are not of a kind."""
    paths = {each.forms.paths for each in questions}
    if len(paths) < LEAST_CALLS:
        return {}
    start, limits = glob_quoted(family.base) or ".", dict[str, set[str]]()
    for verb, values in zip(family.verbs, zip(*paths, strict=True), strict=True):
        is_folder = family.words[:1] == ("mkdir",)
        patterns = family_patterns(
            set(values), is_written=verb == "writes", makes_folders=is_folder
        )
        if not patterns:
            return {}
        limits.setdefault(verb, set()).update([f"{start}/{each}" for each in patterns])
    effects = frozenset({"read"}).union(*[each.forms.effects for each in questions])
    text = command_text(family.folder, family.words, family.base) if family.words else family.tool
    tops = dict.fromkeys([top for top, _ in family.kinds])
    return {
        "name": f"{text} in {', '.join(tops)}",
        "verdict": "allow",
        "exactly" if family.words else "tools": text,
        "effects": sorted(effects),
        **{verb: sorted(limits[verb]) for verb in sorted(limits)},
    }


def _proposals(
    chosen: list[tuple[dict[str, Any], list[_Question]]], unanswered: set[int], names: set[str]
) -> Iterator[Proposal]:
    """Yield the *chosen* rules that help to answer whole calls, with a name not in *names*."""
    for rule, questions in chosen:
        if calls := {each.call for each in questions} - unanswered:
            name = short = first_words(rule["name"], _LONGEST_NAME)
            while name in names:
                name = f"{short} ({len(names)})"
            names.add(name)
            forms = questions[0].forms
            caution = "toolbus does not know what it does" if forms.is_unknown else ""
            form: Form = "family" if "effects" in rule else "exact"
            evidence = tuple([each.asked for each in questions])
            yield Proposal({**rule, "name": name}, form, evidence, len(calls), caution)
