"""The conditions of rules on one part of a call: its effects, files, hosts and branches.

A rule that denies or asks applies if any effect, file or host of the part fits, or may fit. A rule
that allows applies only if all of them surely fit: nothing about the part is unknown, the files
that it writes are known, and so are the hosts that it reaches. Nothing fits for want of a subject:
a rule with `hosts` allows no part without a host, and no file unless a key of the rule is about it.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.hosts import reaches, stays_among
from toolbus.policy.paths.targets import argument_word, find_targets
from toolbus.policy.paths.touching import stays_within, touches
from toolbus.policy.rules.call_conditions import include
from toolbus.policy.rules.records import Holds, PartCondition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.commands import Command
    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.paths.hosts import HostRange
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.rules.command_patterns import CommandNames
    from toolbus.policy.rules.records import Answer

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
RESOURCES = frozenset(_SPOKEN_OF)
"""Keys whose values are files, hosts or branches."""


class Effects(PartCondition, frozen=True):
    """What a part does is one of *names*; for a rule that allows, all of it is."""

    names: frozenset[str]
    every: bool

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "effects"

    def holds_for(self, part: CallPart) -> Holds:
        """Return whether it holds."""
        if self.every:
            if part.unknown:
                return _unknown(part)
            if others := part.effects - self.names:
                return Holds("no", f"its effect is {' and '.join(sorted(others))}, too")
            return _YES
        if reached := self.names & (part.effects | part.claimed):
            return Holds("yes", f"its effect is {' and '.join(sorted(reached))}")
        return Holds("no", f"its effect is {' and '.join(sorted(part.effects)) or 'not known'}")

    def covers(self, other: Effects) -> bool:
        """Return whether it has all effects of *other*."""
        return self.every == other.every and other.names <= self.names


class CoveredEffects(PartCondition, frozen=True):
    """The effects that a rule without `effects` allows: those of its *others*, keys of conditions.

    `reads` covers reading files, `writes` writing them, `hosts` the network, `pushes` pushing, and
    `command` the effects of the plain *commands*.
    """

    others: frozenset[str]
    commands: CommandNames | None = None

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "effects"

    def holds_for(self, part: CallPart) -> Holds:
        """Return whether it holds."""
        if self.commands is not None and part.unknown:
            return _YES  # It has exactly the words of the rule.
        covered = {"read"}.union(*[_SPOKEN_OF.get(key, ()) for key in self.others])
        if self.commands is not None:
            covered |= self.commands.covered(part)
        if further := part.effects - covered:
            effects = " and ".join(sorted(further))
            return Holds("no", f"its effect is {effects}, too, which the rule does not speak of")
        return _YES

    def covers(self, other: CoveredEffects) -> bool:
        """Return whether the rule of *other* is about the same, and has no other command."""
        if self.others != other.others:
            return False
        if self.commands is None or other.commands is None:
            return self.commands is other.commands
        return self.commands.covers(other.commands)


class NamedResources(PartCondition, frozen=True):
    """The resources of a part are all of kinds that the *keys* of an allow rule are about.

    A part without any fits a rule with `command`, or with `effects` and `reads`: it reads at most
    where it works. It never fits a rule that is about hosts or branches alone.
    """

    keys: frozenset[str]

    @property
    def key(self) -> str:
        """The first of its keys in the file."""
        return min(self.keys & RESOURCES)

    def holds_for(self, part: CallPart) -> Holds:
        """Return whether it holds."""
        if part.unknown:
            return _unknown(part)
        kinds = self._kinds(part)
        files = {"reads", "writes"} if "touches" in self.keys else set()
        for kind in sorted(kinds.keys() - self.keys - files):
            verb = "reaches" if kind == "hosts" else kind
            return Holds("no", f"it {verb} {kinds[kind].text}, and the rule has no `{kind}`")
        has_command = "command" in self.keys and self.keys & {"reads", "writes", "touches"}
        reads_here = "effects" in self.keys and self.keys & {"reads", "touches"}
        if kinds or has_command or reads_here:
            return _YES
        return Holds("no", "it names no file and no host")

    def _kinds(self, part: CallPart) -> dict[str, Word]:
        """Return the kinds of resources that *part* has, as keys of a rule, each with one."""
        changed = {(use.word, use.folder) for use in part.paths if use.kind in _CHANGES}
        kinds = {
            "writes" if use.kind in _CHANGES else "reads": use.word
            for use in part.paths
            # A file that is written may be read: an editor does both.
            if use.kind in _CHANGES or (use.word, use.folder) not in changed
        }
        if part.hosts:
            kinds["hosts"] = part.hosts[0]
        if part.branches and "pushes" in self.keys:
            kinds["pushes"] = part.branches[0]
        return kinds


class TouchedFiles(PartCondition, frozen=True):
    """What a part reads (*verb* "reads"), changes ("writes") or either is named by *patterns*.

    Of a rule that allows and *has_command* a command may write without naming any file, there where
    it works; but if it runs code, none of its words may lead elsewhere: nobody knows what each is.
    A *fault* says why patterns that begin at the project are left out.
    """

    verb: str
    patterns: tuple[PathPattern, ...]
    every: bool
    has_command: bool = False
    fault: str = ""

    @property
    def key(self) -> str:
        """Its name in the file."""
        return self.verb

    def holds_for(self, part: CallPart) -> Holds | None:
        """Return that it does not hold if *part* has no path that it is about, else None."""
        if self.every or next(self._uses(part), None) is not None:
            return None
        return Holds("no", f"it {self.verb} none of them")

    def holds_with_files(self, part: CallPart, facts: CallFacts) -> Holds:
        """Return whether it holds."""
        uses = list(self._uses(part))
        if self.every:
            return self._all_within(part, uses, facts)
        return self._any_of(part, uses, facts)

    def covers(self, other: TouchedFiles) -> bool:
        """Return whether it has all patterns of *other*, and is the same otherwise."""
        alike = msgspec.structs.replace(other, patterns=self.patterns) == self
        return alike and {*other.patterns} <= {*self.patterns}

    def _uses(self, part: CallPart) -> Iterator[PathUse]:
        lists = self.every and self.verb != "writes"
        kinds = _KINDS[self.verb] | (_LISTING if lists else set())
        return (use for use in part.paths if use.kind in kinds)

    def _any_of(self, part: CallPart, uses: list[PathUse], facts: CallFacts) -> Holds:
        doubt = None
        for use in uses:
            touch = touches(use, self.patterns, facts.resolver, settled=part.settled)
            if touch.answer == "yes":
                return Holds("yes", f"it {self.verb} {touch.path}, one of {touch.pattern}")
            if touch.answer == "maybe" and doubt is None:
                doubt = Holds("maybe", touch.reason)
        return doubt or Holds("no", f"it {self.verb} none of them")

    def _all_within(self, part: CallPart, uses: list[PathUse], facts: CallFacts) -> Holds:
        if part.unknown:
            return _unknown(part)
        if part.command is not None and "run-code" in part.effects:
            # What runs code reads what any of its words names: `make -f /x`, `npm --prefix /x`.
            uses += _named_outside(part.command, facts)
        fault = self._fault_of_folder(part, uses, facts)
        for use in uses:
            touch = stays_within(use, self.patterns, facts.resolver, settled=part.settled)
            if touch.answer != "yes":
                fault = fault or touch.reason or f"it {self.verb} {touch.path or use.word.text}"
        return Holds("no", self.fault or fault) if fault else _YES

    def _fault_of_folder(self, part: CallPart, uses: list[PathUse], facts: CallFacts) -> str:
        """Return why *part* may not work where it does, as far as its *uses* name no file there."""
        if self.verb != "reads" and part.effects & _CHANGES and not _changes(uses):
            if not self.has_command or part.command is None:
                return "which files it writes is not known"
            # A command that the rule names, as `git commit`, writes where it runs.
            return self._fault_here(part, facts, "writes")
        if self.verb != "writes" and _reads_here(part, uses):
            return self._fault_here(part, facts, "reads")
        return ""

    def _fault_here(self, part: CallPart, facts: CallFacts, verb: str) -> str:
        """Return how the folder in which *part* works is outside of the patterns, "" if inside."""
        here = PathUse(Word("."), "write" if verb == "writes" else "read", part.folder)
        touch = stays_within(here, self.patterns, facts.resolver, settled=part.settled)
        # Where the call itself begins is no path that another part can lead elsewhere.
        if touch.answer == "yes" or (touch.answer == "maybe" and part.folder == "."):
            return ""
        return touch.reason or f"it {verb} in {touch.path}"


class FilesElsewhere(PartCondition, frozen=True):
    """A part changes a file that none of *patterns* names, or something on another machine.

    One that names no file changes the folder in which it works. For rules that deny, ask or audit.
    With a *fault* the project is not known: then nothing that begins there is named.
    """

    patterns: tuple[PathPattern, ...]
    fault: str = ""

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "outside"

    def holds_for(self, part: CallPart) -> Holds | None:
        """Return that it does not hold if *part* changes nothing, else None."""
        return None if part.effects & _CHANGES else Holds("no", "it changes nothing")

    def holds_with_files(self, part: CallPart, facts: CallFacts) -> Holds:
        """Return whether it holds."""
        changed = [use for use in part.paths if use.kind in _CHANGES]
        if "network" in part.effects and ("destroy" in part.effects or not changed):
            return Holds("yes", "it changes something on another machine")
        here = PathUse(Word("."), "write", part.folder)
        doubt = ""
        for use in changed or [here]:
            touch = stays_within(use, self.patterns, facts.resolver, settled=part.settled)
            if touch.answer == "no":
                return Holds("yes", self.fault or f"it changes {touch.path or use.word.text}")
            doubt = doubt or touch.reason
        return Holds("maybe", doubt) if doubt else Holds("no", "it changes nothing elsewhere")

    def covers(self, other: FilesElsewhere) -> bool:
        """Return whether *other* has all of its patterns."""
        return self.fault == other.fault and {*self.patterns} <= {*other.patterns}


class ReachedHosts(PartCondition, frozen=True):
    """The hosts that a part names are of *patterns*."""

    patterns: tuple[HostRange, ...]
    every: bool

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "hosts"

    def holds_for(self, part: CallPart) -> Holds:
        """Return whether it holds."""
        return self._all_among(part) if self.every else self._any_of(part)

    def _any_of(self, part: CallPart) -> Holds:
        doubt = ""
        for match in [reaches(word, self.patterns) for word in part.hosts]:
            if match.answer == "yes":
                return Holds("yes", f"it reaches {match.host}, one of {match.pattern}")
            doubt = doubt or match.reason
        if not part.hosts and "network" in part.effects | part.claimed:
            doubt = "which hosts it reaches is not known"
        return Holds("maybe", doubt) if doubt else Holds("no", "it reaches none of them")

    def _all_among(self, part: CallPart) -> Holds:
        if part.unknown:
            return _unknown(part)
        if not part.hosts and "network" in part.effects:
            return Holds("no", "which hosts it reaches is not known")
        for word in part.hosts:
            match = stays_among(word, self.patterns)
            if match.answer != "yes":
                return Holds("no", match.reason or f"it reaches {match.host or word.text}")
        return _YES

    def covers(self, other: ReachedHosts) -> bool:
        """Return whether each pattern of *other* is one of its own, or matches one."""
        mine, others = [[each.text for each in names.patterns] for names in (self, other)]
        return self.every == other.every and include(mine, others)


class PushedBranches(PartCondition, frozen=True):
    """The branches that a part pushes to are of *patterns*."""

    patterns: tuple[str, ...]
    every: bool

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "pushes"

    def holds_for(self, part: CallPart) -> Holds:
        """Return whether it holds."""
        if not part.branches:
            return Holds("no", "it pushes no branch")
        doubt = ""
        for branch in part.branches:
            answer = self._names(branch)
            if self.every and (part.unknown or branch.pattern or answer != "yes"):
                return Holds("no", f"it pushes {branch.text}")
            if answer == "yes" and not self.every:
                return Holds("yes", f"it pushes {branch.text}")
            doubt = doubt or (f"it pushes {branch.text}" if answer == "maybe" else "")
        if self.every:
            return _YES
        return Holds("maybe", doubt) if doubt else Holds("no", "it pushes none of them")

    def covers(self, other: PushedBranches) -> bool:
        """Return whether it has all patterns of *other*."""
        return self.every == other.every and {*other.patterns} <= {*self.patterns}

    def _names(self, branch: Word) -> Answer:
        """Return whether *branch*, which may stand for several, is among the patterns."""
        if not branch.known:
            return "maybe"
        for pattern in self.patterns:
            if fnmatchcase(branch.text, pattern) or (
                branch.pattern and fnmatchcase(pattern, branch.text)
            ):
                return "yes"
        starts = [_GLOB.split(each)[0] for each in self.patterns]
        mine = branch.text.partition("*")[0]
        alike = any(mine.startswith(start) or start.startswith(mine) for start in starts)
        return "maybe" if branch.pattern and alike else "no"


def _changes(uses: list[PathUse]) -> bool:
    return any(use.kind in _CHANGES for use in uses)


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


def _unknown(part: CallPart) -> Holds:
    first = part.unknown[0]
    source = f": {first.source}" if first.source not in {part.source, ""} else ""
    return Holds("no", f"{first.reason}{source}")
