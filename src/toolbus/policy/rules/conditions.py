"""The conditions of rules, on a whole call and on one part of it.

Each condition is a function of the call or the part, stored with its texts from the file.

A deny or ask rule applies if any effect, file or host of the part matches, or may match. An allow
rule applies only if all of them certainly match: nothing about the part is unknown, including the
files that it writes and the hosts that it reaches. No condition matches vacuously: a rule with
`hosts` allows no part without a host, and no file that no other key of the rule covers.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolbus.events.subjects import matches
from toolbus.policy.commands import CHANGES, PathUse, Word
from toolbus.policy.paths.file_access import stays_within, touches
from toolbus.policy.paths.hosts import reaches, stays_among
from toolbus.policy.paths.targets import argument_word, find_targets
from toolbus.policy.rules.command_patterns import names_command, plain_effects
from toolbus.policy.rules.records import CallCondition, MatchResult, PartCondition
from toolbus.policy.rules.values import ConditionError, WrongTypeError, excerpt, passes, places_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from toolbus.policy.commands import Command
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.paths.hosts import HostPattern
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.rules.command_patterns import CommandPattern
    from toolbus.policy.rules.records import Answer
    from toolbus.policy.rules.values import ValueTest

_YES = MatchResult("yes")
_no = partial(MatchResult, "no")
_GLOB = re.compile(r"[*?\[]")
_READING = frozenset({"read", "read-tree"})
_LISTING = frozenset({"names"})
_KINDS = {"reads": _READING, "writes": CHANGES, "touches": _READING | CHANGES}
_COVERED_EFFECTS = {
    "reads": {"read"},
    "writes": {"write"},
    "touches": {"read", "write"},
    "hosts": {"network"},
    "pushes": {"network", "write"},
}
_IMPLIED = ("",)
"""The texts of conditions implied by other keys, which have no text in the file."""
_FITTING: tuple[Answer, ...] = ("yes", "maybe")
RESOURCES = frozenset(_COVERED_EFFECTS)
"""Keys whose values are files, hosts or branches."""


class WantedValues(NamedTuple):
    """The *tests* for the values at *path*, *written* so in the file."""

    written: str
    path: tuple[str, ...]
    tests: tuple[ValueTest, ...]


# --- conditions on a call -------------------------------------------------------------------------


def on_tools(patterns: tuple[str, ...]) -> CallCondition:
    """Return the condition that the tool's name matches a glob of *patterns*."""

    def test(facts: CallReading) -> MatchResult:
        if matches(patterns, facts.call.name):
            return _YES
        return _no(f"{facts.call.name!r} is not {' or '.join(patterns)}")

    return CallCondition("tools", patterns, test)


def on_agent(key: str, patterns: tuple[str, ...]) -> CallCondition:
    """Return the condition that the agent's id, or one above it (lineage), matches *patterns*."""

    def test(facts: CallReading) -> MatchResult:
        names = (facts.scope.agent_id,) if key == "agent" else facts.scope.lineage
        if any(matches(patterns, name) for name in names):
            return _YES
        return _no(f"{', '.join(map(repr, names)) or 'no agent'} does not match")

    return CallCondition(key, patterns, test)


def on_values(
    key: str, wanted: tuple[WantedValues, ...], texts: tuple[str, ...], *, every: bool
) -> CallCondition:
    """Return the condition that the values under *key* pass the *wanted* tests.

    If a path leads to several values (`files.*.path`), *every* value must pass, or else any.
    """

    def test(facts: CallReading) -> MatchResult:
        values = _values(key, facts)
        for each in wanted:
            if reason := _misfit(each, values, key, every=every):
                return _no(reason)
        return _YES

    return CallCondition(key, texts, test, every)


def _values(key: str, facts: CallReading) -> Mapping[str, Any]:
    if key == "arguments":
        return facts.call.arguments
    if key == "context":
        return facts.scope.context
    return {} if facts.tool is None else facts.tool.annotations


def _misfit(wanted: WantedValues, values: Mapping[str, Any], key: str, *, every: bool) -> str:
    """Return how *values* differ from *wanted*, or ""; raises `ConditionError`."""
    try:
        places = places_at(values, wanted.path)
        reached = [value for value in places if value is not None]
        results = [passes(wanted.tests, value) for value in reached]
    except WrongTypeError as error:
        raise ConditionError(f"{key}.{wanted.written}", str(error)) from None
    # An item without the value does not match.
    if not reached or (every and len(reached) < len(places)):
        return f"{wanted.written} is absent"
    if all(results) if every else any(results):
        return ""
    words = " and ".join([test.words for test in wanted.tests])
    return f"{wanted.written} is {excerpt(reached[0])}, not {words}"


