"""The proof that an allowed call only reads inside the project, for rules with `prompt = "skip"`.

The host's prompt is the last look of a person at a call, so the proof is narrow: a few programs
that read what their words name, words that are known, and paths that lead nowhere else.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.file_access import stays_within
from toolbus.policy.paths.path_patterns import path_patterns

if TYPE_CHECKING:
    from toolbus.policy.commands import Command
    from toolbus.policy.facts import CallFacts, CallPart
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
"""Programs whose words say all that they read, or that read the repository of the project."""

_READ = frozenset({"read"})


def needs_no_prompt(verdict: CallVerdict, project: Project) -> bool:
    """Return whether each part of an allowed call surely reads inside *project*, and a rule skips.

    Files may be looked at.
    """
    if verdict.verdict != "allow" or project.fault or not project.is_known:
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
        for finding in judged.spoken
    )


def _only_reads(part: CallPart, project: Project) -> bool:
    """Return whether nothing but reading is known of *part*, and all that it reads is said."""
    if part.unknown or part.hosts or not (part.effects | part.claimed) <= _READ:
        return False
    if part.command is None:
        return part.is_tool and bool(part.paths)
    # A repository that begins above the project holds files of others.
    is_local = part.command.program.text != "git" or posixpath.isdir(f"{project.folder}/.git")
    return is_local and _says_what_it_reads(part.command)


def _says_what_it_reads(command: Command) -> bool:
    """Return whether *command* is one of the readers, whose words are known and say all."""
    if command.program.text not in _READERS:
        return False
    if command.settings or command.assumed or command.inside:
        return False
    return all(word.known and not _holds_path(word) for word in command.words)


def _holds_path(word: Word) -> bool:
    """Return whether an option has a path in it, as in `-f/etc/passwd`."""
    return word.text.startswith("-") and ("/" in word.text or "~" in word.text)


def _stays_inside(part: CallPart, facts: CallFacts, inside: tuple[PathPattern, ...]) -> bool:
    uses = [PathUse(Word("."), "read", part.folder), *part.paths]
    if part.command is not None:
        # Names alone are read as well, as by `ls`: any word may be a path.
        uses += [PathUse(word, "read", part.folder) for word in part.command.words]
    return all(
        stays_within(use, inside, facts.resolver, settled=part.settled).answer == "yes"
        for use in uses
    )
