"""What a rule asks of one part of a call: its effects, the files and the hosts that it touches.

A rule that denies or asks speaks of a part if any effect, file or host of it fits, or may fit. A
rule that allows speaks only if all of them do, surely: nothing about the part is unknown, what it
writes is known if it writes at all, and which hosts, if it reaches the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.hosts import reaches, stays_among
from toolbus.policy.paths.targets import argument_word
from toolbus.policy.paths.touching import stays_within, touches
from toolbus.policy.rules import Holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.command_patterns import CommandNames
    from toolbus.policy.commands import Command
    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.paths.hosts import HostRange
    from toolbus.policy.paths.path_patterns import PathPattern

_YES = Holds("yes")
_READING = frozenset({"read", "read-tree"})
_CHANGES = frozenset({"write", "destroy"})
_KINDS = {"reads": _READING, "writes": _CHANGES, "touches": _READING | _CHANGES}
_SPOKEN_OF = {
    "reads": {"read"},
    "writes": {"write"},
    "touches": {"read", "write"},
    "hosts": {"network"},
}


class Effects(NamedTuple):
    """What a part does is one of *names*; for a rule that allows, all of it is."""

    names: frozenset[str]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "effects"

    def needs_files(self, part: CallPart, *, every: bool) -> bool:  # noqa: ARG002 - one name
        """Return False: effects are what they are."""
        return False

    def holds_for(self, part: CallPart, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - one name
        """Tell whether it holds."""
        if every:
            if part.unknown:
                return _unknown(part)
            if others := part.effects - self.names:
                return Holds("no", f"its effect is {' and '.join(sorted(others))}, too")
            return _YES
        if reached := self.names & (part.effects | part.claimed):
            return Holds("yes", f"its effect is {' and '.join(sorted(reached))}")
        return Holds("no", f"its effect is {' and '.join(sorted(part.effects)) or 'not known'}")


class CoveredEffects(NamedTuple):
    """What a rule allows that has no `effects`: what its *others*, keys of conditions, speak of.

    `reads` speak of reading files, `writes` of writing them, `hosts` of the network, `command` of
    what the plain *commands* do: no more is allowed, and nothing that has none of it.
    """

    others: frozenset[str]
    commands: CommandNames | None = None

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "effects"

    def needs_files(self, part: CallPart, *, every: bool) -> bool:  # noqa: ARG002 - one name
        """Return False: effects are what they are."""
        return False

    def holds_for(self, part: CallPart, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - one name
        """Tell whether it holds."""
        if self.commands is not None and part.unknown:
            return _YES  # It has exactly the words of the rule.
        covered = {"read"}.union(*[_SPOKEN_OF.get(key, ()) for key in self.others])
        if self.commands is not None:
            covered |= self.commands.covered(part)
        if further := part.effects - covered:
            effects = " and ".join(sorted(further))
            return Holds("no", f"its effect is {effects}, too, which the rule does not speak of")
        return _YES if self.commands is not None else self._named(part)

    def _named(self, part: CallPart) -> Holds:
        """Tell whether the files and hosts of *part* are all spoken of, and whether it has any."""
        kinds = {"reads" if use.kind in _READING else "writes" for use in part.paths}
        kinds |= {"hosts"} if part.hosts else set()
        spoken = self.others | ({"reads", "writes"} if "touches" in self.others else set())
        if unnamed := kinds - spoken:
            return Holds("no", f"the rule does not speak of what it {min(unnamed)}")
        return _YES if kinds else Holds("no", "it names no file and no host")


class TouchedFiles(NamedTuple):
    """What a part reads (*key* "reads"), changes ("writes") or either is named by *patterns*.

    Of a rule that allows and *has_command* a command may write without naming any file, there where
    it works; but if it runs code, none of its words may lead elsewhere: nobody knows what each is.
    A *fault* says why patterns that begin at the project are left out.
    """

    key: str
    patterns: tuple[PathPattern, ...]
    has_command: bool = False
    fault: str = ""

    def needs_files(self, part: CallPart, *, every: bool) -> bool:
        """Tell whether *part* has a path that it is about."""
        return every or next(self._uses(part), None) is not None

    def holds_for(self, part: CallPart, facts: CallFacts, *, every: bool) -> Holds:
        """Tell whether it holds."""
        uses = list(self._uses(part))
        return self._all_within(part, uses, facts) if every else self._any_of(part, uses, facts)

    def _uses(self, part: CallPart) -> Iterator[PathUse]:
        kinds = _KINDS[self.key]
        return (use for use in part.paths if use.kind in kinds)

    def _any_of(self, part: CallPart, uses: list[PathUse], facts: CallFacts) -> Holds:
        doubt = None
        for use in uses:
            touch = touches(use, self.patterns, facts.resolver, settled=part.settled)
            if touch.answer == "yes":
                return Holds("yes", f"it {self.key} {touch.path}, one of {touch.pattern}")
            if touch.answer == "maybe" and doubt is None:
                doubt = Holds("maybe", touch.reason)
        return doubt or Holds("no", f"it {self.key} none of them")

    def _all_within(self, part: CallPart, uses: list[PathUse], facts: CallFacts) -> Holds:
        if part.unknown:
            return _unknown(part)
        if self.has_command and part.command is not None and "run-code" in part.effects:
            # What runs code reads what any of its words names: `make -f /x`, `npm --prefix /x`.
            uses += _named_outside(part.command)
        changes = any(use.kind in _CHANGES for use in uses)
        if self.key != "reads" and not changes and part.effects & _CHANGES:
            if not self.has_command or part.command is None:
                return Holds("no", "which files it writes is not known")
            # A command that the rule names, as `git commit`, writes where it runs.
            here = PathUse(Word("."), "write", part.folder)
            touch = stays_within(here, self.patterns, facts.resolver, settled=part.settled)
            # Where the call itself begins is no path that another part can lead elsewhere.
            if touch.answer != "yes" and (touch.answer == "no" or part.folder != "."):
                return Holds("no", self.fault or touch.reason or f"it writes in {touch.path}")
        for use in uses:
            touch = stays_within(use, self.patterns, facts.resolver, settled=part.settled)
            if touch.answer != "yes":
                reason = touch.reason or f"it {self.key} {touch.path or use.word.text}"
                return Holds("no", self.fault or reason)
        return _YES


class ReachedHosts(NamedTuple):
    """The hosts that a part names are of *patterns*."""

    patterns: tuple[HostRange, ...]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "hosts"

    def needs_files(self, part: CallPart, *, every: bool) -> bool:  # noqa: ARG002 - one name
        """Return False: a host is known by its name."""
        return False

    def holds_for(self, part: CallPart, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - one name
        """Tell whether it holds."""
        return self._all_among(part) if every else self._any_of(part)

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


def _named_outside(command: Command) -> Iterator[PathUse]:
    """Yield the words of *command*, or what stands behind "=" in them, that lead elsewhere."""
    for word in command.words:
        for text in {word.text, word.text.partition("=")[2]}:
            if text.startswith(("/", "~")) or ".." in text.split("/"):
                yield PathUse(argument_word(text), "read", command.folder)


def _unknown(part: CallPart) -> Holds:
    first = part.unknown[0]
    source = f": {first.source}" if first.source not in {part.source, ""} else ""
    return Holds("no", f"{first.reason}{source}")
