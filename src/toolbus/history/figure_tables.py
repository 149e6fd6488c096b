"""The figures over all sessions as tables, with the lengths of a bar for each row."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from toolbus.history.durations import duration_of, rough_duration
from toolbus.history.figures import Durations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.history.figures import Figures
    from toolbus.history.session_index import IndexView

_WAITS = {"1 d": 86_400, "1 h": 3_600, "10 min": 600, "1 min": 60, "10 s": 10}


class PlotRow(NamedTuple):
    """A row of a plot: the *parts* of its bar by kind, and its numbers by column."""

    label: str
    parts: Mapping[str, int]
    cells: dict[str, str]


class Plot(NamedTuple):
    """The *rows* of a plot, the longest bar first, and a *note* on its numbers."""

    title: str
    rows: list[PlotRow]
    note: str = ""


def count_rows(counts: Mapping[str, Mapping[str, int]]) -> list[PlotRow]:
    """Return a row of *counts* by kind for each label with a count, the longest first."""
    sums = Counter[str]()
    for parts in counts.values():
        sums.update(parts)
    rows = []
    for label, parts in sorted(counts.items(), key=lambda item: -sum(item[1].values())):
        numbers = {kind: parts.get(kind, 0) for kind, _ in sums.most_common()}
        columns = {"total": sum(parts.values()), **numbers} if len(numbers) > 1 else numbers
        if any(numbers.values()):
            cells = {column: f"{number:,}" for column, number in columns.items()}
            rows.append(PlotRow(label, numbers, cells))
    return rows


def handler_plots(figures: Figures) -> Iterator[Plot]:
    """Yield the plots of calls, of the handlers' costs and effects, and of hidden values."""
    yield Plot("Calls by tool and status", count_rows(figures.calls))
    spans = {name: handler.durations for name, handler in figures.handlers.items()}
    times = count_rows({name: {"time": each.total_ns} for name, each in spans.items()})
    for row in times:
        span = spans[row.label]
        shown = {"time": span.total_ns, "median": span.quantile(0.5), "95 %": span.quantile(0.95)}
        row.cells.update({column: duration_of(time_ns) for column, time_ns in shown.items()})
        row.cells["runs"] = f"{span.count:,}"
    yield Plot("Time of handlers", times, "Median and 95 % are estimates, at most 4 % off.")
    effects = {name: handler.effects for name, handler in figures.handlers.items()}
    yield Plot("Effects of handlers", count_rows(effects))
    hidden = count_rows({kind: {"values": count} for kind, count in figures.values.items()})
    for row in hidden:
        row.cells["messages"] = f"{figures.messages[row.label]:,}"
    note = "Counted are placeholders in stored messages, and texts that look like them."
    yield Plot("Hidden values by kind", hidden, note)


def question_plots(view: IndexView) -> Iterator[Plot]:
    """Yield the plots of the questions by state, and of the time until their answers."""
    states, waited = Counter[str](), Durations()
    for questions in [entry.questions for entry in view.entries.values()]:
        if questions.states:
            states.update(questions.states)
            waited.merge(questions.waited)
    counts = {state: {"questions": count} for state, count in states.items()}
    yield Plot("Questions by state", count_rows(counts))
    waits = {"in all": {"answers": waited.count}}
    for span, seconds in _WAITS.items():
        waits[f"less than {span}"] = {"answers": waited.count_below(10**9 * seconds)}
    median, late = (rough_duration(waited.quantile(share)) for share in (0.5, 0.95))
    note = f"Median {median}, 95 % {late}; answers by a grant are left out."
    yield Plot("Time until an answer", count_rows(waits), note)
