"""What a rule asks of one piece of a call: its effects, the files and the hosts that it touches.

A rule that denies or asks speaks of a piece if any effect, file or host of it fits, or may fit. A
rule that allows speaks only if all of them do, surely: nothing about the piece is unknown, what it
writes is known if it writes at all, and which hosts, if it reaches the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.hosts import reaches, stays_among
from toolbus.policy.paths.touching import stays_within, touches
from toolbus.policy.rules import Holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.command_patterns import CommandNames
    from toolbus.policy.facts import CallFacts, Piece
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
    """What a piece does is one of *names*; for a rule that allows, all of it is."""

    names: frozenset[str]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "effects"

    def needs_files(self, piece: Piece, *, every: bool) -> bool:  # noqa: ARG002 - one name
        """Return False: effects are what they are."""
        return False

    def holds_for(self, piece: Piece, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - one name
        """Tell whether it holds."""
        if every:
            if piece.unknown:
                return _unknown(piece)
            if others := piece.effects - self.names:
                return Holds("no", f"its effect is {' and '.join(sorted(others))}, too")
            return _YES
        if reached := self.names & (piece.effects | piece.claimed):
            return Holds("yes", f"its effect is {' and '.join(sorted(reached))}")
        return Holds("no", f"its effect is {' and '.join(sorted(piece.effects)) or 'not known'}")


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

    def needs_files(self, piece: Piece, *, every: bool) -> bool:  # noqa: ARG002 - one name
        """Return False: effects are what they are."""
        return False

    def holds_for(self, piece: Piece, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - one name
        """Tell whether it holds."""
        if self.commands is not None and piece.unknown:
            return _YES  # It has exactly the words of the rule.
        covered = {"read"}.union(*[_SPOKEN_OF.get(key, ()) for key in self.others])
        if self.commands is not None:
            covered |= self.commands.covered(piece)
        if further := piece.effects - covered:
            effects = " and ".join(sorted(further))
            return Holds("no", f"its effect is {effects}, too, which the rule does not speak of")
        return _YES if self.commands is not None else self._named(piece)

    def _named(self, piece: Piece) -> Holds:
        """Tell whether the files and hosts of *piece* are all spoken of, and whether it has any."""
        kinds = {"reads" if use.kind in _READING else "writes" for use in piece.paths}
        kinds |= {"hosts"} if piece.hosts else set()
        spoken = self.others | ({"reads", "writes"} if "touches" in self.others else set())
        if unnamed := kinds - spoken:
            return Holds("no", f"the rule does not speak of what it {min(unnamed)}")
        return _YES if kinds else Holds("no", "it names no file and no host")


class TouchedFiles(NamedTuple):
    """What a piece reads (*key* "reads"), changes ("writes") or either is named by *patterns*.

    Of a rule that allows and *has_command* a command may write without naming any file.
    """

    key: str
    patterns: tuple[PathPattern, ...]
    has_command: bool = False

    def needs_files(self, piece: Piece, *, every: bool) -> bool:
        """Tell whether *piece* has a path that it is about."""
        return every or next(self._uses(piece), None) is not None

    def holds_for(self, piece: Piece, facts: CallFacts, *, every: bool) -> Holds:
        """Tell whether it holds."""
        uses = list(self._uses(piece))
        return self._all_within(piece, uses, facts) if every else self._any_of(piece, uses, facts)

    def _uses(self, piece: Piece) -> Iterator[PathUse]:
        kinds = _KINDS[self.key]
        return (use for use in piece.paths if use.kind in kinds)

    def _any_of(self, piece: Piece, uses: list[PathUse], facts: CallFacts) -> Holds:
        doubt = None
        for use in uses:
            touch = touches(use, self.patterns, facts.resolver, settled=piece.settled)
            if touch.answer == "yes":
                return Holds("yes", f"it {self.key} {touch.path}, one of {touch.pattern}")
            if touch.answer == "maybe" and doubt is None:
                doubt = Holds("maybe", touch.reason)
        return doubt or Holds("no", f"it {self.key} none of them")

    def _all_within(self, piece: Piece, uses: list[PathUse], facts: CallFacts) -> Holds:
        if piece.unknown:
            return _unknown(piece)
        changes = any(use.kind in _CHANGES for use in uses)
        if self.key != "reads" and not changes and piece.effects & _CHANGES:
            if not self.has_command or piece.command is None:
                return Holds("no", "which files it writes is not known")
            # A command that the rule names, as `git commit`, writes where it runs.
            uses.append(PathUse(Word("."), "write", piece.command.folder))
        for use in uses:
            touch = stays_within(use, self.patterns, facts.resolver, settled=piece.settled)
            if touch.answer != "yes":
                reason = touch.reason or f"it {self.key} {touch.path or use.word.text}"
                return Holds("no", reason)
        return _YES


class ReachedHosts(NamedTuple):
    """The hosts that a piece names are of *patterns*."""

    patterns: tuple[HostRange, ...]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "hosts"

    def needs_files(self, piece: Piece, *, every: bool) -> bool:  # noqa: ARG002 - one name
        """Return False: a host is known by its name."""
        return False

    def holds_for(self, piece: Piece, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - one name
        """Tell whether it holds."""
        return self._all_among(piece) if every else self._any_of(piece)

    def _any_of(self, piece: Piece) -> Holds:
        doubt = ""
        for match in [reaches(word, self.patterns) for word in piece.hosts]:
            if match.answer == "yes":
                return Holds("yes", f"it reaches {match.host}, one of {match.pattern}")
            doubt = doubt or match.reason
        if not piece.hosts and "network" in piece.effects | piece.claimed:
            doubt = "which hosts it reaches is not known"
        return Holds("maybe", doubt) if doubt else Holds("no", "it reaches none of them")

    def _all_among(self, piece: Piece) -> Holds:
        if piece.unknown:
            return _unknown(piece)
        if not piece.hosts and "network" in piece.effects:
            return Holds("no", "which hosts it reaches is not known")
        for word in piece.hosts:
            match = stays_among(word, self.patterns)
            if match.answer != "yes":
                return Holds("no", match.reason or f"it reaches {match.host or word.text}")
        return _YES


def _unknown(piece: Piece) -> Holds:
    first = piece.unknown[0]
    source = f": {first.source}" if first.source not in {piece.source, ""} else ""
    return Holds("no", f"{first.reason}{source}")
