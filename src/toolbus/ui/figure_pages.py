"""The figures over all sessions, as plots with their numbers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from starlette.routing import Route

from toolbus.history.durations import duration_of, rough_duration
from toolbus.history.figures import Durations
from toolbus.ui.plots import plot_bars
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from toolbus.history.figures import Figures
    from toolbus.history.session_index import IndexView
    from toolbus.ui.plots import BarPlot
    from toolbus.ui.state import UiState

_WAITS = {"10 s": 10, "1 min": 60, "10 min": 600, "1 h": 3_600, "1 d": 86_400}


def routes(state: UiState) -> list[BaseRoute]:
    """Return the route of the figures."""

    def show_figures(request: Request) -> Response:
        view = state.sessions.view
        plots = (*_plot_handlers(view.figures), *_plot_questions(view))
        return page(request, "figures.html", view=view, plots=plots)

    return [Route("/figures", show_figures)]


def _plot_handlers(figures: Figures) -> tuple[BarPlot, ...]:
    """Return the plots of calls, of the handlers' costs and effects, and of hidden values."""
    times, facts = {}, {}
    for name, handler in figures.handlers.items():
        spans = handler.durations
        times[name] = {"time": spans.total_ns}
        quantiles = {"median": spans.quantile(0.5), "95 %": spans.quantile(0.95)}
        facts[name] = {"runs": f"{spans.count:,}"}
        facts[name] |= {share: duration_of(span) for share, span in quantiles.items()}
    effects = {name: handler.effects for name, handler in figures.handlers.items()}
    messages = {kind: {"messages": f"{n:,}"} for kind, n in figures.messages.items()}
    values = {kind: {"values": figures.values[kind]} for kind in messages}
    note = "Counted are placeholders in stored messages, and texts that look like them."
    return (
        plot_bars("Calls by tool and status", _by_height(figures.calls)),
        plot_bars(
            "Time of handlers",
            _by_height(times),
            text_of=duration_of,
            facts=facts,
            note="The median and 95 % are within 4 %.",
        ),
        plot_bars("Effects of handlers", _by_height(effects)),
        plot_bars("Hidden values by kind", _by_height(values), facts=messages, note=note),
    )


def _plot_questions(view: IndexView) -> tuple[BarPlot, BarPlot]:
    """Return the plots of the questions by state, and of the time until their answers."""
    states, waited = Counter[str](), Durations()
    for questions in [entry.questions for entry in view.entries.values()]:
        if questions.states:
            states.update(questions.states)
            waited.merge(questions.waited)
    waits, below = {}, 0
    for text, seconds in _WAITS.items():
        count = waited.count_below(seconds * 10**9)
        waits[f"less than {text}"], below = {"answers": count - below}, count
    waits["longer"] = {"answers": waited.count - below}
    median, late = (rough_duration(waited.quantile(share)) for share in (0.5, 0.95))
    note = f"Median {median}, 95 % {late}; answers by a grant are left out."
    return (
        plot_bars(
            "Questions by state", {state: {"questions": n} for state, n in states.most_common()}
        ),
        plot_bars("Time until an answer", waits if waited.count else {}, note=note),
    )


def _by_height(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """Return *counts* with the highest bar first, without bars of no height."""
    ordered = sorted(counts.items(), key=lambda item: -sum(item[1].values()))
    return {label: parts for label, parts in ordered if any(parts.values())}
