"""A text cut to its head, its tail and the lines that match, with marks where something is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from toolbus.truncation.cuts import after_lines, are_lines, before_lines, cut_after, cut_before

if TYPE_CHECKING:
    from toolbus.truncation.budgets import Budget

Span: TypeAlias = tuple[int, int]
Find: TypeAlias = Callable[[str, int, int], Iterator[Span]]
"""Gives what matches in a text, between two places of it, in order."""

_LONG = 400
"""Of a longer line only what stands around a match is kept, in characters."""

_MOST_MATCHES = 1_000


class Plan(NamedTuple):
    """How a budget is shared: *head* and *matches* are parts of 1, the tail has the rest.

    *find* gives the matches, which keep *context* lines before and after their own. Without
    matches their share goes to head and tail.
    """

    head: float = 0.5
    matches: float = 0.25
    context: int = 1
    find: Find | None = None


class CutText(NamedTuple):
    """What is left of a text, and where its head ends in the whole."""

    text: str
    end: int


def cut_text(text: str, budget: Budget, plan: Plan) -> CutText:
    """Return *text* cut to about *budget*; the marks of the gaps are not counted."""
    share = plan.matches if plan.find is not None else 0.0
    head_share = min(plan.head / max(1 - plan.matches, 0.01), 1.0)
    head, tail = _ends(text, budget.part(1 - share), head_share)
    matches: list[Span] = []
    if plan.find is not None and head < tail:
        matches = _matches(text, (head, tail), budget.part(share), plan, plan.find)
        if not matches:
            head, tail = _ends(text, budget, head_share)
    spans = _merged([(0, head), *matches, (tail, len(text))])
    return CutText("".join(_with_gaps(text, spans)), head)


def _ends(text: str, budget: Budget, share: float) -> Span:
    """Return where the head of *text* ends and its tail begins."""
    head = _line_end(text, budget.part(share).head(text, 0, len(text)))
    tail = budget.part(1 - share).tail(text, head, len(text))
    return head, _line_start(text, tail, head)


def _line_end(text: str, position: int) -> int:
    """Return where to cut before *position*: after a whole line, if that loses less than half."""
    end = text.rfind("\n", 0, position) + 1
    return end if end * 2 >= position > 0 else cut_before(text, position)


def _line_start(text: str, position: int, least: int) -> int:
    """Return where to cut after *position*: before a whole line, if that loses less than half."""
    if position <= least or text[position - 1] == "\n":
        return max(position, least)
    start = text.find("\n", position) + 1
    if 0 < start <= position + (len(text) - position) // 2:
        return start
    return cut_after(text, position)


def _matches(text: str, where: Span, budget: Budget, plan: Plan, find: Find) -> list[Span]:
    """Return the parts of *text* around what matches, as many as fit *budget*."""
    spans: list[Span] = []
    previous, chosen = where[0], ""
    for _, span in zip(range(_MOST_MATCHES), find(text, *where), strict=False):
        start, end = _around(text, span, where, plan.context)
        if end <= previous:
            continue
        start = max(start, previous)
        chosen += text[start:end]
        if not budget.fits(chosen):
            break
        spans.append((start, end))
        previous = end
    return spans


def _around(text: str, span: Span, where: Span, context: int) -> Span:
    """Return the lines of *span* with *context* lines around them, none of them too long."""
    start, end = max(span[0] - _LONG // 2, where[0]), min(span[1] + _LONG // 2, where[1])
    first = before_lines(text, start, span[0], context + 1)
    end = after_lines(text, min(span[1], end), end, context + 1)
    return cut_before(text, first), cut_after(text, end)


def _merged(spans: list[Span]) -> list[Span]:
    merged = [spans[0]]
    for start, end in spans[1:]:
        previous_start, previous_end = merged[-1]
        if start <= previous_end:
            merged[-1] = previous_start, max(previous_end, end)
        else:
            merged.append((start, end))
    return merged


def _with_gaps(text: str, spans: list[Span]) -> Iterator[str]:
    """Give the *spans* of *text*, and between them what is missing."""
    previous = 0
    for start, end in spans:
        if start > previous:
            yield gap(text, previous, start)
        yield text[start:end]
        previous = end


def gap(text: str, start: int, end: int) -> str:
    """Return what stands in place of *text* from *start* to *end*: how much that was."""
    if are_lines(text, start, end):
        lines = text.count("\n", start, end) + (text[end - 1] != "\n")
        return f"[… {lines:,} {'line' if lines == 1 else 'lines'} left out …]\n"
    before = "" if start == 0 or text[start - 1] == "\n" else " "
    after = "\n" if text[end - 1] == "\n" else " "
    return f"{before}[… {end - start:,} characters left out …]{after}"