# --- effects and commands -------------------------------------------------------------------------


def on_effects(names: tuple[str, ...], *, every: bool) -> PartCondition:
    """Return the condition that an effect of a part, or *every* effect, is in *names*."""
    test = partial(_only_effects if every else _any_effect, frozenset(names))
    return PartCondition("effects", names, test, every)


def _any_effect(names: frozenset[str], part: CallPart) -> MatchResult:
    if reached := names & (part.effects | part.claimed):
        return MatchResult("yes", f"its effects include {' and '.join(sorted(reached))}")
    return _no(f"its effects are {' and '.join(sorted(part.effects)) or 'unknown'}")


def _only_effects(names: frozenset[str], part: CallPart) -> MatchResult:
    if part.unknown:
        return _unknown(part)
    if others := part.effects - names:
        return _no(f"its effects include {' and '.join(sorted(others))}")
    return _YES


def on_covered_effects(keys: frozenset[str], commands: tuple[CommandPattern, ...]) -> PartCondition:
    """Return the condition that all effects of a part are covered by the *keys* of an allow rule.

    `reads` covers reading files, `writes` writing them, `hosts` the network, `pushes` pushing, and
    `command` the effects of the plain *commands*.
    """

    def test(part: CallPart) -> MatchResult:
        if commands and part.unknown:
            return _YES  # The part has exactly the words of the rule.
        covered = {"read"}.union(*[_COVERED_EFFECTS.get(key, ()) for key in keys])
        if further := part.effects - covered - plain_effects(commands, part):
            effects = " and ".join(sorted(further))
            return _no(f"its effects include {effects}, which the rule does not cover")
        return _YES

    return PartCondition("effects", _IMPLIED, test, every=True)


def on_commands(patterns: tuple[CommandPattern, ...], *, every: bool) -> PartCondition:
    """Return the condition that a part matches one of the command *patterns*."""
    texts = tuple([pattern.text for pattern in patterns])
    return PartCondition("command", texts, partial(names_command, patterns, every=every), every)


# --- files ----------------------------------------------------------------------------------------


def on_named_resources(keys: frozenset[str]) -> PartCondition:
    """Return the condition that the *keys* of an allow rule cover all resources of a part.

    A part without resources matches a rule with `command`, or with `effects` and `reads`: it reads
    at most its working folder. It never matches a rule about hosts or branches alone.
    """
    key = min(keys & RESOURCES)
    return PartCondition(key, _IMPLIED, partial(_names_resources, keys), every=True)


def _names_resources(keys: frozenset[str], part: CallPart) -> MatchResult:
    if part.unknown:
        return _unknown(part)
    resources = _resources(part, keys)
    files = {"reads", "writes"} if "touches" in keys else set()
    for kind in sorted(resources.keys() - keys - files):
        verb = "reaches" if kind == "hosts" else kind
        return _no(f"it {verb} {resources[kind].text}, and the rule has no `{kind}`")
    has_command = "command" in keys and keys & {"reads", "writes", "touches"}
    reads_here = "effects" in keys and keys & {"reads", "touches"}
    if resources or has_command or reads_here:
        return _YES
    return _no("it names neither a file nor a host")


def _resources(part: CallPart, keys: frozenset[str]) -> dict[str, Word]:
    """Return the resources of *part*: an example for each key of a rule."""
    changed = {(use.word, use.folder) for use in part.paths if use.kind in CHANGES}
    resources = {
        "writes" if use.kind in CHANGES else "reads": use.word
        for use in part.paths
        # Writing a file implies permission to read it: an editor does both.
        if use.kind in CHANGES or (use.word, use.folder) not in changed
    }
    if part.hosts:
        resources["hosts"] = part.hosts[0]
    if part.branches and "pushes" in keys:
        resources["pushes"] = part.branches[0]
    return resources


def on_touched_files(
    verb: str, texts: tuple[str, ...], patterns: tuple[PathPattern, ...]
) -> PartCondition:
    """Return the condition that a part *verb* ("reads") a file of *patterns*."""
    kinds, absent = _KINDS[verb], _no(f"it {verb} no such file")

    def test(part: CallPart) -> MatchResult | None:
        return None if any(use.kind in kinds for use in part.paths) else absent

    look = partial(_touches, verb, patterns)
    return PartCondition(verb, texts, test, every=False, look=look)


