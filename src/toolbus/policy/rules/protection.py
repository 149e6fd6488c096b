"""Protection that no rule lifts: of files that only people change, and of a person's own voice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.policy.paths.file_access import Touch
from toolbus.policy.paths.protected_files import (
    ProtectedFiles,
    is_of_store,
    judge_reading,
    judge_secret_text,
)
from toolbus.policy.paths.resolver import CallPlace, PathResolver
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.paths.toolbus_commands import is_for_people
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

        Each question is asked, and a certain answer counts more than a doubt: a variable for a file
        that is read must not make an approval of the denial of what is written. Of equal answers
        the first one is told.
        """
        resolver, doubt = _resolver(facts), _NO
        for question in (
            _speaks_for_person,
            _reads_secret,
            _changes_store,
            self._writes_protected,
            self._names_protected,
        ):
            touch = question(part, facts, resolver)
            if touch.answer == "yes":
                return touch
            doubt = touch if doubt.answer == "no" else doubt
        return doubt

    def _writes_protected(self, part: CallPart, facts: CallFacts, resolver: PathResolver) -> Touch:
        """Return whether *part* writes, or makes a link to, a file that only people change."""
        if not (_writes(part) or part.action[:1] == ("ln",)):
            return _NO
        touch = self._files.judge(part, resolver)
        # Each path of an unknown tool is one that it may write, and a glob depends on the folder.
        is_guess = (part.is_tool and part.unknown) or (
            facts.folder is None and any(use.word.pattern for use in part.paths)
        )
        if touch.answer != "yes" or not is_guess:
            return touch
        return Touch("maybe", "", "", f"only people change {touch.path}")

    def _names_protected(self, part: CallPart, facts: CallFacts, resolver: PathResolver) -> Touch:
        """Return whether an argument of a tool may be a file that only people change.

        So it is asked of tools that name no file that they write, and of those of which nobody
        knows what they do: there a path beside the real one must not hide that.
        """
        if not part.is_tool or (_writes(part) and not part.unknown):
            return _NO
        only_reads = bool(part.effects) and part.effects <= _ONLY_READS
        texts = list(islice(_texts(facts.call.arguments), MOST_TEXTS + 1))
        for text in texts[:MOST_TEXTS]:
            touch = judge_secret_text(text, resolver)
            if touch.answer == "no" and not only_reads:
                touch = self._files.judge_text(text, resolver)
            if touch.answer != "no":
                return touch
        if len(texts) > MOST_TEXTS:
            reason = f"of more than {MOST_TEXTS:,} texts one may be a file that only people change"
            return Touch("maybe", "", "", reason)
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


def _writes(part: CallPart) -> bool:
    return any(use.kind in _MAY_WRITE for use in part.paths)


def _speaks_for_person(part: CallPart, _facts: CallFacts, resolver: PathResolver) -> Touch:
    """Return whether *part* runs a command of `toolbus` that speaks for a person."""
    return _NO if part.command is None else is_for_people(part.command, resolver)


def _reads_secret(part: CallPart, _facts: CallFacts, resolver: PathResolver) -> Touch:
    """Return whether *part* reads a secret that speaks for a person."""
    return judge_reading(part.paths, resolver)


def _changes_store(part: CallPart, _facts: CallFacts, resolver: PathResolver) -> Touch:
    """Return whether *part* may change a store by `sqlite3`; its path is the real one."""
    only_queries = not part.unknown and part.effects <= {"read"}
    if part.action[:1] != ("sqlite3",) or only_queries:
        return _NO
    targets = [each for use in part.paths for each in find_targets(use, resolver).paths]
    store = next((each.path for each in targets if is_of_store(each.path)), None)
    return _NO if store is None else Touch("yes", store)


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
