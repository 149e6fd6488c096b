"""What rules said of a call and its parts, as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.rules.records import PolicyRule
    from toolbus.policy.rules.tables import Default

RuleStatus: TypeAlias = Literal["allowed", "asked", "denied", "audited", "failed", "not run"]


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
