"""Proposed rules: the smallest set that answers most of the questions of the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.suggest.evidence import AskedCall

Form: TypeAlias = Literal["exact", "family"]


class Proposal(NamedTuple):
    """A proposed rule of a *form*: its table as in a policy file, and its *evidence*.

    *covers* is the number of approved calls of which it answers a part or the whole. A *caution*
    tells a person what the rule leaves open, or is "".
    """

    rule: Mapping[str, Any]
    form: Form
    evidence: tuple[AskedCall, ...]
    covers: int
    caution: str = ""


class Suggestions(NamedTuple):
    """The *proposals*, the widest first, and the number of calls *left_out* by reason."""

    proposals: tuple[Proposal, ...]
    left_out: Mapping[str, int]


def propose(asked: Iterable[AskedCall], policy: PolicyFile) -> Suggestions:
    """Return the rules to add to *policy*, which answer most of the *asked* calls."""
    _ = asked, policy
    return Suggestions((), {})
