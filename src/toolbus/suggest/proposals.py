"""Proposed rules: a small set that answers most of the questions of the evidence.

A rule needs three approved calls in two sessions, at least an hour between the first and the last.
Of the forms of a part, the family is tried before the exact call. A refusal of a call, by anybody,
rules out its exact form and its family.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolbus.messages.immutable import thaw
from toolbus.policy.history.counted_calls import judge_first
from toolbus.policy.paths.name_globs import glob_quoted
from toolbus.policy.rules.exact_calls import RUNNERS
from toolbus.policy.rules.protection import PROTECTED
from toolbus.policy.rules.values import first_words
from toolbus.suggest.call_forms import Family, NoFormError, RuleForms, command_text, forms_of
from toolbus.suggest.call_readings import CallReadings
from toolbus.suggest.evidence import without_copies
from toolbus.suggest.path_families import family_patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toolbus.policy.facts import CallPart
    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.policy.rules.records import PartVerdict
    from toolbus.suggest.evidence import AskedCall

Form: TypeAlias = Literal["exact", "family"]
LEAST_CALLS, LEAST_SESSIONS, LEAST_NS = 3, 2, 3_600 * 10**9
"""The least calls, sessions and nanoseconds between first and last of the evidence of a rule."""

_LONGEST_NAME = 60
_FETCHING = frozenset({"network", "read"})
_OTHERS = "other files of these names are covered, too: see that none holds a secret"
_REFUSED = "a call like it was refused once"
_RARE = "too few calls like it were approved, or in too few sessions"
_UNNAMED = "no rule can name its files"


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


class _OpenPart(NamedTuple):
    """A part of call number *call*, which was *asked* about: a rule answers it or not."""

    call: int
    asked: AskedCall
    forms: RuleForms

    @property
    def place(self) -> tuple[int, tuple[str, str]]:
        """The call and the very part."""
        return self.call, self.forms.exact


class _Choice(NamedTuple):
    """A chosen *rule* of a *form*, with all *parts* of it; empty if it cannot name their files."""

    form: Form
    rule: dict[str, Any]
    parts: list[_OpenPart]


def propose(asked: Iterable[AskedCall], policy: PolicyFile) -> Suggestions:
    """Return the rules to add to *policy*, which answer most of the *asked* calls."""
    readings = CallReadings(policy)
    calls = sorted(without_copies(asked), key=_time)
    refused = set[object]().union(
        *[_refused_keys(call, readings) for call in calls if call.answer == "no"]
    )
    parts, left_out = _all_parts([call for call in calls if call.answer != "no"], readings)
    tried = list(_choices(parts, refused))
    unanswered = _unanswered(parts, tried, refused)
    left_out += Counter(unanswered.values())
    names = {rule.name for rule in policy.tables.rule}
    choices = [each for each in tried if each.rule]
    return Suggestions(tuple(_proposals(choices, set(unanswered), names)), left_out)


def _unanswered(
    parts: list[_OpenPart], tried: list[_Choice], refused: set[object]
) -> dict[int, str]:
    """Return the calls with *parts* that no rule of *tried* answers, each with the reason."""
    answered = {part.place for choice in tried if choice.rule for part in choice.parts}
    unnamed = {part.place for choice in tried if not choice.rule for part in choice.parts}
    reasons = dict[int, str]()
    for part in parts:
        if part.place not in answered:
            # A refused call may have no family.
            is_refused = not refused.isdisjoint({part.forms.exact, part.forms.family} - {None})
            rare = _UNNAMED if part.place in unnamed else _RARE
            reasons[part.call] = _REFUSED if is_refused else rare
    return reasons


def _time(asked: AskedCall) -> tuple[int, str, str]:
    return asked.asked_ns, asked.session_id, asked.call.id


def _refused_keys(asked: AskedCall, readings: CallReadings) -> set[object]:
    """Return the forms that a refusal rules out."""
    read, keys = readings.read(asked), set[object]()
    for part in read.reading.parts:
        with suppress(NoFormError):
            forms = forms_of(part, read)
            keys |= {forms.exact, forms.family}
    return keys


def _all_parts(
    calls: list[AskedCall], readings: CallReadings
) -> tuple[list[_OpenPart], Counter[str]]:
    """Return the parts of *calls* that rules may answer, and the other calls by reason."""
    parts, left_out = list[_OpenPart](), Counter[str]()
    for number, call in enumerate(calls):
        try:
            parts += list(_open_parts(call, number, readings))
        except NoFormError as error:
            left_out[error.reason] += 1
    return parts, left_out


def _open_parts(asked: AskedCall, number: int, readings: CallReadings) -> Iterator[_OpenPart]:
    """Yield the parts of *asked* that a rule may answer; raises `NoFormError`."""
    if asked.unfit or asked.answer != "yes":
        raise NoFormError(asked.unfit or "nobody has answered")
    read = readings.read(asked)
    verdict = judge_first(read.judge, read.reading)
    if verdict.verdict != "ask":
        does = "allows" if verdict.verdict == "allow" else "denies"
        raise NoFormError(f"the policy {does} it today")
    _check_line(read.reading.parts)
    for part in map(_by_default, verdict.decided):
        yield _OpenPart(number, asked, forms_of(part, read))


def _check_line(parts: Sequence[CallPart]) -> None:
    """Raise `NoFormError` if one of *parts* alone would do more than the line of all."""
    single = [part for part in parts if not _is_aside(part)]
    # A command before another may be a check, without which the person had refused.
    if len(single) > 1:
        raise NoFormError("it is one of several commands of a line")
    is_filtered = any(part.command and part.command.piped for part in parts)
    for part in single:
        is_filtered = is_filtered or bool(part.command and part.command.redirections)
        if is_filtered and part.effects <= _FETCHING:
            raise NoFormError("only a part of its output was read")


def _is_aside(part: CallPart) -> bool:
    """Return whether *part* is a `cd`, a filter of another's output, or runs another as it is."""
    only_reads = part.effects <= {"read"} and not part.unknown
    is_piped = part.command is not None and part.command.piped
    return "".join(part.action[:1]) in {"cd", *RUNNERS} or (is_piped and only_reads)


