"""Bar plots with their numbers: widths are in percent, so that texts keep their size."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_BARS, _ROWS, _HEIGHT = 20, 50, 40
"""The most bars of a plot and rows of its table, and the pixels of a bar with its label."""


class PlotSegment(NamedTuple):
    """A part of a bar in the colour of *kind*; *start* and *width* are in percent."""

    kind: str
    start: float
    width: float
    value: str


class PlotBar(NamedTuple):
    """A bar, *top* pixels below the edge, with its label and value."""

    label: str
    value: str
    top: int
    segments: tuple[PlotSegment, ...]


class BarPlot(NamedTuple):
    """A plot of the first bars, and a table of more: a label and its numbers, as texts."""

    title: str
    note: str
    kinds: tuple[str, ...]
    bars: tuple[PlotBar, ...]
    height: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    further: int


def plot_bars(
    title: str,
    counts: Mapping[str, Mapping[str, int]],
    *,
    text_of: Callable[[int], str] = "{:,}".format,
    facts: Mapping[str, Mapping[str, str]] | None = None,
    note: str = "",
) -> BarPlot:
    """Return the plot of *counts*, by label and kind of segment, in their order.

    *facts* are further columns of the table.
    """
    totals = {label: sum(parts.values()) for label, parts in counts.items()}
    sums = Counter[str]()
    for parts in counts.values():
        sums.update(parts)
    kinds = tuple([kind for kind, _ in sums.most_common()])
    columns = ("total", *kinds) if len(kinds) > 1 else kinds
    extra = tuple(next(iter(facts.values()), ())) if facts else ()
    rows = []
    for label, parts in islice(counts.items(), _ROWS):
        numbers = {"total": totals[label], **parts}
        texts = [text_of(numbers.get(column, 0)) for column in columns]
        rows.append((label, *texts, *(facts[label].values() if facts else ())))
    scale, bars = 100 / max([1, *totals.values()]), list[PlotBar]()
    for label in islice(counts, _BARS):
        segments = tuple(_segments(counts[label], kinds, scale, text_of))
        bars.append(PlotBar(label, text_of(totals[label]), len(bars) * _HEIGHT, segments))
    further, height = len(counts) - len(rows), len(bars) * _HEIGHT
    return BarPlot(title, note, kinds, tuple(bars), height, columns + extra, tuple(rows), further)


def _segments(
    counts: Mapping[str, int], kinds: Sequence[str], scale: float, text_of: Callable[[int], str]
) -> Iterator[PlotSegment]:
    start = 0.0
    for kind in kinds:
        if count := counts.get(kind, 0):
            yield PlotSegment(kind, start, count * scale, text_of(count))
            start += count * scale
