"""The pages over all sessions: the list, the latest written first, and the figures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.routing import Route

from toolbus.history.figure_tables import handler_plots, question_plots
from toolbus.history.session_index import SessionFilter
from toolbus.ui.addresses import number_of
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from toolbus.ui.state import UiState

_PAGE = 50  # Sessions.


def routes(state: UiState) -> list[BaseRoute]:
    """Return the routes of the list and of the figures."""

    def show_list(request: Request) -> Response:
        wanted, now_ns = _read_filter(request), time.time_ns()
        number = max(1, number_of(request.query_params.get("page", "")))
        view, start = state.sessions.view, (number - 1) * _PAGE
        if wanted == SessionFilter():
            with state.reading() as reader:
                rows = reader.recent_sessions(_PAGE + 1, start)
            entries = [view.entry_of(row) for row in rows]
        else:
            entries = wanted.select(view, start + _PAGE + 1, now_ns)[start:]
        return page(
            request,
            "list.html",
            entries=entries[:_PAGE],
            now_ns=now_ns,
            wanted=wanted,
            is_filtered=wanted != SessionFilter(),
            view=view,
            newer=number - 1,
            older=number + 1 if len(entries) > _PAGE else 0,
            href_of=lambda number: f"/?{request.url.include_query_params(page=number).query}",
        )

    def show_figures(request: Request) -> Response:
        view = state.sessions.view
        plots = [*handler_plots(view.figures), *question_plots(view)]
        return page(request, "figures.html", view=view, plots=plots)

    return [Route("/", show_list), Route("/figures", show_figures)]


def _read_filter(request: Request) -> SessionFilter:
    query = request.query_params
    texts = {name: query.get(name, "").strip() for name in ("q", "agent", "state", "tool")}
    return SessionFilter(**texts, denied="denied" in query, asked="asked" in query)