def _touches(
    verb: str, patterns: tuple[PathPattern, ...], part: CallPart, facts: CallReading
) -> MatchResult:
    doubt = None
    for use in [use for use in part.paths if use.kind in _KINDS[verb]]:
        access = touches(use, patterns, facts.resolver, paths_stable=part.paths_stable)
        if access.answer == "yes":
            return MatchResult("yes", f"it {verb} {access.path}, matching {access.pattern}")
        if access.answer == "maybe" and doubt is None:
            doubt = MatchResult("maybe", access.reason)
    return doubt or _no(f"it {verb} no such file")


def on_changes_elsewhere(
    texts: tuple[str, ...], patterns: tuple[PathPattern, ...], path_warning: str
) -> PartCondition:
    """Return the condition that a part changes a file outside of *patterns*.

    A change on another machine counts, and a command that names no file changes its own folder.
    With a *path_warning* the project is unknown, so patterns relative to it match nothing.
    """

    def test(part: CallPart) -> MatchResult | None:
        return None if part.effects & CHANGES else _no("it changes nothing")

    look = partial(_changes_elsewhere, patterns, path_warning)
    return PartCondition("outside", texts, test, every=False, look=look)


def _changes_elsewhere(
    patterns: tuple[PathPattern, ...], path_warning: str, part: CallPart, facts: CallReading
) -> MatchResult:
    changed = [use for use in part.paths if use.kind in CHANGES]
    if _changes_remotely(part, changed):
        return MatchResult("yes", "it changes something on another machine")
    doubts = []
    for use in changed or [_here(part, "write")]:
        access = stays_within(use, patterns, facts.resolver, paths_stable=part.paths_stable)
        if access.answer == "no":
            return MatchResult("yes", path_warning or f"it changes {access.path or use.word.text}")
        doubts += [access.reason] if access.answer == "maybe" else []
    return MatchResult("maybe", doubts[0]) if doubts else _no("it changes nothing elsewhere")


def _changes_remotely(part: CallPart, changed: list[PathUse]) -> bool:
    return "network" in part.effects and ("destroy" in part.effects or not changed)


class AllowedFiles(NamedTuple):
    """The files that an allow rule permits under its *verb*: "reads", "writes" or "touches".

    If the rule *has_command*, a command without file arguments may write in its own folder. A
    command that runs code may have no path outside among its words, as any word may be a path.
    A *path_warning* says why patterns relative to the project are ignored.
    """

    verb: str
    patterns: tuple[PathPattern, ...]
    has_command: bool
    path_warning: str

    def condition(self, texts: tuple[str, ...]) -> PartCondition:
        """Return the condition that a part certainly touches no other files."""
        return PartCondition(self.verb, texts, lambda _: None, every=True, look=self._look)

    def _look(self, part: CallPart, facts: CallReading) -> MatchResult:
        if part.unknown:
            return _unknown(part)
        kinds = _KINDS[self.verb] | (_LISTING if self.verb != "writes" else set())
        uses = [use for use in part.paths if use.kind in kinds]
        if part.command is not None and "run-code" in part.effects:
            # A program that runs code may read a path in any word: `make -f /x`, `npm --prefix /x`.
            uses += _named_outside(part.command, facts)
        mismatch = self._mismatch_here(part, uses, facts)
        for use in uses:
            mismatch = mismatch or self._mismatch(use, part, facts)
        return _no(self.path_warning or mismatch) if mismatch else _YES

    def _mismatch(self, use: PathUse, part: CallPart, facts: CallReading) -> str:
        access = stays_within(use, self.patterns, facts.resolver, paths_stable=part.paths_stable)
        if access.answer == "yes":
            return ""
        return access.reason or f"it {self.verb} {access.path or use.word.text}"

    def _mismatch_here(self, part: CallPart, uses: list[PathUse], facts: CallReading) -> str:
        """Return why *part* may not use its working folder, "" if it may or does not need to."""
        if self.verb != "reads" and _changes_here(part, uses):
            if not self.has_command or part.command is None:
                return "the files it writes are unknown"
            # A command named by the rule, such as `git commit`, writes in its working folder.
            here = _here(part, "write")
        elif self.verb != "writes" and _reads_here(part, uses):
            here = _here(part, "read")
        else:
            return ""
        access = stays_within(here, self.patterns, facts.resolver, paths_stable=part.paths_stable)
        # Another part cannot relink the starting folder of the call itself.
        if access.answer in ({"yes", "maybe"} if part.folder == "." else {"yes"}):
            return ""
        return access.reason or f"it {here.kind}s in {access.path}"


