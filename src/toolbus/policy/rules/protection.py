"""Protection that no rule lifts: of files that only people change, and of a person's own voice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.policy.paths.protected import (
    ProtectedFiles,
    is_of_store,
    judge_reading,
    judge_secret_text,
)
from toolbus.policy.paths.resolving import CallPlace, PathResolver
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.paths.toolbus_commands import is_for_people
from toolbus.policy.paths.touching import Touch
from toolbus.policy.rules.records import PartVerdict, RuleFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.rules.records import RuleStatus
    from toolbus.policy.rules.tables import Default

PROTECTED = "protected"
"""The `RuleFinding.key` of what is found here."""

MOST_TEXTS = 1_000
"""Texts in the arguments of one call that are compared with names of files."""

_NO = Touch("no")
_ONLY_READS = frozenset({"read", "network"})
_MAY_WRITE = frozenset({"write", "destroy"})


class Protection:
    """Judges parts by what is to be protected: *files*, and those of every installation."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._written = files

    @cached_property
    def _files(self) -> ProtectedFiles:
        return ProtectedFiles(self._written)

    def tighten(self, verdict: PartVerdict, facts: CallFacts) -> PartVerdict:
        """Return *verdict*, or a stricter one."""
        if verdict.verdict == "deny":
            return verdict
        return tightened(verdict, self.touch(verdict.part, facts))

    def touch(self, part: CallPart, facts: CallFacts) -> Touch:
        """Return whether *part* touches what is protected.

        The first question that is answered by "yes" decides, else the first by "maybe":

        1. Does it run a command of `toolbus` that speaks for a person?
        2. Does it read a secret that speaks for a person?
        3. Does it change a store by `sqlite3`?
        4. Does it write, or make a link to, a file that only people change?
        5. If it names no file that it writes: may an argument of the tool be such a file?
        """
        maybe = _NO
        for touch in self._answers(part, facts, _resolver(facts)):
            if touch.answer == "yes":
                return touch
            maybe = touch if maybe.answer == "no" else maybe
        return maybe

    def _answers(self, part: CallPart, facts: CallFacts, resolver: PathResolver) -> Iterator[Touch]:
        if part.command is not None:
            yield is_for_people(part.command, resolver)
        yield judge_reading(part.paths, resolver)
        if (store := _changed_store(part, resolver)) is not None:
            yield Touch("yes", store)
        if any(use.kind in _MAY_WRITE for use in part.paths) or part.action[:1] == ("ln",):
            yield self._judge_writing(part, facts, resolver)
        elif part.is_tool:
            yield self._judge_arguments(part, facts, resolver)

    def _judge_writing(self, part: CallPart, facts: CallFacts, resolver: PathResolver) -> Touch:
        touch = self._files.judge(part, resolver)
        # Each path of an unknown tool is one that it may write, and a glob depends on the folder.
        is_guess = (part.is_tool and part.unknown) or (
            facts.folder is None and any(use.word.pattern for use in part.paths)
        )
        if touch.answer != "yes" or not is_guess:
            return touch
        return Touch("maybe", "", "", f"only people change {touch.path}")

    def _judge_arguments(self, part: CallPart, facts: CallFacts, resolver: PathResolver) -> Touch:
        only_reads = bool(part.effects) and part.effects <= _ONLY_READS
        for text in islice(_texts(facts.call.arguments), MOST_TEXTS):
            touch = judge_secret_text(text, resolver)
            if touch.answer == "no" and not only_reads:
                touch = self._files.judge_text(text, resolver)
            if touch.answer != "no":
                return touch
        return _NO


def tightened(verdict: PartVerdict, touch: Touch) -> PartVerdict:
    """Return *verdict*, or a stricter one by what its part is known to *touch*."""
    if touch.answer == "yes" and verdict.verdict != "deny":
        why = touch.reason or f"only people change or run it: {touch.path}"
        return _decided(verdict, "deny", "denied", why)
    if touch.answer == "maybe" and verdict.verdict == "allow":
        why = touch.reason or f"only people run `{touch.path}`"
        return _decided(verdict, "ask", "asked", why)
    return verdict


def _changed_store(part: CallPart, resolver: PathResolver) -> str | None:
    """Return the real path of a store that *part* may change by `sqlite3`, None without one."""
    only_queries = not part.unknown and part.effects <= {"read"}
    if part.action[:1] != ("sqlite3",) or only_queries:
        return None
    targets = [each for use in part.paths for each in find_targets(use, resolver).paths]
    return next((each.path for each in targets if is_of_store(each.path)), None)


def _resolver(facts: CallFacts) -> PathResolver:
    """Return where paths lead; where nobody says in which folder, it is taken to be this one."""
    if facts.folder is not None:
        return facts.resolver
    return PathResolver(CallPlace(str(Path.cwd()), facts.resolver.place.home))


def _decided(verdict: PartVerdict, word: Default, status: RuleStatus, why: str) -> PartVerdict:
    finding = RuleFinding(None, status, why, PROTECTED)
    return PartVerdict(verdict.part, word, finding, verdict.spoken)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in *value*, the outer ones first."""
    pending = [value]
    while pending:
        inner: list[Any] = []
        for each in pending:
            if isinstance(each, str):
                yield each
            elif isinstance(each, Mapping):
                inner.extend(each.values())
            elif isinstance(each, list | tuple):
                inner.extend(each)
        pending = inner
