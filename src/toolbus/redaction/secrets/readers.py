"""What reads the values that a rule's pattern cannot reach, by what the rule calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.redaction.secrets.assigned import assigned_values
from toolbus.redaction.secrets.columns import copied_values, inserted_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.redaction.secrets.columns import Span

READERS: Mapping[str, Callable[[bytes, Span, int], Iterator[Span | None]]] = {
    "assigned": assigned_values,
    "insert": inserted_values,
    "copy": copied_values,
}
"""Each takes the text, where the name stands in it, and where the rule's match ends."""
