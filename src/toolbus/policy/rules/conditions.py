"""The conditions of rules: on a call as a whole, and on one part of it.

Each is a function of the call or the part, and stands beside the texts that the file has for it.

A rule that denies or asks applies if any effect, file or host of the part fits, or may fit. A rule
that allows applies only if all of them surely fit: nothing about the part is unknown, the files
that it writes are known, and so are the hosts that it reaches. Nothing fits for want of a subject:
a rule with `hosts` allows no part without a host, and no file unless a key of the rule is about it.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolbus.events.subjects import matches
from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.file_access import stays_within, touches
from toolbus.policy.paths.hosts import reaches, stays_among
from toolbus.policy.paths.targets import argument_word, find_targets
from toolbus.policy.rules.command_patterns import names_command, plain_effects
from toolbus.policy.rules.records import CallCondition, Holds, PartCondition
from toolbus.policy.rules.values import ConditionError, WrongTypeError, holds, places_at, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from toolbus.policy.commands import Command
    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.paths.hosts import HostRange
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.rules.command_patterns import CommandPattern
    from toolbus.policy.rules.records import Answer
    from toolbus.policy.rules.values import ValueTest

_YES = Holds("yes")
_GLOB = re.compile(r"[*?\[]")
_READING = frozenset({"read", "read-tree"})
_CHANGES = frozenset({"write", "destroy"})
_LISTING = frozenset({"names"})
_KINDS = {"reads": _READING, "writes": _CHANGES, "touches": _READING | _CHANGES}
_SPOKEN_OF = {
    "reads": {"read"},
    "writes": {"write"},
    "touches": {"read", "write"},
    "hosts": {"network"},
    "pushes": {"network", "write"},
}
_IMPLIED = ("",)
"""The texts of conditions that follow from other keys: a file has no such text."""
_FITTING: tuple[Answer, ...] = ("yes", "maybe")
RESOURCES = frozenset(_SPOKEN_OF)
"""Keys whose values are files, hosts or branches."""


class ValuesAt(NamedTuple):
    """The *tests* of values that the *path*, *written* so, leads to."""

    written: str
    path: tuple[str, ...]
    tests: tuple[ValueTest, ...]


# --- conditions on a call -------------------------------------------------------------------------


def on_tools(patterns: tuple[str, ...]) -> CallCondition:
    """Return the condition that the tool's name matches one of *patterns*."""

    def test(facts: CallFacts) -> Holds:
        if matches(patterns, facts.call.name):
            return _YES
        return Holds("no", f"{facts.call.name!r} is not {' or '.join(patterns)}")

    return CallCondition("tools", patterns, test)


def on_speaker(key: str, patterns: tuple[str, ...]) -> CallCondition:
    """Return the condition that the agent's id, or one above it (lineage), matches *patterns*."""

    def test(facts: CallFacts) -> Holds:
        names = (facts.scope.agent_id,) if key == "agent" else facts.scope.lineage
        if any(matches(patterns, name) for name in names):
            return _YES
        return Holds("no", f"{', '.join(map(repr, names)) or 'nobody'} is none of them")

    return CallCondition(key, patterns, test)


def on_values(
    key: str, wanted: tuple[ValuesAt, ...], texts: tuple[str, ...], *, every: bool
) -> CallCondition:
    """Return the condition that the *wanted* values are among those that *key* names.

    Of several values, as `files.*.path` has, *every* one must fit, else any.
    """

    def test(facts: CallFacts) -> Holds:
        values = _values(key, facts)
        for each in wanted:
            if reason := _misfit(each, values, key, every=every):
                return Holds("no", reason)
        return _YES

    return CallCondition(key, texts, test, every)


def _values(key: str, facts: CallFacts) -> Mapping[str, Any]:
    if key == "arguments":
        return facts.call.arguments
    if key == "context":
        return facts.scope.context
    return {} if facts.tool is None else facts.tool.annotations


def _misfit(wanted: ValuesAt, values: Mapping[str, Any], key: str, *, every: bool) -> str:
    """Return how *values* are not as *wanted*, "" if they are; raises `ConditionError`."""
    try:
        places = places_at(values, wanted.path)
        reached = [value for value in places if value is not None]
        results = [holds(wanted.tests, value) for value in reached]
    except WrongTypeError as error:
        raise ConditionError(f"{key}.{wanted.written}", str(error)) from None
    # An item without the value is not one that fits.
    if not reached or (every and len(reached) < len(places)):
        return f"{wanted.written} is absent"
    if all(results) if every else any(results):
        return ""
    words = " and ".join([test.words for test in wanted.tests])
    return f"{wanted.written} is {shown(reached[0])}, not {words}"


