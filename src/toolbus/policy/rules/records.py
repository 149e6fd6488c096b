"""The records of a policy: rules, their conditions, and their findings on a call."""

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

    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.history.limits import NamedCall
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.tables import Default, ToolFacts

FLOW_KEYS = ("sink", "new_host", "in_view", "target_from", "carries", "from")
"""The keys of conditions on the origin and the use of words, the cheapest first."""
RuleStatus: TypeAlias = Literal["allowed", "asked", "denied", "audited", "failed", "not run"]
Answer: TypeAlias = Literal["no", "yes", "maybe"]
"""Whether a condition matches; "maybe" if that cannot be known before the call runs."""


class MatchResult(NamedTuple):
    """Whether a condition matches, and *why*, for a person ("" if obvious)."""

    answer: Answer
    why: str = ""


class CallCondition(NamedTuple):
    """A rule's condition on a whole call; *test* raises `ConditionError` for a wrong type.

    *key* is its name in the file, *texts* are its values there. If a path leads to several values
    (`files.*.path`), *every* value must match in an allow rule, and any value in other rules.
    """

    key: str
    texts: tuple[str, ...]
    test: Callable[[CallReading], MatchResult]
    every: bool = False


def _no_look(part: CallPart, facts: CallReading) -> MatchResult:
    raise NotImplementedError


class PartCondition(NamedTuple):
    """A rule's condition on one part of a call: one command of a line, or the whole call.

    In an allow rule *every* path, host or effect must certainly match; in other rules any possible
    match suffices. If *test* returns None, *look* decides by the file system.
    """

    key: str
    texts: tuple[str, ...]
    test: Callable[[CallPart], MatchResult | None]
    every: bool
    look: Callable[[CallPart, CallReading], MatchResult] = _no_look


class PolicyRule(Struct, frozen=True, kw_only=True, dict=True):
    """A compiled rule; *number* is its position in the file, from 0.

    *reason* is for the model and the approving person, *hint* names an alternative. *programs* are
    the programs in its `command`, None without one; the rule never matches other programs. *limits*
    are about earlier calls. A rule that *skips_prompt* answers the prompt of a coding agent: see
    `toolbus.policy.skipped_prompts`.
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
        """Whether it allows calls, so that it must match everything they do."""
        return self.verdict == "allow"

    @cached_property
    def needs_origins(self) -> bool:
        """Whether it is about the origin or the use of words: `rules.flow_conditions`."""
        return any(each.key in FLOW_KEYS for each in self.part_conditions)

    @cached_property
    def has_only_call_conditions(self) -> bool:
        """Whether it allows calls as such, whatever their parts."""
        return self.allows and not self.part_conditions

    @cached_property
    def idle_note(self) -> PartNote:
        """Its note in the ledger if it does not match."""
        return PartNote(self.label, "not_run", "it did not apply")

    @cached_property
    def label(self) -> str:
        """Its name in the ledger."""
        return f"rule {self.name!r}"


class RuleFinding(NamedTuple):
    """The result of a *rule* (None: the default) for a part: its *status*, and *why*.

    *key* is the condition that did not match or could not be judged.
    """

    rule: PolicyRule | None
    status: RuleStatus
    why: str = ""
    key: str = ""

    @property
    def needs_origins(self) -> bool:
        """Whether its rule is about the origin of words; then *why* has no word of the call."""
        return self.rule is not None and self.rule.needs_origins


class PartVerdict(NamedTuple):
    """The *verdict* on a *part*: the finding that *decided*, and all *matched* findings."""

    part: CallPart
    verdict: Default
    decided: RuleFinding
    matched: tuple[RuleFinding, ...]


class CallVerdict(NamedTuple):
    """The *verdict* on a call and on each of its *parts*; *failed* is a rule that cannot judge."""

    facts: CallReading
    verdict: Default
    parts: tuple[PartVerdict, ...]
    failed: RuleFinding | None = None

    @property
    def matched(self) -> Iterator[RuleFinding]:
        """The finding of each rule, once: of the failed rule, or of rules that matched a part."""
        if self.failed is not None:
            yield self.failed
        seen: set[int] = set()
        for finding in [finding for part in self.parts for finding in part.matched]:
            if finding.rule is not None and finding.rule.number not in seen:
                seen.add(finding.rule.number)
                yield finding

    @property
    def decided(self) -> Iterator[PartVerdict]:
        """The parts whose verdict is that of the call."""
        return (part for part in self.parts if part.verdict == self.verdict)


class PolicyRules(NamedTuple):
    """A compiled policy; *file* is its file, None if it was given in code.

    *folder* is the default base of relative paths of tools, None if unknown. The annotations of
    tools that match *trusted* are trusted. *calls* are the calls that limits name. *programs* are
    the shipped programs and those of *program_files*; None: only the shipped programs. *digest*
    covers the content, not the layout; a waiting approval is bound to it. In a policy read for a
    session, *project* is the base of relative patterns; else *base_warning* may say that their base
    is probably a mistake.
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
    base_warning: str = ""

    @property
    def path_warning(self) -> str:
        """Why relative paths allow nothing, or begin in an unlikely folder; "" if all is well."""
        return self.base_warning if self.project is None else self.project.path_warning

    @property
    def works_here(self) -> bool:
        """Whether tools are assumed to work in the current folder."""
        is_known = self.project is not None and self.project.is_known
        return is_known and self.folder is None

    def facts_of(self, tool_name: str) -> ToolFacts:
        """Return the facts of a tool: under its name, else under the first matching pattern."""
        patterns = [
            (name, declared) for name, declared in self.tools if fnmatchcase(tool_name, name)
        ]
        exact = [declared for name, declared in patterns if name == tool_name]
        return (exact or [declared for _, declared in patterns] or [NO_TOOL_FACTS])[0]
