"""Bar plots with their numbers: widths are in percent, so that texts keep their size."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    """A plot of the highest bars, and a table of more: a label and its numbers, as texts."""

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
    is_sorted: bool = False,
) -> BarPlot:
    """Return the plot of *counts*, by label and kind of segment, the highest bar first.

    Sorted bars keep their order; of others, bars of height 0 are left out. *facts* are further
    columns of the table.
    """
    totals = {label: sum(parts.values()) for label, parts in counts.items()}
    labels = list(totals) if is_sorted else sorted(totals, key=lambda label: -totals[label])
    sums = Counter[str]()
    for parts in counts.values():
        sums.update(parts)
    kinds = tuple([kind for kind, _ in sums.most_common()])
    columns = ("total", *kinds) if len(kinds) > 1 else kinds
    rows, scale = [], 100 / max([1, *totals.values()])
    bars: list[PlotBar] = []
    for label in labels[:_ROWS]:
        numbers = {"total": totals[label], **counts[label]}
        texts = [text_of(numbers.get(column, 0)) for column in columns]
        rows.append((label, *texts, *(facts[label].values() if facts else ())))
    for label in [label for label in labels if totals[label] or is_sorted][:_BARS]:
        start, segments = 0.0, []
        for kind in kinds:
            if count := counts[label].get(kind, 0):
                segments.append(PlotSegment(kind, start, count * scale, text_of(count)))
                start += count * scale
        value, top = text_of(totals[label]), len(bars) * _HEIGHT
        bars.append(PlotBar(label, value, top, tuple(segments)))
    columns += tuple(facts[labels[0]]) if facts and labels else ()
    further, height = len(labels) - len(rows), len(bars) * _HEIGHT
    return BarPlot(title, note, kinds, tuple(bars), height, columns, tuple(rows), further)