# --- effects and commands -------------------------------------------------------------------------


def on_effects(names: tuple[str, ...], *, every: bool) -> PartCondition:
    """Return the condition that an effect of a part, or *every* one, is one of *names*."""
    test = partial(_only_effects if every else _any_effect, frozenset(names))
    return PartCondition("effects", names, test, every)


def _any_effect(names: frozenset[str], part: CallPart) -> Holds:
    if reached := names & (part.effects | part.claimed):
        return Holds("yes", f"its effect is {' and '.join(sorted(reached))}")
    return Holds("no", f"its effect is {' and '.join(sorted(part.effects)) or 'not known'}")


def _only_effects(names: frozenset[str], part: CallPart) -> Holds:
    if part.unknown:
        return _unknown(part)
    if others := part.effects - names:
        return Holds("no", f"its effect is {' and '.join(sorted(others))}, too")
    return _YES


def on_covered_effects(keys: frozenset[str], commands: tuple[CommandPattern, ...]) -> PartCondition:
    """Return the condition that a part does no more than the other *keys* of an allow rule cover.

    `reads` covers reading files, `writes` writing them, `hosts` the network, `pushes` pushing, and
    `command` the effects of the plain *commands*.
    """

    def test(part: CallPart) -> Holds:
        if commands and part.unknown:
            return _YES  # It has exactly the words of the rule.
        covered = {"read"}.union(*[_SPOKEN_OF.get(key, ()) for key in keys])
        if further := part.effects - covered - plain_effects(commands, part):
            effects = " and ".join(sorted(further))
            return Holds("no", f"its effect is {effects}, too, which the rule does not speak of")
        return _YES

    return PartCondition("effects", _IMPLIED, test, every=True)


def on_commands(patterns: tuple[CommandPattern, ...], *, every: bool) -> PartCondition:
    """Return the condition that a part is one of the commands *patterns*."""
    texts = tuple([pattern.text for pattern in patterns])
    return PartCondition("command", texts, partial(names_command, patterns, every=every), every)


# --- files ----------------------------------------------------------------------------------------


def on_named_resources(keys: frozenset[str]) -> PartCondition:
    """Return the condition that an allow rule with *keys* is about all resources of a part.

    A part without any fits a rule with `command`, or with `effects` and `reads`: it reads at most
    where it works. It never fits a rule that is about hosts or branches alone.
    """
    key = min(keys & RESOURCES)
    return PartCondition(key, _IMPLIED, partial(_names_resources, keys), every=True)


def _names_resources(keys: frozenset[str], part: CallPart) -> Holds:
    if part.unknown:
        return _unknown(part)
    resources = _resources(part, keys)
    files = {"reads", "writes"} if "touches" in keys else set()
    for kind in sorted(resources.keys() - keys - files):
        verb = "reaches" if kind == "hosts" else kind
        return Holds("no", f"it {verb} {resources[kind].text}, and the rule has no `{kind}`")
    has_command = "command" in keys and keys & {"reads", "writes", "touches"}
    reads_here = "effects" in keys and keys & {"reads", "touches"}
    if resources or has_command or reads_here:
        return _YES
    return Holds("no", "it names no file and no host")


def _resources(part: CallPart, keys: frozenset[str]) -> dict[str, Word]:
    """Return the kinds of resources that *part* has, as keys of a rule, each with one."""
    changed = {(use.word, use.folder) for use in part.paths if use.kind in _CHANGES}
    resources = {
        "writes" if use.kind in _CHANGES else "reads": use.word
        for use in part.paths
        # A file that is written may be read: an editor does both.
        if use.kind in _CHANGES or (use.word, use.folder) not in changed
    }
    if part.hosts:
        resources["hosts"] = part.hosts[0]
    if part.branches and "pushes" in keys:
        resources["pushes"] = part.branches[0]
    return resources


def on_touched_files(
    verb: str, texts: tuple[str, ...], patterns: tuple[PathPattern, ...]
) -> PartCondition:
    """Return the condition that a part touches a file of *patterns* as *verb* says: "reads"."""
    kinds, absent = _KINDS[verb], Holds("no", f"it {verb} none of them")

    def test(part: CallPart) -> Holds | None:
        return None if any(use.kind in kinds for use in part.paths) else absent

    look = partial(_touches, verb, patterns)
    return PartCondition(verb, texts, test, every=False, look=look)


