"""A text cut to its head, its tail and the lines that match, with marks where something is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from toolbus.truncation.cuts import cut_after, cut_before

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


class Shortened(NamedTuple):
    """What is left of a text, and where its head ends in the whole."""

    text: str
    end: int


def shorten_text(text: str, budget: Budget, plan: Plan) -> Shortened:
    """Return *text* cut to about *budget*; the marks of the gaps are not counted."""
    share = plan.matches if plan.find is not None else 0.0
    head_share = plan.head / max(1 - plan.matches, 0.01)
    head, tail = _ends(text, budget.part(1 - share), min(head_share, 1.0))
    found: list[Span] = []
    if plan.find is not None and head < tail:
        found = _matches(text, (head, tail), budget.part(share), plan)
        if not found:
            head, tail = _ends(text, budget, min(head_share, 1.0))
    spans = _merged([(0, head), *found, (tail, len(text))])
    return Shortened("".join(_marked(text, spans)), head)


def _ends(text: str, budget: Budget, share: float) -> Span:
    """Return where the head of *text* ends and its tail begins."""
    head = _line_end(text, budget.part(share).head(text, 0, len(text)))
    left = budget.part(1 - share).tail(text, head, len(text))
    return head, _line_start(text, left, head)


def _line_end(text: str, at: int) -> int:
    """Return a place before *at* to cut: after a whole line, if that loses less than half."""
    found = text.rfind("\n", 0, at) + 1
    return found if found * 2 >= at > 0 else cut_before(text, at)


def _line_start(text: str, at: int, least: int) -> int:
    """Return a place after *at* to cut: before a whole line, if that loses less than half."""
    if at <= least or text[at - 1] == "\n":
        return max(at, least)
    found = text.find("\n", at) + 1
    if 0 < found <= at + (len(text) - at) // 2:
        return found
    return cut_after(text, at)


def _matches(text: str, where: Span, budget: Budget, plan: Plan) -> list[Span]:
    """Return the pieces of *text* around what matches, as many as *budget* has room for."""
    assert plan.find is not None  # noqa: S101 - for mypy: asked for only with it
    found: list[Span] = []
    end, pieces = where[0], ""
    for _, span in zip(range(_MOST_MATCHES), plan.find(text, *where), strict=False):
        piece = _around(text, span, where, plan.context)
        if piece[1] <= end:
            continue
        fresh = max(piece[0], end), piece[1]
        pieces += text[fresh[0] : fresh[1]]
        if not budget.fits(pieces):
            break
        found.append(fresh)
        end = fresh[1]
    return found


def _around(text: str, span: Span, where: Span, context: int) -> Span:
    """Return the lines of *span* with *context* lines around them, none of them too long."""
    start, end = max(span[0] - _LONG // 2, where[0]), min(span[1] + _LONG // 2, where[1])
    first = _back(text, span[0], start, context)
    last = _forth(text, min(span[1], end), end, context)
    return cut_before(text, first), cut_after(text, last)


def _back(text: str, at: int, least: int, lines: int) -> int:
    for _ in range(lines + 1):
        found = text.rfind("\n", least, at)
        if found < 0:
            return least
        at = found
    return at + 1


def _forth(text: str, at: int, most: int, lines: int) -> int:
    for _ in range(lines + 1):
        found = text.find("\n", at, most)
        if found < 0:
            return most
        at = found + 1
    return at


def _merged(spans: list[Span]) -> list[Span]:
    merged = [spans[0]]
    for start, end in spans[1:]:
        last = merged[-1]
        if start <= last[1]:
            merged[-1] = last[0], max(last[1], end)
        else:
            merged.append((start, end))
    return merged


def _marked(text: str, spans: list[Span]) -> Iterator[str]:
    """Give the pieces of *text*, and between them what is missing."""
    last = 0
    for start, end in spans:
        if start > last:
            yield gap(text, last, start)
        yield text[start:end]
        last = end


def gap(text: str, start: int, end: int) -> str:
    """Return what stands in *text* for the piece from *start* to *end*: how much that was."""
    if (start == 0 or text[start - 1] == "\n") and (end == len(text) or text[end - 1] == "\n"):
        lines = text.count("\n", start, end) + (text[end - 1] != "\n")
        return f"[… {lines:,} {'line' if lines == 1 else 'lines'} left out …]\n"
    before = "" if start == 0 or text[start - 1] == "\n" else " "
    after = "\n" if text[end - 1] == "\n" else " "
    return f"{before}[… {end - start:,} characters left out …]{after}"
