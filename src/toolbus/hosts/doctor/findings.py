"""A finding of `toolbus doctor`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["open", "broken", "warning", "fact"]
"""Open: something passes that should be blocked. Broken: everything is blocked. Warning: a risk
that a person can change. Fact: everything else."""


class Finding(Struct, frozen=True, kw_only=True):
    """A fact about an installation, as a sentence for a person, with the way out."""

    severity: Severity
    text: str