def _touches(
    verb: str, patterns: tuple[PathPattern, ...], part: CallPart, facts: CallFacts
) -> Holds:
    doubt = None
    for use in [use for use in part.paths if use.kind in _KINDS[verb]]:
        touch = touches(use, patterns, facts.resolver, settled=part.settled)
        if touch.answer == "yes":
            return Holds("yes", f"it {verb} {touch.path}, one of {touch.pattern}")
        if touch.answer == "maybe" and doubt is None:
            doubt = Holds("maybe", touch.reason)
    return doubt or Holds("no", f"it {verb} none of them")


def on_changes_elsewhere(
    texts: tuple[str, ...], patterns: tuple[PathPattern, ...], fault: str
) -> PartCondition:
    """Return the condition that a part changes a file that none of *patterns* names.

    So it does with something on another machine, and with the folder in which it works if it names
    no file. With a *fault* the project is not known: then nothing that begins there is named.
    """

    def test(part: CallPart) -> Holds | None:
        return None if part.effects & _CHANGES else Holds("no", "it changes nothing")

    look = partial(_changes_elsewhere, patterns, fault)
    return PartCondition("outside", texts, test, every=False, look=look)


def _changes_elsewhere(
    patterns: tuple[PathPattern, ...], fault: str, part: CallPart, facts: CallFacts
) -> Holds:
    changed = [use for use in part.paths if use.kind in _CHANGES]
    if _changes_remotely(part, changed):
        return Holds("yes", "it changes something on another machine")
    doubts = []
    for use in changed or [_here(part, "write")]:
        touch = stays_within(use, patterns, facts.resolver, settled=part.settled)
        if touch.answer == "no":
            return Holds("yes", fault or f"it changes {touch.path or use.word.text}")
        doubts += [touch.reason] if touch.answer == "maybe" else []
    return Holds("maybe", doubts[0]) if doubts else Holds("no", "it changes nothing elsewhere")


def _changes_remotely(part: CallPart, changed: list[PathUse]) -> bool:
    return "network" in part.effects and ("destroy" in part.effects or not changed)


class AllowedFiles(NamedTuple):
    """The files that an allow rule says of a *verb*, "reads", "writes" or "touches".

    If the rule *has_command*, a command may write without naming any file, there where it works;
    but if it runs code, none of its words may lead elsewhere: nobody knows what each is. A *fault*
    says why patterns that begin at the project are left out.
    """

    verb: str
    patterns: tuple[PathPattern, ...]
    has_command: bool
    fault: str

    def condition(self, texts: tuple[str, ...]) -> PartCondition:
        """Return the condition that a part surely touches no other files."""
        return PartCondition(self.verb, texts, lambda _: None, every=True, look=self._look)

    def _look(self, part: CallPart, facts: CallFacts) -> Holds:
        if part.unknown:
            return _unknown(part)
        kinds = _KINDS[self.verb] | (_LISTING if self.verb != "writes" else set())
        uses = [use for use in part.paths if use.kind in kinds]
        if part.command is not None and "run-code" in part.effects:
            # What runs code reads what any of its words names: `make -f /x`, `npm --prefix /x`.
            uses += _named_outside(part.command, facts)
        fault = self._fault_here(part, uses, facts)
        for use in uses:
            fault = fault or self._fault_of(use, part, facts)
        return Holds("no", self.fault or fault) if fault else _YES

    def _fault_of(self, use: PathUse, part: CallPart, facts: CallFacts) -> str:
        touch = stays_within(use, self.patterns, facts.resolver, settled=part.settled)
        if touch.answer == "yes":
            return ""
        return touch.reason or f"it {self.verb} {touch.path or use.word.text}"

    def _fault_here(self, part: CallPart, uses: list[PathUse], facts: CallFacts) -> str:
        """Return why *part* may not work where it does, as far as its *uses* name no file there."""
        if self.verb != "reads" and _changes_here(part, uses):
            if not self.has_command or part.command is None:
                return "which files it writes is not known"
            # A command that the rule names, as `git commit`, writes where it runs.
            here = _here(part, "write")
        elif self.verb != "writes" and _reads_here(part, uses):
            here = _here(part, "read")
        else:
            return ""
        touch = stays_within(here, self.patterns, facts.resolver, settled=part.settled)
        # Where the call itself begins is not a path that another part can lead elsewhere.
        if touch.answer in ({"yes", "maybe"} if part.folder == "." else {"yes"}):
            return ""
        return touch.reason or f"it {here.kind}s in {touch.path}"


