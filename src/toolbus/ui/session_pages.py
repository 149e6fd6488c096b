"""The pages of one session: its timeline, and the history of each message and call."""

from __future__ import annotations

from itertools import groupby
from time import time_ns
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.routing import Route

from toolbus.approvals.question_lookup import read_overview
from toolbus.history.entry_texts import MOST_CALLS, strip
from toolbus.history.lookup import find_match, find_session
from toolbus.history.message_history import history_of
from toolbus.history.timeline import MessageEntry, Timeline, read_timeline
from toolbus.ui.question_views import views_of
from toolbus.ui.responses import fragment, page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse
    from starlette.routing import BaseRoute

    from toolbus.store.sql_reader import IdKind
    from toolbus.ui.state import UiState

MOST_NODES = 1_800
"""The most nodes of the turns on the first screen; the frame of the page has some more."""

_MOST_MESSAGES, _MOST_DIGITS = 200, 15
_MOST_FORMS, _FORM_NODES = 3, 50


def routes(state: UiState) -> list[BaseRoute]:
    """Return the routes of the pages about one session."""

    def show_session(request: Request) -> HTMLResponse:
        (name,) = _names(request, 1)
        after = _number(request.query_params.get("after", "0"))
        with state.reading() as reader:
            session = find_session(reader, name)
            timeline = read_timeline(reader, session, after, _MOST_MESSAGES)
            if request.query_params.get("part"):
                return fragment("part.html", parts=[shorten(timeline)])
            waiting = views_of(state, request, read_overview(reader, time_ns(), session))
        forms = [view.shown for view in waiting[:_MOST_FORMS]]
        nodes = sum([_FORM_NODES + len(shown.blocks) for shown in forms])
        latest = max(0, session.messages - _MOST_MESSAGES // 4)
        return page(
            request,
            "session.html",
            session=session,
            parts=[shorten(timeline, MOST_NODES - nodes)],
            waiting=waiting,
            asked={shown.question.call_id: shown.name for shown in forms},
            latest=latest,
        )

    def show_entry(request: Request, kind: IdKind) -> HTMLResponse:
        session_name, name = _names(request, 2)
        with state.reading() as reader:
            session = find_session(reader, session_name)
            history = history_of(reader, find_match(reader, kind, name, session))
        title = f"Call {name}" if kind == "call" else f"{history.role or 'refused'} message {name}"
        return page(request, "entry.html", history=history, title=title.capitalize())

    return [
        Route("/sessions/{names:path}", show_session),
        Route("/messages/{names:path}", lambda request: show_entry(request, "message")),
        Route("/calls/{names:path}", lambda request: show_entry(request, "call")),
    ]


def shorten(timeline: Timeline, most_nodes: int = MOST_NODES) -> Timeline:
    """Return the beginning of *timeline* that has at most about *most_nodes* nodes as HTML.

    It ends between two messages: records before a message stay with it.
    """
    entries = [(turn, entry) for turn in timeline.turns for entry in turn.messages]
    nodes, cut, seq = 0, 0, timeline.after + 1
    for place, (_, entry) in enumerate(entries):
        nodes += _nodes_of(entry)
        if entry.seq > seq:
            cut, seq = place, entry.seq
        if cut and nodes > most_nodes:
            break
    else:
        return timeline
    groups = groupby(entries[:cut], lambda pair: id(pair[0]))
    pairs = [list(group) for _, group in groups]
    turns = [replace(each[0][0], messages=tuple([entry for _, entry in each])) for each in pairs]
    return replace(timeline, turns=tuple(turns), end=seq - 1, has_more=True)


def _nodes_of(entry: MessageEntry) -> int:
    """Return the most nodes that *entry* may have."""
    calls = [
        19 + len(strip(call.dispatches + (call.answer.dispatches if call.answer else ())))
        for call in entry.calls[:MOST_CALLS]
    ]
    return 16 + len(strip(entry.dispatches)) + sum(calls)


def _names(request: Request, count: int) -> list[str]:
    """Return *count* ids from the path: they may contain "/" in its quoted form."""
    quoted = request.scope["raw_path"].decode("ascii").split("/", count + 1)[2:]
    if len(quoted) < count or not all(quoted):
        raise HTTPException(404, "the address has no id")
    return [unquote(name) for name in quoted]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0
