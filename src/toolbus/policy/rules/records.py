"""The records of a policy: rules and their conditions, and what rules said of a call."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from toolbus.bus.dispatch.details import PartNote
from toolbus.policy.history.limits import Limit
from toolbus.policy.rules.tables import NO_TOOL_FACTS, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.history.limits import NamedCall
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.tables import Default, ToolFacts

RuleStatus: TypeAlias = Literal["allowed", "asked", "denied", "audited", "failed", "not run"]
Answer: TypeAlias = Literal["no", "yes", "maybe"]
"""Whether a condition holds; "maybe" if that cannot be known before the call runs."""


class Holds(NamedTuple):
    """Whether a condition holds, and *why*, in words for people ("" if there is nothing to add)."""

    answer: Answer
    why: str = ""


class CallCondition(NamedTuple):
    """A condition of a rule on a call as a whole: *test* raises `ConditionError` for a wrong type.

    *key* is its name in the file, *texts* are what the file says there. Of several values, as
    `files.*.path` has, *every* one must fit for a rule that allows, and any of them for the others.
    """

    key: str
    texts: tuple[str, ...]
    test: Callable[[CallFacts], Holds]
    every: bool = False


def _no_look(part: CallPart, facts: CallFacts) -> Holds:
    raise NotImplementedError


class PartCondition(NamedTuple):
    """A condition of a rule on one part of a call: one command of a line, or the call itself.

    For a rule that allows *every* use of a path, host or effect must fit, and surely; for the
    others any one, and perhaps. Where *test* gives None, files must be looked at, by *look*.
    """

    key: str
    texts: tuple[str, ...]
    test: Callable[[CallPart], Holds | None]
    every: bool
    look: Callable[[CallPart, CallFacts], Holds] = _no_look


class PolicyRule(Struct, frozen=True, kw_only=True, dict=True):
    """A rule, ready to judge; *number* is its place in the file, from 0.

    *reason* is for the model and for the person who is asked, *hint* says what to do instead.
    *programs* are those that its `command` names, None without one: the rule never speaks of other
    commands. Its *limits* are about the calls before. One that *skips_prompt* answers the prompt of
    a coding agent: see `toolbus.policy.skipped_prompts`.
    """

    name: str
    verdict: Verdict
    number: int
    call_conditions: tuple[CallCondition, ...] = ()
    part_conditions: tuple[PartCondition, ...] = ()
    limits: tuple[Limit, ...] = ()
    reason: str = ""
    hint: str = ""
    programs: frozenset[str] | None = None
    skips_prompt: bool = False

    @cached_property
    def allows(self) -> bool:
        """Whether it lets calls pass, so that it must hold for all that they do."""
        return self.verdict == "allow"

    @cached_property
    def is_bare(self) -> bool:
        """Whether it allows calls as such, whatever their parts are."""
        return self.allows and not self.part_conditions

    @cached_property
    def idle_note(self) -> PartNote:
        """What the ledger is told of it where it does not speak."""
        return PartNote(self.label, "not_run", "it did not apply")

    @cached_property
    def label(self) -> str:
        """What it is called in the ledger."""
        return f"rule {self.name!r}"


class RuleFinding(NamedTuple):
    """What a *rule* (None: the default) said of a part: its *status*, and *why*.

    *key* is the condition that did not hold, or that could not be judged.
    """

    rule: PolicyRule | None
    status: RuleStatus
    why: str = ""
    key: str = ""


class PartVerdict(NamedTuple):
    """The *verdict* on a *part*: which rule *decided*, and what all that spoke said."""

    part: CallPart
    verdict: Default
    decided: RuleFinding
    spoken: tuple[RuleFinding, ...]


class CallVerdict(NamedTuple):
    """The *verdict* on a call and on each of its *parts*; *failed* is a rule that cannot judge."""

    facts: CallFacts
    verdict: Default
    parts: tuple[PartVerdict, ...]
    failed: RuleFinding | None = None

    @property
    def spoken(self) -> Iterator[RuleFinding]:
        """What rules said, each once: the failed one, or those that spoke of a part."""
        if self.failed is not None:
            yield self.failed
        seen: set[int] = set()
        for finding in [finding for part in self.parts for finding in part.spoken]:
            if finding.rule is not None and finding.rule.number not in seen:
                seen.add(finding.rule.number)
                yield finding

    @property
    def decided(self) -> Iterator[PartVerdict]:
        """The parts that have the verdict of the call."""
        return (part for part in self.parts if part.verdict == self.verdict)


class PolicyRules(NamedTuple):
    """A whole policy, as it is in force: *file* is where it stands, None if it was given in code.

    *folder* is where relative paths of tools begin that say nothing else, None if nobody knows;
    the annotations of tools that match *trusted* are believed. *calls* are those that limits name.
    *programs* are the shipped ones and those of *program_files*; None: the shipped ones. *digest*
    is that of what they say, however it is laid out: an approval that waits is bound to it. If it
    is read for a session, *project* is that one's: relative paths of patterns begin there. Else
    *misplaced* may say that they begin where hardly anybody means it.
    """

    rules: tuple[PolicyRule, ...]
    default: Default = "ask"
    tools: tuple[tuple[str, ToolFacts], ...] = ()
    trusted: tuple[str, ...] = ()
    folder: str | None = None
    file: Path | None = None
    calls: tuple[NamedCall, ...] = ()
    programs: Programs | None = None
    program_files: tuple[Path, ...] = ()
    digest: str = ""
    project: Project | None = None
    misplaced: str = ""

    @property
    def fault(self) -> str:
        """Why relative paths allow nothing in a session's project, "" if nobody knows of that."""
        return self.misplaced if self.project is None else self.project.fault

    @property
    def works_here(self) -> bool:
        """Whether tools are taken to work in the current folder, if nobody says another one."""
        is_known = self.project is not None and self.project.is_known
        return is_known and self.folder is None

    def facts_of(self, tool_name: str) -> ToolFacts:
        """Return what it says of a tool: under its name, else under the first pattern that fits."""
        patterns = [
            (name, declared) for name, declared in self.tools if fnmatchcase(tool_name, name)
        ]
        exact = [declared for name, declared in patterns if name == tool_name]
        return (exact or [declared for _, declared in patterns] or [NO_TOOL_FACTS])[0]
