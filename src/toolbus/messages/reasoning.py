"""What a model thought before it answered, and what its provider wants back of that."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import force_setattr, replace

from toolbus.messages.fields import Record, all_ascii, check_kind, check_texts, freeze_items

if TYPE_CHECKING:
    from msgspec import Struct


class ReasoningPart(Record, frozen=True, omit_defaults=True):
    """A piece of a model's reasoning: its *text*, and what only its provider can read.

    A provider takes a part back as it gave it or not at all: *signature* is its seal over the
    text, *data* the reasoning that it encrypted, *item_id* its id of the item (parts of one id are
    one item). *format* names the wire that takes it back, *is_summary* tells that the text is what
    a provider says of the reasoning.
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
        """Tell whether a provider would refuse it with another text."""
        return not (self.signature is self.data is self.item_id is None)

    def with_text(self, text: str) -> ReasoningPart:
        """Return this part with *text*; without its seal, so that it is not sent back."""
        return self if text == self.text else replace(self, text=text).without_seal()

    def without_seal(self) -> ReasoningPart:
        """Return what is left of this part for readers."""
        return replace(self, signature=None, data=None, item_id=None)


if TYPE_CHECKING:
    Reasoning: TypeAlias = tuple[ReasoningPart, ...]
else:
    # Version 0.1.0 wrote text or null, and what it wrote is read.
    Reasoning = tuple[ReasoningPart, ...] | str | None


def freeze_reasoning(record: Struct, field: str) -> None:
    """Make a tuple of parts of *field*, which may hold text, or nothing, or parts."""
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
    """Return *after* without the seals that stood in *before* over another text."""
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
    """Return the texts of *parts*, one a line."""
    return "\n".join([part.text for part in parts if part.text])
