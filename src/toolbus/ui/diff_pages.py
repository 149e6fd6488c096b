"""The page of two sessions side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Route

from toolbus.history.lookup import find_session
from toolbus.history.session_differences import compare_sessions
from toolbus.history.session_figures import compare_figures
from toolbus.history.timeline import join_parts, read_parts
from toolbus.redaction.placeholders import evened
from toolbus.ui.addresses import number_of
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse
    from starlette.routing import BaseRoute

    from toolbus.ui.state import UiState

_MOST_STEPS, _MOST_MESSAGES = 16, 20_000
"""The most steps that differ on one page, and the most messages of two sessions to compare."""


def routes(state: UiState) -> list[BaseRoute]:
    """Return the route of the page, which without two sessions is a form to choose them."""

    def show_comparison(request: Request) -> HTMLResponse:
        query = request.query_params.get
        before, after = query("left", ""), query("right", "")
        if not (before and after):
            return page(request, "diff.html", comparison=None, left=before, right=after)
        with state.reading() as reader:
            rows = find_session(reader, before), find_session(reader, after)
            if sum([row.messages for row in rows]) > _MOST_MESSAGES:
                raise HTTPException(413, "these sessions are too long here: see `toolbus diff`")
            first, second = (join_parts(read_parts(reader, row)) for row in rows)
        comparison = compare_sessions(first, second, evened)
        start = number_of(query("after", ""))
        pairs = comparison.pairs[start:]
        differing = [place for place, pair in enumerate(pairs) if pair.outcome != "same"]
        end = differing[_MOST_STEPS] if len(differing) > _MOST_STEPS else None
        return page(
            request,
            "diff.html",
            comparison=comparison,
            figures=compare_figures(comparison.first, comparison.second),
            pairs=pairs[:end],
            further=start + end if end else 0,
            left=before,
            right=after,
        )

    return [Route("/diff", show_comparison)]