def _here(part: CallPart, kind: Literal["read", "write"]) -> PathUse:
    return PathUse(Word("."), kind, part.folder)


def _changes_here(part: CallPart, uses: list[PathUse]) -> bool:
    """Return whether *part* changes files, but none of its *uses* is a change."""
    return bool(part.effects & CHANGES) and not any(use.kind in CHANGES for use in uses)


def _reads_here(part: CallPart, uses: list[PathUse]) -> bool:
    """Return whether *part* reads at most its working folder: `git -C /other log`."""
    return not uses and (part.folder != "." or not (part.paths or part.hosts))


def _named_outside(command: Command, facts: CallReading) -> Iterator[PathUse]:
    """Yield the words of *command*, and values after "=", that are paths leading elsewhere."""
    for word in command.words:
        for text in {word.text, word.text.partition("=")[2]}:
            use = PathUse(argument_word(text), "read", command.folder)
            is_outside = text.startswith(("/", "~")) or ".." in text.split("/")
            if is_outside or (text and _is_linked(use, facts)):
                yield use


def _is_linked(use: PathUse, facts: CallReading) -> bool:
    """Return whether the path of *use* goes through a link."""
    return any(len(each.names) > 1 for each in find_targets(use, facts.resolver).paths)


# --- hosts and branches ---------------------------------------------------------------------------


def on_hosts(patterns: tuple[HostPattern, ...], *, every: bool) -> PartCondition:
    """Return the condition that a host of a part, or *every* host, matches *patterns*."""
    test: Callable[[CallPart], MatchResult] = partial(_all_hosts if every else _any_host, patterns)
    return PartCondition("hosts", tuple([each.text for each in patterns]), test, every)


def _any_host(patterns: tuple[HostPattern, ...], part: CallPart) -> MatchResult:
    doubt = ""
    for match in [reaches(word, patterns) for word in part.hosts]:
        if match.answer == "yes":
            return MatchResult("yes", f"it reaches {match.host}, matching {match.pattern}")
        doubt = doubt or match.reason
    if not part.hosts and "network" in part.effects | part.claimed:
        doubt = "the hosts it reaches are unknown"
    return MatchResult("maybe", doubt) if doubt else _no("it reaches no such host")


def _all_hosts(patterns: tuple[HostPattern, ...], part: CallPart) -> MatchResult:
    if part.unknown:
        return _unknown(part)
    if not part.hosts and "network" in part.effects:
        return _no("the hosts it reaches are unknown")
    for word in part.hosts:
        match = stays_among(word, patterns)
        if match.answer != "yes":
            return _no(match.reason or f"it reaches {match.host or word.text}")
    return _YES


def on_pushes(patterns: tuple[str, ...], *, every: bool) -> PartCondition:
    """Return the condition that a part pushes a branch of *patterns*, with *every* only those."""
    test: Callable[[CallPart], MatchResult] = partial(
        _all_branches if every else _any_branch, patterns
    )
    return PartCondition("pushes", patterns, test, every)


def _any_branch(patterns: tuple[str, ...], part: CallPart) -> MatchResult:
    if not part.branches:
        return _no("it pushes no branch")
    answers = [(branch.text, _branch_is_of(branch, patterns)) for branch in part.branches]
    for wanted in _FITTING:
        for text in [text for text, answer in answers if answer == wanted]:
            return MatchResult(wanted, f"it pushes {text}")
    return _no("it pushes no such branch")


def _all_branches(patterns: tuple[str, ...], part: CallPart) -> MatchResult:
    if not part.branches:
        return _no("it pushes no branch")
    for branch in part.branches:
        if part.unknown or branch.pattern or _branch_is_of(branch, patterns) != "yes":
            return _no(f"it pushes {branch.text}")
    return _YES


def _branch_is_of(branch: Word, patterns: tuple[str, ...]) -> Answer:
    """Return whether *branch*, possibly a pattern of branches, matches *patterns*."""
    if not branch.known:
        return "maybe"
    if matches(patterns, branch.text):
        return "yes"
    if not branch.pattern:
        return "no"
    if any(fnmatchcase(pattern, branch.text) for pattern in patterns):
        return "yes"
    starts = [_GLOB.split(each)[0] for each in patterns]
    mine = branch.text.partition("*")[0]
    is_alike = any(mine.startswith(each) or each.startswith(mine) for each in starts)
    return "maybe" if is_alike else "no"


def _unknown(part: CallPart) -> MatchResult:
    first = part.unknown[0]
    source = f": {first.source}" if first.source not in {part.source, ""} else ""
    return _no(f"{first.reason}{source}")
