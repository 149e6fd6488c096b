"""Server-sent events: the news of a session, of the list of sessions, or of the questions.

The news of a session are the turns that are new or differ. Any other change of the store is one
word, on which a page reads its list or its questions again.
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from toolbus.history.session_news import SessionNews
from toolbus.history.store_follower import StoreFollower
from toolbus.ui.addresses import number_of
from toolbus.ui.rendering import find_template

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

    from toolbus.store.sql_reader import SqlReader
    from toolbus.ui.state import UiState

    News: TypeAlias = Callable[[SqlReader], list[str]]
    """A function that returns the events since its previous call."""

MAX_STREAMS = 32
_PAUSE, _RETRY, _HEARTBEAT = 0.2, 1.0, 10.0
"""The seconds between two reads, after a failed one, and until a silent stream sends a comment."""

_MEDIA_TYPE = "text/event-stream"


def routes(state: UiState) -> list[BaseRoute]:
    """Return the route of the streams."""
    streams: set[NewsStream] = set()

    async def follow(request: Request) -> Response:
        if len(streams) >= MAX_STREAMS:
            return _refuse(f"{MAX_STREAMS} pages follow already; close one of them")
        query = request.query_params
        news: News = _tell_change
        if session_id := query.get("session"):
            resumed = request.headers.get("last-event-id", query.get("after", ""))
            session = SessionNews(session_id, number_of(query.get("from", "")), number_of(resumed))
            news = partial(_tell_turns, session)
        return NewsStream(state.address, news, streams)

    return [Route("/events", follow)]


def encode_event(name: str, data: object, number: int | None = None) -> str:
    """Return an event; its *data* is JSON on one line, so that no text in it ends the event."""
    place = "" if number is None else f"id: {number}\n"
    return f"event: {name}\n{place}data: {json.dumps(data)}\n\n"


def _refuse(reason: str) -> Response:
    # With the status of an error, the page would not see the reason, nor would it try again.
    events = f"retry: 20000\n\n{encode_event('lost', reason)}"
    return Response(events, media_type=_MEDIA_TYPE)


def _tell_turns(news: SessionNews, reader: SqlReader) -> list[str]:
    events, template = [], find_template("turns.html")
    for timeline, skipped in news.read_on(reader):
        html = template.render(timeline=timeline, skipped=skipped, live=True)
        events.append(encode_event("turns", html, timeline.end))
    return events or _tell_change(reader)


def _tell_change(reader: SqlReader) -> list[str]:
    del reader
    return [encode_event("changed", None)]


class NewsStream(StreamingResponse):
    """The *news* of the store at *address* as a response, which is in *streams* until its end.

    It ends at once when its reader leaves or the server cancels it. A store that cannot be read is
    told once and tried again; so is a session that does not exist yet.
    """

    def __init__(self, address: str, news: News, streams: set[NewsStream]) -> None:
        super().__init__(self._events(), media_type=_MEDIA_TYPE)
        self._store, self._news, self._streams = StoreFollower(address), news, streams
        # Not shared: a database that does not answer holds up its own stream only.
        self._thread = ThreadPoolExecutor(1, "toolbus-events")
        streams.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the end."""
        del scope
        work = asyncio.ensure_future(self.stream_response(send))
        leave = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({work, leave}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(self)
            work.cancel()
            leave.cancel()
            # The thread ends a read that goes on before it closes the reader.
            self._thread.submit(self._store.close)
            self._thread.shutdown(wait=False)
        # The connection may break off while an event is sent.
        with suppress(asyncio.CancelledError, OSError):
            await work

    async def _events(self) -> AsyncIterator[str]:
        loop, silence = asyncio.get_running_loop(), 0.0
        yield f"retry: {_RETRY * 1000:.0f}\n\n"
        while True:
            events = await loop.run_in_executor(self._thread, self._read)
            pause = _RETRY if self._store.problem else _PAUSE
            silence += pause
            if events or silence > _HEARTBEAT:
                silence = 0.0
                yield "".join(events) or ": still here\n\n"
            await asyncio.sleep(pause)

    def _read(self) -> list[str]:
        """Return the events since the previous call."""
        before = self._store.problem
        events = self._store.read_change(self._news) or []
        problem = self._store.problem
        if before and not problem:
            return [encode_event("back", None), *events]
        return events if problem == before else [encode_event("lost", problem)]
