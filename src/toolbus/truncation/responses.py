"""A tool's response made to fit: its texts, its structured value and its binary parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolbus.messages import schemas
from toolbus.messages.parts import join_text
from toolbus.messages.records import Part, TextPart, encode
from toolbus.truncation.budgets import Budget
from toolbus.truncation.json_texts import compact, is_json, shorten_json
from toolbus.truncation.notices import Kept, word
from toolbus.truncation.pieces import as_one, left_out, size_of, text_of, with_text
from toolbus.truncation.texts import Plan, shorten_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.messages.records import JsonObject, ToolResponse

_LEAST = 400
"""With fewer characters for each of several texts, they are shortened as one."""

_TRIES = 40
_STEP = 0.9


class Shortener(Struct, frozen=True):
    """Makes responses fit *budget*; *keep* takes what is shortened, whole, and says where it is.

    *part_bytes* is the most that an image, a sound or a blob may have; None is no limit.
    """

    budget: Budget
    plan: Plan
    part_bytes: int | None = None

    def shorten(
        self,
        response: ToolResponse,
        keep: Callable[[str], Kept],
        schema: JsonObject | None,
        *,
        structured: bool = True,
    ) -> ToolResponse:
        """Return *response* within the limits; the same object if it was.

        What is left of the structured value fits *schema*, or nothing of it is left; without
        *structured* it stays as it is.
        """
        content, value = self._parts(response.content), response.structured
        room: Budget = self.budget
        notes: tuple[TextPart, ...] = ()
        if structured and value is not None and not self._fits_value(value):
            content, value, notes = self._without_rest(content, value, keep, schema)
        for note in notes:
            room = _less(room, note.text)
        if not room.fits(join_text(content)):
            content = self._content(content, room, keep)
        content = (*content, *notes) if notes else content
        same = value is response.structured and content is response.content
        return response if same else replace(response, content=content, structured=value)

    def _without_rest(
        self,
        content: tuple[Part, ...],
        value: Any,
        keep: Callable[[str], Kept],
        schema: JsonObject | None,
    ) -> tuple[tuple[Part, ...], Any, tuple[TextPart, ...]]:
        """Return content, what is left of the structured *value*, and what is said of the rest.

        Without any *content* the value itself is what the model reads, as JSON.
        """
        whole = encode(value)
        kept = keep(whole.decode())
        value = self._value(whole, kept, schema)
        if not content:
            return (TextPart(text=self._json(whole, self.budget, kept, 0)),), value, ()
        note = self._note(kept, len(whole), gone=value is None)
        return content, value, (TextPart(text=note),)

    # --- parts ---------------------------------------------------------------------------------

    def _parts(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return *parts* without those binary ones that are too large."""
        if self.part_bytes is None or all(size_of(one) <= self.part_bytes for one in parts):
            return parts
        return tuple([one if size_of(one) <= self.part_bytes else left_out(one) for one in parts])

    def _content(
        self, parts: tuple[Part, ...], budget: Budget, keep: Callable[[str], Kept]
    ) -> tuple[Part, ...]:
        whole = join_text(parts)
        kept, sizes = keep(whole), [len(text_of(one) or "") for one in parts]
        texts = sum([text_of(one) is not None for one in parts])
        share = 1.0
        while texts > 1 and _level(sizes, budget.characters * share) >= _LEAST:
            shortened = self._each(parts, sizes, budget.part(share), kept)
            if budget.fits(join_text(shortened)):
                return shortened
            share *= _STEP
        if texts > 1:
            return as_one(parts, self._text(whole, budget, kept, whole, 0))
        return self._each(parts, sizes, budget, kept)

    def _each(
        self, parts: Sequence[Part], sizes: list[int], budget: Budget, kept: Kept
    ) -> tuple[Part, ...]:
        level = _level(sizes, budget.characters)
        shares = [min(size, level) for size in sizes]
        total, start = max(sum(shares), 1), 0
        whole, shortened = join_text(tuple(parts)), []
        for part, share in zip(parts, shares, strict=True):
            text, own = text_of(part), budget.part(share / total)
            if text is None:
                shortened.append(part)
                continue
            if not own.fits(text):
                part = with_text(part, self._text(text, own, kept, whole, start))  # noqa: PLW2901
            shortened.append(part)
            start += len(text) + 1
        return tuple(shortened)

    # --- texts ---------------------------------------------------------------------------------

    def _text(self, text: str, budget: Budget, kept: Kept, whole: str, start: int) -> str:
        """Return *text* in *budget*; it stands in *whole* at *start*."""
        if is_json(text):
            return self._json(text.encode(), budget, kept, start)
        share = 1.0
        for _ in range(_TRIES):
            cut = shorten_text(text, budget.part(share), self.plan)
            place = _place(whole, start + cut.end)
            said = word(kept, len(cut.text), len(text), place, budget)
            joint = "" if cut.text.endswith("\n") or not cut.text else "\n"
            if budget.fits(shortened := f"{cut.text}{joint}{said}"):
                return shortened
            share *= min(budget.ratio(shortened), _STEP)
        return word(kept, 0, len(text), _place(whole, start), budget)

    def _json(self, text: bytes, budget: Budget, kept: Kept, start: int) -> str:
        raw = compact(text)
        written = raw.decode()
        if budget.fits(written):
            return written
        room = budget.characters * len(raw) / len(written)
        said = word(kept, None, len(text), f"offset={start}", budget)
        for _ in range(_TRIES):
            if budget.fits(shortened := shorten_json(raw, int(room), said)):
                return shortened
            room *= min(budget.ratio(shortened), _STEP)
        return shorten_json(_EMPTY[raw[:1]], 0, said)

    # --- structured values -----------------------------------------------------------------------

    def _fits_value(self, value: Any) -> bool:
        return replace(self.budget, lines=None).fits(encode(value).decode())

    def _value(self, whole: bytes, kept: Kept, schema: JsonObject | None) -> Any:
        """Return what is left of a structured value; None if nothing would fit *schema*."""
        budget = replace(self.budget, lines=None)
        if schema is None:
            return msgspec.json.decode(self._json(whole, budget, kept, 0))
        raw, room = whole, float(budget.characters)
        for _ in range(_TRIES):
            shortened = shorten_json(raw, int(room), None)
            if budget.fits(shortened):
                value = msgspec.json.decode(shortened)
                return value if schemas.problem(schema, value) is None else None
            room *= min(budget.ratio(shortened), _STEP)
        return None

    def _note(self, kept: Kept, size: int, *, gone: bool) -> str:
        """Return what is said beside the texts of a structured value that was too large."""
        what = "was left out" if gone else "is shortened"
        way = kept.reason if kept.reference is None else f"read it with {kept.at('offset=0')}"
        long = f"[The structured value, {size:,} bytes, {what}: {way}]"
        return long if self.budget.part(0.35).fits(long) else f"[structured value {what}]"


_EMPTY = {b"[": b"[]", b"{": b"{}", b'"': b'""'}


def _place(whole: str, at: int) -> str:
    """Return how a reader says that it goes on at *at*."""
    if at == 0 or whole[at - 1] == "\n":
        return f"line={whole.count(chr(10), 0, at) + 1}"
    return f"offset={at}"


def _less(budget: Budget, text: str) -> Budget:
    """Return *budget* without what *text* and the end of the line before it take."""
    count = budget.count_of(text)
    return replace(
        budget,
        characters=budget.characters - len(text) - 1,
        lines=None if budget.lines is None else budget.lines - 1,
        tokens=None if budget.tokens is None else budget.tokens - count - 1,
    )


def _level(sizes: list[int], room: float) -> float:
    """Return how long each of *sizes* may be at most, so that all together have *room*."""
    left, count = room, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return left / count
        left, count = left - size, count - 1
    return max(sizes, default=0)
