"""The page of two sessions side by side."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING
from urllib.parse import urlencode

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

    from toolbus.history.session_differences import SessionComparison
    from toolbus.store.sql_reader import SqlReader
    from toolbus.ui.state import UiState

_MOST_STEPS, _MOST_MESSAGES = 16, 20_000
"""The most steps that differ on one page, and the most messages of two sessions to compare."""


def routes(state: UiState) -> list[BaseRoute]:
    """Return the route of the page, which without two sessions is a form to choose them."""

    def show_comparison(request: Request) -> HTMLResponse:
        query = request.query_params.get
        first, second, after = query("left", ""), query("right", ""), query("after", "")
        if not (first and second):
            return page(request, "diff.html", comparison=None, left=first, right=second)
        with state.reading() as reader:
            comparison = _comparison(reader, first, second)
        start = number_of(after)
        pairs = comparison.pairs[start:]
        counts = list(accumulate([pair.outcome != "same" for pair in pairs]))
        end = next((place for place, count in enumerate(counts) if count > _MOST_STEPS), None)
        further = urlencode({"left": first, "right": second, "after": start + (end or 0)})
        return page(
            request,
            "diff.html",
            comparison=comparison,
            figures=compare_figures(comparison.first, comparison.second),
            pairs=pairs[:end],
            further=f"/diff?{further}" if end else "",
            left=first,
            right=second,
        )

    return [Route("/diff", show_comparison)]


def _comparison(reader: SqlReader, first: str, second: str) -> SessionComparison:
    """Return the comparison of two sessions; raises `HTTPException` if they are too long."""
    rows = find_session(reader, first), find_session(reader, second)
    if sum([row.messages for row in rows]) > _MOST_MESSAGES:
        raise HTTPException(413, "these sessions are too long for a page: see `toolbus diff`")
    before, after = (join_parts(read_parts(reader, row)) for row in rows)
    return compare_sessions(before, after, evened)
