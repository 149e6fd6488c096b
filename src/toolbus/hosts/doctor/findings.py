"""A finding of `toolbus doctor`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["open", "broken", "warning", "fact"]
"""Something passes that was promised to be stopped; everything is stopped; something to know that
a person can change; something that is so."""


class Finding(Struct, frozen=True, kw_only=True):
    """A fact about an installation, worded for a person, with the way out."""

    severity: Severity
    text: str
