"""A model's reasoning before its answer, with the data that its provider needs back."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import force_setattr, replace

from toolbus.messages.fields import Record, all_ascii, check_kind, check_texts, freeze_items

if TYPE_CHECKING:
    from msgspec import Struct


class ReasoningPart(Record, frozen=True, omit_defaults=True):
    """A part of a model's reasoning: its *text*, and data for its provider alone.

    A provider accepts a part only unchanged: *signature* is its signature of the text, *data* the
    encrypted reasoning, *item_id* the id of the item (parts of one id are one item). *format*
    names the wire format that accepts it; *is_summary* marks a provider's summary of the
    reasoning.
    """

    text: str = ""
    signature: str | None = None
    data: str | None = None
    item_id: str | None = None
    format: str | None = None
    is_summary: bool = False

    def __post_init__(self) -> None:
        if not all_ascii(self.text):
            check_texts(self, "text")
        check_texts(self, "signature", "data", "item_id", "format", optional=True)
        if self.is_summary is not False:
            check_kind(self, "is_summary", bool)

    @property
    def is_sealed(self) -> bool:
        """Whether the provider would refuse it with another text."""
        return not (self.signature is self.data is self.item_id is None)

    def with_text(self, text: str) -> ReasoningPart:
        """Return this part with *text*; a changed part has no seal, so it is not sent back."""
        return self if text == self.text else replace(self, text=text).without_seal()

    def without_seal(self) -> ReasoningPart:
        """Return this part with its text alone, for readers."""
        return replace(self, signature=None, data=None, item_id=None)


if TYPE_CHECKING:
    Reasoning: TypeAlias = tuple[ReasoningPart, ...]
else:
    # Version 0.1.0 stored text or null, which is still read.
    Reasoning = tuple[ReasoningPart, ...] | str | None


def freeze_reasoning(record: Struct, field: str) -> None:
    """Replace text, None or a sequence in *field* with a tuple of parts."""
    value = getattr(record, field)
    if value is None:
        force_setattr(record, field, ())
    elif isinstance(value, str):
        force_setattr(record, field, (ReasoningPart(value),) if value else ())
    else:
        freeze_items(record, field, ReasoningPart)


def without_broken_seals(
    before: tuple[ReasoningPart, ...], after: tuple[ReasoningPart, ...]
) -> tuple[ReasoningPart, ...]:
    """Return *after* without the seals that belonged to another text in *before*."""
    if after is before:
        return after
    sealed: dict[object, set[str]] = {}
    for part in before:
        if part.is_sealed:
            sealed.setdefault(_seal(part), set()).add(part.text)
    honest = [
        part.without_seal() if part.text not in sealed.get(_seal(part), {part.text}) else part
        for part in after
    ]
    return after if all(map(is_, honest, after)) else tuple(honest)


def _seal(part: ReasoningPart) -> object:
    return part.signature, part.data, part.item_id


def join_reasoning(parts: tuple[ReasoningPart, ...]) -> str:
    """Return the texts of *parts*, one per line."""
    return "\n".join([part.text for part in parts if part.text])
