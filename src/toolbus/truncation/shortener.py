"""The truncation of a tool's response: of large parts, its structured value, then its texts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolbus.messages import schemas
from toolbus.messages.parts import join_text, text_of
from toolbus.messages.records import (
    AudioPart,
    ImagePart,
    Part,
    Resource,
    ResourcePart,
    TextPart,
    encode,
)
from toolbus.truncation.budgets import TextBudget, common_limit
from toolbus.truncation.cut_texts import cut_text
from toolbus.truncation.json_texts import is_json, shorten_json
from toolbus.truncation.pages import WholeOutput, position_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.messages.records import JsonObject, ToolResponse

_LEAST = 400
"""The minimum of characters for each of several texts; below it, they are shortened as one."""


class _WholeText(NamedTuple):
    """A text of a response, its *start* in the joined text, and *raw*, its JSON if it is JSON."""

    text: str
    start: int
    raw: bytes | None

    @classmethod
    def of(cls, text: str, start: int) -> _WholeText:
        """Return the record of *text*; its JSON has no spaces between values."""
        raw = msgspec.json.format(text.encode(), indent=-1) if is_json(text) else None
        return cls(text, start, raw)


class Shortener(Struct, frozen=True):
    """Shortens responses to *budget*.

    A text keeps the part *head*, between 0 and 1, at its beginning, the rest at its end, and lines
    with *words* between. An image, a sound or a blob of more than *part_bytes* is left out.
    """

    budget: TextBudget
    head: float = 0.5
    words: tuple[str, ...] = ()
    part_bytes: int | None = None

    def shorten(
        self, response: ToolResponse, keep: Callable[[str], WholeOutput], schema: JsonObject | None
    ) -> ToolResponse:
        """Return *response* within the limits, the same object if it fits; *keep* gets the whole.

        A shortened structured value fits *schema*, or is removed.
        """
        value, whole, facts = response.structured, WholeOutput(""), ""
        content = response.content
        if self.part_bytes is not None:
            content = tuple([_within(part, self.part_bytes) for part in content])
        if value is not None and not self.budget.fits(raw := encode(value).decode()):
            whole = keep(raw)
            shown = self._json(raw, whole, schema)
            value = msgspec.json.decode(shown)
            if content:
                what = "was left out" if value is None else "is shortened"
                facts = f"The structured value, {len(raw):,} characters, {what}."
            else:
                # Without content the model reads the value itself, as JSON.
                content = (TextPart(raw),)
        notices = partial(_notices, whole, facts)
        noted = (*content, *notices(self.budget.characters))
        if not self.budget.fits(join_text(noted)):
            noted = self._content(content, notices, keep)
        same = value is response.structured and noted == response.content
        return response if same else replace(response, content=noted, structured=value)

    def _json(self, raw: str, whole: WholeOutput, schema: JsonObject | None) -> str:
        """Return the compact JSON *raw* within the budget; null if it cannot fit *schema*."""
        source = _WholeText.of(raw, 0)
        if (data := source.raw) is None:
            return "null"
        if schema is None:
            return self.budget.fill(raw, lambda size: self._cut(source, size, whole, raw), str)
        shown = self.budget.fill(raw, lambda size: shorten_json(data, size, None), str)
        return "null" if schemas.problem(schema, msgspec.json.decode(shown)) else shown

    def _content(
        self,
        parts: tuple[Part, ...],
        notices: Callable[[int], tuple[TextPart, ...]],
        keep: Callable[[str], WholeOutput],
    ) -> tuple[Part, ...]:
        """Return *parts* and *notices* within the budget; keep the text of *parts*."""
        joined, start = join_text(parts), 0
        whole, sources = keep(joined), dict[int, _WholeText]()
        for index, part in enumerate(parts):
            if (text := text_of(part)) is not None:
                sources[index] = _WholeText.of(text, start)
                start += len(text) + 1
        sizes = [len(source.text) for source in sources.values()]

        def made(size: int) -> tuple[Part, ...]:
            level = int(common_limit(sizes, size))
            if len(sizes) > 1 and level < _LEAST:
                text = self._cut(_WholeText.of(joined, 0), size, whole, joined)
                return (*_as_one(parts, text), *notices(size))
            cut = list(parts)
            for index, source in sources.items():
                if len(source.text) > level:
                    text = self._cut(source, level, whole, joined)
                    cut[index] = _with_text(parts[index], text)
            return (*cut, *notices(size))

        return self.budget.fill(joined, made, join_text)

    def _cut(self, source: _WholeText, size: int, whole: WholeOutput, joined: str) -> str:
        """Return *source* in about *size* characters with a notice; *joined* is kept as *whole*."""
        text, raw = source.text, source.raw
        if raw is not None:
            written = raw.decode()
            if len(written) <= size:
                return written
            facts = f"Shortened: the whole has {len(text):,} characters."
            notice = whole.notice(facts, f"offset={source.start}", size)
            return shorten_json(raw, size * len(raw) // len(written), notice)
        facts = "Shortened: {:,} of {:,} characters are shown."
        longest = whole.notice(facts.format(size, len(text)), f"offset={len(joined)}", size)
        shown, end = cut_text(text, size - len(longest) - 1, self.head, self.words)
        position = position_in(joined, source.start + end)
        notice = whole.notice(facts.format(len(shown), len(text)), position, size)
        joint = "" if shown.endswith("\n") or not shown else "\n"
        return f"{shown}{joint}{notice}"


def _notices(whole: WholeOutput, facts: str, size: int) -> tuple[TextPart, ...]:
    """Return the notice of a structured value with *facts*, if any, and if there is room."""
    return (TextPart(whole.notice(facts, "offset=0", size)),) if facts and size else ()


# --- parts ---------------------------------------------------------------------------------------


def _with_text(part: Part, text: str) -> Part:
    if isinstance(part, ResourcePart):
        return ResourcePart(resource=replace(part.resource, text=text))
    return TextPart(text=text)


def _as_one(parts: tuple[Part, ...], text: str) -> tuple[Part, ...]:
    """Return *parts* with *text* in place of the first text, and empty texts for the others.

    Each part before the last one without text stays in its place: a host may count them.
    """
    shortened: list[Part] = []
    for part in parts:
        if text_of(part) is None:
            shortened.append(part)
        else:
            shortened.append(TextPart(text=text))
            text = ""
    while isinstance(shortened[-1], TextPart) and not shortened[-1].text:
        shortened.pop()
    return tuple(shortened)


def _within(part: Part, limit: int) -> Part:
    """Return *part*, or a note if it is an image, a sound or a blob of more than *limit* bytes."""
    match part:
        case ImagePart(data=data, mime_type=kind):
            what = "An image"
        case AudioPart(data=data, mime_type=kind):
            what = "A sound"
        case ResourcePart(resource=Resource(blob=str(data), mime_type=kind)):
            what = "A resource"
        case _:
            return part
    size, of_type = len(data) * 3 // 4, f" of type {kind[:100]}" if kind else ""
    return part if size <= limit else TextPart(f"[{what}{of_type}, {size:,} bytes, left out]")
