"""Protection that no rule lifts: of files only people may change, and of decisions by a person."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.policy.commands import CHANGES, KEEPS_FILES
from toolbus.policy.paths.file_access import NO_ACCESS, FileAccess
from toolbus.policy.paths.protected_files import (
    ProtectedFiles,
    is_of_store,
    judge_reading,
    judge_secret_text,
)
from toolbus.policy.paths.resolver import CallPlace, PathResolver
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.paths.toolbus_commands import runs_person_command
from toolbus.policy.rules.records import PartVerdict, RuleFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.rules.records import RuleStatus
    from toolbus.policy.rules.tables import Default

PROTECTED = "protected"
"""The `RuleFinding.key` of findings of the protection."""

MOST_TEXTS = 1_000
"""Texts in the arguments of one call that are compared with file names."""


class Protection:
    """Protects *files*, and the files of every installation."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._written = files

    @cached_property
    def _files(self) -> ProtectedFiles:
        return ProtectedFiles(self._written)

    def tighten(self, verdict: PartVerdict, facts: CallReading) -> PartVerdict:
        """Return *verdict*, or a stricter one."""
        if verdict.verdict == "deny":
            return verdict
        return tightened(verdict, self.access(verdict.part, facts))

    def access(self, part: CallPart, facts: CallReading) -> FileAccess:
        """Return the access of *part* to protected files.

        All checks run, and a certain answer beats a doubt: a variable for a file that is read must
        not turn the denial of a write into an approval. Among equal answers the first is returned.
        """
        resolver, doubt = _resolver(facts), NO_ACCESS
        for question in (
            _acts_for_person,
            _reads_secret,
            _changes_store,
            self._writes_protected,
            self._names_protected,
        ):
            access = question(part, facts, resolver)
            if access.answer == "yes":
                return access
            doubt = access if doubt.answer == "no" else doubt
        return doubt

    def _writes_protected(
        self, part: CallPart, facts: CallReading, resolver: PathResolver
    ) -> FileAccess:
        """Return whether *part* writes, or links to, a file that only people may change."""
        if not (_writes(part) or part.action[:1] == ("ln",)):
            return NO_ACCESS
        access = self._files.judge(part, resolver)
        # Paths of an unknown tool are only possible writes, and a glob depends on the folder.
        is_guess = (part.is_tool and part.unknown) or (
            facts.folder is None and any(use.word.pattern for use in part.paths)
        )
        if access.answer != "yes" or not is_guess:
            return access
        return FileAccess("maybe", "", "", f"only a person may change {access.path}")

    def _names_protected(
        self, part: CallPart, facts: CallReading, resolver: PathResolver
    ) -> FileAccess:
        """Return whether an argument of a tool may be a file that only people may change.

        This checks tools that name no file to write, and unknown tools: a path in one argument must
        not hide the real path in another.
        """
        if not part.is_tool or (_writes(part) and not part.unknown):
            return NO_ACCESS
        only_reads = bool(part.effects) and part.effects <= KEEPS_FILES
        texts = list(islice(_texts(facts.call.arguments), MOST_TEXTS + 1))
        for text in texts[:MOST_TEXTS]:
            access = judge_secret_text(text, resolver)
            if access.answer == "no" and not only_reads:
                access = self._files.judge_text(text, resolver)
            if access.answer != "no":
                return access
        if len(texts) > MOST_TEXTS:
            reason = f"one of more than {MOST_TEXTS:,} texts may be a file only a person may change"
            return FileAccess("maybe", "", "", reason)
        return NO_ACCESS


def tightened(verdict: PartVerdict, access: FileAccess) -> PartVerdict:
    """Return *verdict*, or a stricter one given the *access* of its part to protected files."""
    if access.answer == "yes" and verdict.verdict != "deny":
        why = access.reason or f"only a person may change or run {access.path}"
        return _decided(verdict, "deny", "denied", why)
    if access.answer == "maybe" and verdict.verdict == "allow":
        why = access.reason or f"only a person may run `{access.path}`"
        return _decided(verdict, "ask", "asked", why)
    return verdict


def _writes(part: CallPart) -> bool:
    return any(use.kind in CHANGES for use in part.paths)


def _acts_for_person(part: CallPart, _facts: CallReading, resolver: PathResolver) -> FileAccess:
    """Return whether *part* runs a `toolbus` command that acts for a person."""
    return NO_ACCESS if part.command is None else runs_person_command(part.command, resolver)


def _reads_secret(part: CallPart, _facts: CallReading, resolver: PathResolver) -> FileAccess:
    """Return whether *part* reads a secret that authenticates a person."""
    return judge_reading(part.paths, resolver)


def _changes_store(part: CallPart, _facts: CallReading, resolver: PathResolver) -> FileAccess:
    """Return whether *part* may change a store through `sqlite3`, with the store's real path."""
    only_queries = not part.unknown and part.effects <= {"read"}
    if part.action[:1] != ("sqlite3",) or only_queries:
        return NO_ACCESS
    targets = [each for use in part.paths for each in find_targets(use, resolver).paths]
    store = next((each.path for each in targets if is_of_store(each.path)), None)
    return NO_ACCESS if store is None else FileAccess("yes", store)


def _resolver(facts: CallReading) -> PathResolver:
    """Return the resolver of a call; without a folder, for the current folder."""
    if facts.folder is not None:
        return facts.resolver
    return PathResolver(CallPlace(str(Path.cwd()), facts.resolver.place.home))


def _decided(verdict: PartVerdict, word: Default, status: RuleStatus, why: str) -> PartVerdict:
    finding = RuleFinding(None, status, why, PROTECTED)
    return PartVerdict(verdict.part, word, finding, verdict.matched)


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