def _here(part: CallPart, kind: Literal["read", "write"]) -> PathUse:
    return PathUse(Word("."), kind, part.folder)


def _changes_here(part: CallPart, uses: list[PathUse]) -> bool:
    """Return whether *part* changes files of which none is among its *uses*."""
    return bool(part.effects & _CHANGES) and not any(use.kind in _CHANGES for use in uses)


def _reads_here(part: CallPart, uses: list[PathUse]) -> bool:
    """Return whether *part* reads, if anything, where it works: `git -C /other log`."""
    return not uses and (part.folder != "." or not (part.paths or part.hosts))


def _named_outside(command: Command, facts: CallFacts) -> Iterator[PathUse]:
    """Yield the words of *command*, or what stands behind "=" in them, that lead elsewhere."""
    for word in command.words:
        for text in {word.text, word.text.partition("=")[2]}:
            use = PathUse(argument_word(text), "read", command.folder)
            is_outside = text.startswith(("/", "~")) or ".." in text.split("/")
            if is_outside or (text and _is_linked(use, facts)):
                yield use


def _is_linked(use: PathUse, facts: CallFacts) -> bool:
    """Return whether a link is on the way to what *use* names."""
    return any(len(each.names) > 1 for each in find_targets(use, facts.resolver).paths)


# --- hosts and branches ---------------------------------------------------------------------------


def on_hosts(patterns: tuple[HostRange, ...], *, every: bool) -> PartCondition:
    """Return the condition that a host that a part names, or *every* one, is of *patterns*."""
    test: Callable[[CallPart], Holds] = partial(_all_hosts if every else _any_host, patterns)
    return PartCondition("hosts", tuple([each.text for each in patterns]), test, every)


def _any_host(patterns: tuple[HostRange, ...], part: CallPart) -> Holds:
    doubt = ""
    for match in [reaches(word, patterns) for word in part.hosts]:
        if match.answer == "yes":
            return Holds("yes", f"it reaches {match.host}, one of {match.pattern}")
        doubt = doubt or match.reason
    if not part.hosts and "network" in part.effects | part.claimed:
        doubt = "which hosts it reaches is not known"
    return Holds("maybe", doubt) if doubt else Holds("no", "it reaches none of them")


def _all_hosts(patterns: tuple[HostRange, ...], part: CallPart) -> Holds:
    if part.unknown:
        return _unknown(part)
    if not part.hosts and "network" in part.effects:
        return Holds("no", "which hosts it reaches is not known")
    for word in part.hosts:
        match = stays_among(word, patterns)
        if match.answer != "yes":
            return Holds("no", match.reason or f"it reaches {match.host or word.text}")
    return _YES


def on_pushes(patterns: tuple[str, ...], *, every: bool) -> PartCondition:
    """Return the condition that a part pushes a branch of *patterns*, or only such."""
    test: Callable[[CallPart], Holds] = partial(_all_branches if every else _any_branch, patterns)
    return PartCondition("pushes", patterns, test, every)


def _any_branch(patterns: tuple[str, ...], part: CallPart) -> Holds:
    if not part.branches:
        return Holds("no", "it pushes no branch")
    answers = [(branch.text, _branch_is_of(branch, patterns)) for branch in part.branches]
    for wanted in _FITTING:
        for text in [text for text, answer in answers if answer == wanted]:
            return Holds(wanted, f"it pushes {text}")
    return Holds("no", "it pushes none of them")


def _all_branches(patterns: tuple[str, ...], part: CallPart) -> Holds:
    if not part.branches:
        return Holds("no", "it pushes no branch")
    for branch in part.branches:
        if part.unknown or branch.pattern or _branch_is_of(branch, patterns) != "yes":
            return Holds("no", f"it pushes {branch.text}")
    return _YES


def _branch_is_of(branch: Word, patterns: tuple[str, ...]) -> Answer:
    """Return whether *branch*, which may stand for several, is among *patterns*."""
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


def _unknown(part: CallPart) -> Holds:
    first = part.unknown[0]
    source = f": {first.source}" if first.source not in {part.source, ""} else ""
    return Holds("no", f"{first.reason}{source}")
