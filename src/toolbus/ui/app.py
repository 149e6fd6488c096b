"""The ASGI application of the page: its routes, behind its locks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from toolbus.approvals.question_lookup import PendingCount
from toolbus.errors import ToolbusError
from toolbus.settings.usage_error import UsageError
from toolbus.ui import (
    diff_pages,
    figure_pages,
    list_pages,
    live_pages,
    question_views,
    replay_pages,
    session_pages,
)
from toolbus.ui.locks import WAY_IN, form_of
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from toolbus.ui.locks import UiLocks
    from toolbus.ui.state import UiState

logger = logging.getLogger("toolbus")

_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",  # A page has its own.
    "connection": "close",  # The server limits the time of a connection's first request alone.
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_FORM = "application/x-www-form-urlencoded"
_MOST_BYTES, _MOST_FIELDS = 2**16, 100
_ENTER = "/enter"
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
        *diff_pages.routes(state),
        *figure_pages.routes(state),
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
                scope["toolbus.form"] = await _read_form(request)
        except HTTPException as error:
            app = _show_error(request, error)
        try:
            await app(scope, receive, send_safely)
        except Exception:
            logger.exception("could not answer a request of the page")


def check_request(request: Request, locks: UiLocks) -> None:
    """Raise `HTTPException` unless *request* may read the page, or post to it."""
    hosts = request.headers.getlist("host")
    if hosts not in ([locks.host], [locks.numeric_host]):
        raise HTTPException(421, f"this address is not the page's; {WAY_IN}")
    if is_foreign(request, hosts[0]):
        raise HTTPException(403, f"another page sent this request; {WAY_IN}")
    if request.scope["path"] == _ENTER:
        return
    login = locks.find_login(request.cookies.get(locks.cookie_name, ""), hosts[0])
    if login is None:
        raise HTTPException(401, f"this browser is not logged in; {WAY_IN}")
    if request.method == "POST" and login.host == locks.numeric_host:
        raise HTTPException(403, locks.reason_not_to_answer(login))
    request.scope["toolbus.login"] = login


def is_foreign(request: Request, host: str) -> bool:
    """Return whether a page elsewhere than at *host* sent *request*, by the browser's headers.

    The origin of our own forms is "null", due to `Referrer-Policy: no-referrer`: see the Fetch
    standard, "append a request Origin header".
    """
    names = ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
    origin, site, mode, purpose = map(request.headers.get, names)
    is_ours = origin == f"http://{host}" or (origin == "null" and site == "same-origin")
    if request.method not in {"GET", "HEAD"}:
        return not is_ours or site not in {None, "same-origin"}
    if site in {None, "none", "same-origin"}:
        return origin is not None and not is_ours
    is_link = (mode, purpose) == ("navigate", "document")
    return not is_link or request.scope["path"] == "/events"


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of the posted form; raises `HTTPException`."""
    if request.headers.get("content-type", "").partition(";")[0] != _FORM:
        raise HTTPException(415, "expected a form")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BYTES:
                raise HTTPException(413, f"expected a form of at most {_MOST_BYTES:,} bytes")
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except (ClientDisconnect, ValueError):
        raise HTTPException(400, "the form cannot be read") from None
    if len(fields := dict(pairs)) < len(pairs):
        raise HTTPException(400, "a field of the form is repeated")
    return fields


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

    return [Route(_ENTER, show_entry), Route(_ENTER, enter, methods=["POST"])]


def _show_error(request: Request, error: Exception) -> Response:
    """Return a page with the reason of *error*, which for a fault is on the terminal."""
    status, reason = 500, "the page failed; the terminal of `toolbus ui` shows the error"
    if isinstance(error, HTTPException):
        status, reason = error.status_code, error.detail
    elif isinstance(error, (ToolbusError, UsageError)):
        status, reason = 404 if isinstance(error, UsageError) else 500, str(error)
    return page(request, "notice.html", status, reason=reason)
