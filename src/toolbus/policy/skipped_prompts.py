"""The proof that an allowed call only reads inside the project, for rules with `prompt = "skip"`.

The host's prompt is a person's last check of a call, so the proof is narrow: a few programs that
read only the files among their words, known words, and paths inside the project.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.file_access import stays_within
from toolbus.policy.paths.path_patterns import path_patterns

if TYPE_CHECKING:
    from toolbus.policy.commands import Command
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import CallVerdict, PartVerdict

_READERS = frozenset(
    {
        *("[", "basename", "cat", "cd", "cmp", "column", "comm", "cut", "date", "diff", "dirname"),
        *("du", "echo", "egrep", "fgrep", "file", "find", "fold", "git", "grep", "head", "ls"),
        *("md5sum", "nl", "paste", "printf", "pwd", "realpath", "rg", "sha1sum", "sha256sum"),
        *("sort", "stat", "tac", "tail", "test", "tr", "tree", "true", "uniq", "wc"),
    }
)
"""Programs that read only files among their words, or the repository of the project."""

_READ = frozenset({"read"})


def needs_no_prompt(verdict: CallVerdict, project: Project) -> bool:
    """Return whether every part of an allowed call has a skip rule and only reads in *project*.

    May access the file system.
    """
    if verdict.verdict != "allow" or project.path_warning or not project.is_known:
        return False
    inside = path_patterns(("./**",), project=project.folder)
    return all(
        _is_skipped(judged)
        and _only_reads(judged.part, project)
        and _stays_inside(judged.part, verdict.facts, inside)
        for judged in verdict.parts
    )


def _is_skipped(judged: PartVerdict) -> bool:
    return any(
        finding.rule is not None and finding.rule.skips_prompt and finding.status == "allowed"
        for finding in judged.matched
    )


def _only_reads(part: CallPart, project: Project) -> bool:
    """Return whether *part* only reads, and its words name every file it reads."""
    if part.unknown or part.hosts or not (part.effects | part.claimed) <= _READ:
        return False
    if part.command is None:
        return part.is_tool and bool(part.paths)
    # A repository that begins above the project also contains files outside it.
    is_local = part.command.program.text != "git" or posixpath.isdir(f"{project.folder}/.git")
    return is_local and _names_its_files(part.command)


def _names_its_files(command: Command) -> bool:
    """Return whether *command* is a known reader with known words only."""
    if command.program.text not in _READERS:
        return False
    if command.settings or command.assumed or command.inside:
        return False
    return all(word.known and not _holds_path(word) for word in command.words)


def _holds_path(word: Word) -> bool:
    """Return whether *word* is an option that contains a path, as in `-f/etc/passwd`."""
    return word.text.startswith("-") and ("/" in word.text or "~" in word.text)


def _stays_inside(part: CallPart, facts: CallReading, inside: tuple[PathPattern, ...]) -> bool:
    uses = [PathUse(Word("."), "read", part.folder), *part.paths]
    if part.command is not None:
        # Listing names counts as reading, so any word may be a path.
        uses += [PathUse(word, "read", part.folder) for word in part.command.words]
    return all(
        stays_within(use, inside, facts.resolver, paths_stable=part.paths_stable).answer == "yes"
        for use in uses
    )
