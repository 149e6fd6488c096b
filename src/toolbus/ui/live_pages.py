"""Server-sent events: the news of a session, of the list of sessions, or of the questions.

The news of a session are the turns that are new or differ. Any other change of the store is one
word, on which a page reads its list or its questions again.
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse
from starlette.routing import Route

from toolbus.history.session_news import SessionNews
from toolbus.history.store_follower import StoreFollower
from toolbus.ui.addresses import number_of
from toolbus.ui.rendering import find_template

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from toolbus.store.sql_reader import SqlReader
    from toolbus.ui.state import UiState

MAX_STREAMS = 32
_PAUSE, _RETRY, _HEARTBEAT = 0.2, 1.0, 10.0
"""The seconds between two reads, after a failed one, and until a silent stream sends a comment."""


def routes(state: UiState) -> list[BaseRoute]:
    """Return the route of the streams."""
    # Not shared: a database that does not answer holds up its own stream only.
    threads: set[ThreadPoolExecutor] = set()

    async def follow(request: Request) -> StreamingResponse:
        events = _refuse() if len(threads) >= MAX_STREAMS else _follow(request, state, threads)
        return StreamingResponse(events, media_type="text/event-stream")

    return [Route("/events", follow)]


async def _refuse() -> AsyncIterator[str]:
    # With the status of an error, the page would not see the reason, nor would it try again.
    reason = f"{MAX_STREAMS} pages follow already; close one of them"
    yield f"retry: 20000\n\n{_event('lost', reason)}"


async def _follow(
    request: Request, state: UiState, threads: set[ThreadPoolExecutor]
) -> AsyncIterator[str]:
    """Yield the news until the browser leaves or the server cancels *request*.

    A store that cannot be read is told once and tried again; so is a session that does not exist
    yet.
    """
    store, read = StoreFollower(state.address), partial(_read_events, _session_news(request))
    loop, silence, problem = asyncio.get_running_loop(), 0.0, ""
    thread = ThreadPoolExecutor(1, "toolbus-events")
    threads.add(thread)
    try:
        yield f"retry: {_RETRY * 1000:.0f}\n\n"
        while not await request.is_disconnected():
            events = await loop.run_in_executor(thread, store.read_change, read)
            if store.problem not in ("", problem):
                events = _event("lost", store.problem)
            problem = store.problem
            pause = _RETRY if problem else _PAUSE
            silence += pause
            if events or silence > _HEARTBEAT:
                silence = 0.0
                yield events or ": still here\n\n"
            await asyncio.sleep(pause)
    finally:
        threads.discard(thread)
        # The thread ends a read that goes on before it closes the reader.
        thread.submit(store.close)
        thread.shutdown(wait=False)


def _session_news(request: Request) -> SessionNews | None:
    query = request.query_params
    if not query.get("session"):
        return None
    resumed = request.headers.get("last-event-id", query.get("after", ""))
    return SessionNews(query["session"], number_of(query.get("from", "")), number_of(resumed))


def _read_events(news: SessionNews | None, reader: SqlReader) -> str:
    """Return the events of a store that has changed."""
    events, template = [], find_template("turns.html")
    for timeline, skipped in news.read_on(reader) if news else ():
        html = template.render(timeline=timeline, skipped=skipped, live=True)
        events.append(_event("turns", html, f"id: {timeline.end}\n"))
    return "".join(events) or _event("changed", None)


def _event(name: str, data: object, number: str = "") -> str:
    """Return an event; its *data* is JSON on one line, so that no text in it ends the event."""
    return f"event: {name}\n{number}data: {json.dumps(data)}\n\n"
