"""A tool's response made to fit: its texts, its structured value and its binary parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolbus.messages import schemas
from toolbus.messages.parts import join_text
from toolbus.messages.records import Part, TextPart, encode
from toolbus.truncation.budgets import Budget, level_of
from toolbus.truncation.cut_texts import Plan, cut_text
from toolbus.truncation.json_texts import compact, is_json, shorten_json
from toolbus.truncation.notices import WholeOutput, position_in, text_notice, value_notice
from toolbus.truncation.parts import as_one, size_of, stand_in, text_of, with_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.messages.records import JsonObject, ToolResponse

_LEAST = 400
"""With fewer characters for each of several texts, they are shortened as one."""

_TRIES = 40
_STEP = 0.9
_EMPTY = {b"[": b"[]", b"{": b"{}", b'"': b'""'}


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
        keep: Callable[[str], WholeOutput],
        schema: JsonObject | None,
        *,
        structured: bool = True,
    ) -> ToolResponse:
        """Return *response* within the limits; the same object if it was.

        What is left of the structured value fits *schema*, or nothing of it is left; without
        *structured* it stays as it is.
        """
        content, value = self._without_large_parts(response.content), response.structured
        budget: Budget = self.budget
        notices: tuple[TextPart, ...] = ()
        if structured and value is not None and not self._fits_value(value):
            raw = encode(value)
            whole = keep(raw.decode())
            value = self._value(raw, whole, schema)
            if content:
                notice = value_notice(whole, len(raw), self.budget, gone=value is None)
                notices, budget = (TextPart(text=notice),), _less(budget, notice)
            else:
                # Without content the value itself is what the model reads, as JSON.
                content = (TextPart(text=self._json(raw, self.budget, whole, 0)),)
        if not budget.fits(join_text(content)):
            content = self._content(content, budget, keep)
        content = (*content, *notices) if notices else content
        same = value is response.structured and content is response.content
        return response if same else replace(response, content=content, structured=value)

    # --- parts ---------------------------------------------------------------------------------

    def _without_large_parts(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        limit = self.part_bytes
        if limit is None or all(size_of(part) <= limit for part in parts):
            return parts
        return tuple([part if size_of(part) <= limit else stand_in(part) for part in parts])

    def _content(
        self, parts: tuple[Part, ...], budget: Budget, keep: Callable[[str], WholeOutput]
    ) -> tuple[Part, ...]:
        text = join_text(parts)
        whole, sizes = keep(text), [len(text_of(part) or "") for part in parts]
        if sum([text_of(part) is not None for part in parts]) <= 1:
            return self._each(parts, sizes, budget, whole)
        share = 1.0
        while level_of(sizes, budget.characters * share) >= _LEAST:
            shortened = self._each(parts, sizes, budget.part(share), whole)
            if budget.fits(join_text(shortened)):
                return shortened
            share *= _STEP
        return as_one(parts, self._text(text, budget, whole, text, 0))

    def _each(
        self, parts: Sequence[Part], sizes: list[int], budget: Budget, whole: WholeOutput
    ) -> tuple[Part, ...]:
        level = level_of(sizes, budget.characters)
        shares = [min(size, level) for size in sizes]
        total, start = max(sum(shares), 1), 0
        joined, shortened = join_text(tuple(parts)), []
        for part, share in zip(parts, shares, strict=True):
            text, part_budget = text_of(part), budget.part(share / total)
            if text is None or part_budget.fits(text):
                shortened.append(part)
            else:
                text_left = self._text(text, part_budget, whole, joined, start)
                shortened.append(with_text(part, text_left))
            start += 0 if text is None else len(text) + 1
        return tuple(shortened)

    # --- texts ---------------------------------------------------------------------------------

    def _text(self, text: str, budget: Budget, whole: WholeOutput, joined: str, start: int) -> str:
        """Return *text* in *budget*; it stands in *joined*, which is kept, at *start*."""
        if is_json(text):
            return self._json(text.encode(), budget, whole, start)
        share = 1.0
        for _ in range(_TRIES):
            cut = cut_text(text, budget.part(share), self.plan)
            position = position_in(joined, start + cut.end)
            notice = text_notice(whole, len(cut.text), len(text), position, budget)
            joint = "" if cut.text.endswith("\n") or not cut.text else "\n"
            if budget.fits(shortened := f"{cut.text}{joint}{notice}"):
                return shortened
            share *= min(budget.ratio(shortened), _STEP)
        return text_notice(whole, 0, len(text), position_in(joined, start), budget)

    def _json(self, text: bytes, budget: Budget, whole: WholeOutput, start: int) -> str:
        raw = compact(text)
        written = raw.decode()
        if budget.fits(written):
            return written
        limit = budget.characters * len(raw) / len(written)
        notice = text_notice(whole, None, len(text), f"offset={start}", budget)
        shortened = self._json_within(raw, limit, notice, budget)
        return shorten_json(_EMPTY[raw[:1]], 0, notice) if shortened is None else shortened

    # --- structured values -----------------------------------------------------------------------

    def _fits_value(self, value: Any) -> bool:
        return replace(self.budget, lines=None).fits(encode(value).decode())

    def _value(self, raw: bytes, whole: WholeOutput, schema: JsonObject | None) -> Any:
        """Return what is left of a structured value; None if nothing would fit *schema*."""
        budget = replace(self.budget, lines=None)
        if schema is None:
            return msgspec.json.decode(self._json(raw, budget, whole, 0))
        shortened = self._json_within(raw, budget.characters, None, budget)
        value = None if shortened is None else msgspec.json.decode(shortened)
        return value if schemas.problem(schema, value) is None else None

    @staticmethod
    def _json_within(raw: bytes, limit: float, notice: str | None, budget: Budget) -> str | None:
        """Return the JSON *raw* within *budget*; *limit* is tried first, in bytes."""
        for _ in range(_TRIES):
            if budget.fits(shortened := shorten_json(raw, int(limit), notice)):
                return shortened
            limit *= min(budget.ratio(shortened), _STEP)
        return None


def _less(budget: Budget, text: str) -> Budget:
    """Return *budget* without what *text* and the end of the line before it take."""
    count = budget.count_of(text)
    return replace(
        budget,
        characters=budget.characters - len(text) - 1,
        lines=None if budget.lines is None else budget.lines - 1,
        tokens=None if budget.tokens is None else budget.tokens - count - 1,
    )
