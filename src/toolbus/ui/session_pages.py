"""The pages of one session, of each message and call, and of two sessions side by side."""

from __future__ import annotations

from functools import partial
from time import time_ns
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.routing import Route

from toolbus.approvals.question_lookup import read_overview
from toolbus.history.entry_texts import MOST_CALLS, strip
from toolbus.history.lookup import find_match, find_session
from toolbus.history.message_history import history_of
from toolbus.history.session_differences import compare_sessions
from toolbus.history.session_figures import compare_figures
from toolbus.history.timeline import join_parts, read_parts, read_timeline
from toolbus.redaction.placeholders import evened
from toolbus.replay.stored_sources import labelled_sections
from toolbus.ui.addresses import number_of
from toolbus.ui.question_views import views_of
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse
    from starlette.routing import BaseRoute

    from toolbus.history.timeline import MessageEntry, Timeline
    from toolbus.store.sql_reader import IdKind, SqlReader
    from toolbus.store.store_reader import SessionRow
    from toolbus.ui.state import UiState

MOST_NODES = 1_800  # Of the turns on the first screen, whose frame has some more.
_MOST_MESSAGES, _MOST_FORMS, _FORM_NODES = 200, 3, 50
_MOST_STEPS, _MOST_COMPARED = 16, 20_000  # Differing steps on a page; messages of two sessions.


def routes(state: UiState) -> list[BaseRoute]:
    """Return the routes of sessions, messages, calls and comparisons."""

    def show_session(request: Request) -> HTMLResponse:
        name, after = request.path_params["session"], request.query_params.get("after", "")
        with state.reading() as reader:
            session = find_session(reader, name)
            waiting = views_of(state, request, read_overview(reader, time_ns(), session))
            forms = [view.shown for view in waiting[:_MOST_FORMS]]
            form_nodes = sum([_FORM_NODES + len(shown.blocks) for shown in forms])
            part = read_part(reader, session, number_of(after), MOST_NODES - form_nodes)
        return page(
            request,
            "session.html",
            session=session,
            parts=[part],
            waiting=waiting,
            asked={shown.question.call_id: shown.name for shown in forms},
        )

    def show_entry(request: Request, kind: IdKind) -> HTMLResponse:
        # The ids may contain "/" in its quoted form.
        path = [*request.scope["raw_path"].decode("ascii").split("/", 3), ""]
        session_name, name = map(unquote, (path[2], "".join(path[3:])))
        with state.reading() as reader:
            session = find_session(reader, session_name)
            match = find_match(reader, kind, name, session)
            history = history_of(reader, match)
            sections = labelled_sections(reader, match, history)
        return page(request, "entry.html", history=history, sections=sections)

    return [
        Route("/sessions/{session:path}", show_session),
        Route("/messages/{names:path}", lambda request: show_entry(request, "message")),
        Route("/calls/{names:path}", lambda request: show_entry(request, "call")),
        Route("/diff", partial(_show_comparison, state)),
    ]


def _show_comparison(state: UiState, request: Request) -> HTMLResponse:
    """Return the page of two sessions, or without both of them the form to choose them."""
    query = request.query_params.get
    before, after = query("left", ""), query("right", "")
    if not (before and after):
        return page(request, "diff.html", comparison=None, left=before, right=after)
    with state.reading() as reader:
        rows = find_session(reader, before), find_session(reader, after)
        if sum([row.messages for row in rows]) > _MOST_COMPARED:
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


def read_part(reader: SqlReader, session: SessionRow, after: int, most_nodes: int) -> Timeline:
    """Return the next messages, at least one, in about *most_nodes* nodes of HTML at most."""
    limit = _MOST_MESSAGES
    while True:
        timeline = read_timeline(reader, session, after, limit)
        nodes = sum([_nodes_of(entry) for turn in timeline.turns for entry in turn.messages])
        if limit == 1 or nodes <= most_nodes:
            return timeline
        limit = max(1, min(limit, timeline.end - after) * most_nodes // (nodes + 1))


def _nodes_of(entry: MessageEntry) -> int:
    """Return the most nodes that *entry* may have."""
    calls = [21 + len(strip(call.all_dispatches)) for call in entry.calls[:MOST_CALLS]]
    return 17 + len(strip(entry.dispatches)) + sum(calls)