def _by_default(verdict: PartVerdict) -> CallPart:
    """Return the part of *verdict* if an allow rule can lift its question.

    Raises `NoFormError` for a question by a rule: ask beats allow, so only that rule can change.
    """
    if verdict.decided.rule is not None:
        raise NoFormError(f"{verdict.decided.rule.label} asks; only a change of that rule helps")
    if verdict.decided.key == PROTECTED:
        raise NoFormError("a protection that no rule lifts asks")
    return verdict.part


def _choices(parts: list[_OpenPart], refused: set[object]) -> Iterator[_Choice]:
    """Yield rules of forms that are not *refused*, each for parts that none before it answers.

    A rule that cannot name its files is empty, and answers none.
    """
    by_form, answered = dict[object, list[_OpenPart]](), set[object]()
    for part in parts:
        forms: set[object] = {part.forms.exact, part.forms.family}
        for each in forms - refused - {None}:
            by_form.setdefault(each, []).append(part)
    for form, alike in sorted(by_form.items(), key=_rank):
        new = {part.place for part in alike} - answered
        is_habit = len(new) >= LEAST_CALLS and _are_evidence(form, alike)
        if is_habit:
            choice = _choice(form, alike)
            answered |= new if choice.rule else set()
            yield choice


def _choice(form: object, parts: list[_OpenPart]) -> _Choice:
    if isinstance(form, Family):
        return _Choice("family", _family_rule(form, parts), parts)
    return _Choice("exact", _exact_rule(parts), parts)


def _rank(item: tuple[object, list[_OpenPart]]) -> tuple[bool, int, str]:
    key, parts = item
    return not isinstance(key, Family), -len(parts), str(key)


def _are_evidence(form: object, parts: list[_OpenPart]) -> bool:
    """Return whether *parts* of *form* have several sessions, far times, and paths if a family."""
    paths = {part.forms.paths for part in parts}
    if isinstance(form, Family) and len(paths) < LEAST_CALLS and all(paths):
        return False
    times = [part.asked.answered_ns for part in parts]
    sessions = {part.asked.root for part in parts}
    return len(sessions) >= LEAST_SESSIONS and max(times) - min(times) >= LEAST_NS


def _exact_rule(parts: list[_OpenPart]) -> dict[str, Any]:
    tool, text = parts[0].forms.exact
    if tool:
        arguments = thaw(parts[0].asked.call.arguments)
        return {"name": f"{tool} {text}", "verdict": "allow", "tools": tool, "exactly": arguments}
    return {"name": text, "verdict": "allow", "exactly": text}


def _family_rule(family: Family, parts: list[_OpenPart]) -> dict[str, Any]:
    """Return the rule for *parts* of one family, empty if their paths cannot be generalised."""
    paths = {part.forms.paths for part in parts}
    limits = _limits(family, paths) if len(paths) >= LEAST_CALLS and all(paths) else {}
    effects = {"read"}.union(*[part.forms.effects for part in parts])
    named = _named_calls(family)
    folders = dict.fromkeys([kind.rpartition("/")[0] for kind in family.kinds])
    rule = {
        "name": f"{next(iter(named.values()))} in {', '.join(folders)}",
        "verdict": "allow",
        **named,
        "effects": sorted(effects),
        **{verb: sorted(limits[verb]) for verb in sorted(limits)},
    }
    return rule if limits else {}


def _named_calls(family: Family) -> dict[str, Any]:
    """Return the keys of a rule that name the calls of *family*."""
    if family.tool:
        return {"tools": family.tool, "exactly": json.loads(family.words[0])}
    return {"exactly": command_text(family.folder, family.words, family.base)}


def _limits(family: Family, paths: set[tuple[str, ...]]) -> dict[str, set[str]]:
    """Return the patterns of *paths* by the keys of the rule, empty if some have none."""
    limits = dict[str, set[str]]()
    start, makes_folders = glob_quoted(family.base) or ".", family.words[:1] == ("mkdir",)
    for verb, values in zip(family.verbs, zip(*paths, strict=True), strict=True):
        is_written = verb == "writes"
        patterns = family_patterns(set(values), is_written=is_written, makes_folders=makes_folders)
        if not patterns:
            return {}
        limits.setdefault(verb, set()).update([f"{start}/{each}" for each in patterns])
    return limits


def _proposals(choices: list[_Choice], unanswered: set[int], names: set[str]) -> Iterator[Proposal]:
    """Yield the rules of *choices* that help to answer whole calls, with a name not in *names*."""
    for form, rule, parts in choices:
        if calls := {part.call for part in parts} - unanswered:
            name = short = first_words(rule["name"], _LONGEST_NAME)
            while name in names:
                name = f"{short} ({len(names)})"
            names.add(name)
            evidence = tuple([part.asked for part in parts])
            caution = _OTHERS if form == "family" else parts[0].forms.caution
            yield Proposal({**rule, "name": name}, form, evidence, len(calls), caution)
