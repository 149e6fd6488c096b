"""The ASGI application of the page: its routes, behind its locks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from toolbus.approvals.question_lookup import PendingCount
from toolbus.errors import ToolbusError
from toolbus.settings.usage_error import UsageError
from toolbus.ui import list_pages, live_pages, question_views, replay_pages, session_pages
from toolbus.ui.requests import ENTRY, check_request, form_of, read_form
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from toolbus.ui.locks import UiLocks
    from toolbus.ui.state import UiState

_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",  # A page has its own.
    "connection": "close",  # The server limits the time of a connection's first request alone.
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_ERRORS = (HTTPException, ToolbusError, UsageError, Exception)


def make_app(state: UiState) -> LockedApp:
    """Return the application for *state*."""
    routes = [
        *_entry_routes(state.locks),
        *list_pages.routes(state),
        *session_pages.routes(state),
        *live_pages.routes(state),
        *question_views.routes(state),
        *replay_pages.routes(state),
    ]
    handlers: Any = dict.fromkeys(_ERRORS, _show_error)
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.count_pending = PendingCount(state.reading)
    return LockedApp(app, state.locks)


class LockedApp:
    """The application *app* behind *locks*, which every request must pass."""

    def __init__(self, app: ASGIApp, locks: UiLocks) -> None:
        self._app, self._locks = app, locks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request, app = Request(scope, receive), self._app
        try:
            check_request(request, self._locks)
            if request.method == "POST":
                scope["toolbus.form"] = await read_form(request)
        except HTTPException as error:
            app = _show_error(request, error)
        try:
            await app(scope, receive, send_safely)
        except Exception:
            logging.getLogger("toolbus").exception("could not answer a request of the page")


def _entry_routes(locks: UiLocks) -> list[BaseRoute]:
    """Return the login; only a POST uses the link up, since previews and crawlers send GET."""

    def show_entry(request: Request) -> Response:
        code = request.query_params.get("code", "")
        reason = "This link logs in one browser, once."
        return page(request, "notice.html", reason=reason, code=code)

    def enter(request: Request) -> Response:
        login = locks.enter(form_of(request).get("code", ""), request.headers["host"])
        if isinstance(login, str):
            raise HTTPException(403, login)
        response = RedirectResponse("/", 303)
        response.set_cookie(locks.cookie_name, login.cookie, httponly=True, samesite="strict")
        return response

    return [Route(ENTRY, show_entry), Route(ENTRY, enter, methods=["POST"])]


def _show_error(request: Request, error: Exception) -> Response:
    """Return a page with the reason of *error*, which for a fault is on the terminal."""
    status, reason = 500, "the page failed; the terminal of `toolbus ui` shows the error"
    if isinstance(error, HTTPException):
        status, reason = error.status_code, error.detail
    elif isinstance(error, (ToolbusError, UsageError)):
        status, reason = 404 if isinstance(error, UsageError) else 500, str(error)
    return page(request, "notice.html", status, reason=reason)
