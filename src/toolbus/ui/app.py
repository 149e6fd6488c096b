"""The ASGI application of the page: its routes, behind its locks."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from toolbus.errors import ToolbusError
from toolbus.ui import session_pages
from toolbus.ui.locks import form_of
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
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_POLICY = "default-src 'none'; frame-ancestors 'none'"
_FORM = "application/x-www-form-urlencoded"
_MOST_BYTES, _MOST_FIELDS, _BODY_SECONDS = 2**16, 100, 10.0
_ENTER, _EVENTS = "/enter", "/events"
_NO_LOGIN = "open the link on the terminal of `toolbus ui`, or press Enter there for a new link"


class RequestRefusal(NamedTuple):
    """A request is refused with *status* and *reason*."""

    status: int
    reason: str


def make_app(state: UiState) -> LockedApp:
    """Return the application for *state*."""
    routes: list[BaseRoute] = [*_entry_routes(state.locks), *session_pages.routes(state)]
    handlers: Any = {HTTPException: _show_http_error, ToolbusError: _show_error}
    app = Starlette(routes=routes, exception_handlers={**handlers, Exception: _show_failure})
    app.router.redirect_slashes = False
    return LockedApp(app, state.locks)


class LockedApp:
    """The application *app* behind *locks*, which every request must pass."""

    def __init__(self, app: ASGIApp, locks: UiLocks) -> None:
        self._app, self._locks = app, locks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return  # No other protocol is served.

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                headers.update(_HEADERS)
                headers.setdefault("content-security-policy", _POLICY)
            await send(message)

        request = Request(scope, receive)
        refusal = find_refusal(request, self._locks) or await _read_form(request)
        if refusal is not None:
            await notice(request, *refusal)(scope, receive, send_safely)
            return
        try:
            await self._app(scope, receive, send_safely)
        except Exception:
            logger.exception("could not answer a request of the page")


def find_refusal(request: Request, locks: UiLocks) -> RequestRefusal | None:
    """Return the reason against *request*, which comes from anywhere; None lets it pass."""
    headers, path = request.headers, request.url.path
    hosts = headers.getlist("host")
    if hosts not in ([locks.host], [locks.numeric_host]):
        return RequestRefusal(421, f"this address is not the page's; {_NO_LOGIN}")
    target = request.scope["raw_path"]
    if not target.startswith(b"/") or target.startswith(b"//"):
        return RequestRefusal(400, "expected a path")
    if request.method not in {"GET", "HEAD", "POST"}:
        return RequestRefusal(405, "expected GET or POST")
    if is_foreign(request, hosts[0]):
        return RequestRefusal(
            403, "the request comes from another page; open this page by its link"
        )
    if path == _ENTER:
        return None
    login = locks.find_login(request.cookies.get(locks.cookie_name, ""), hosts[0])
    if login is None:
        return RequestRefusal(401, f"this browser is not logged in; {_NO_LOGIN}")
    if request.method == "POST" and login.host == locks.numeric_host:
        return RequestRefusal(403, locks.reason_not_to_answer(login))
    request.scope["toolbus.login"] = login
    return None


def is_foreign(request: Request, host: str) -> bool:
    """Return whether another page than that of *host* causes *request*.

    A browser tells by `Origin` and `Sec-Fetch-Site`. The origin of our own forms is "null", due to
    `Referrer-Policy: no-referrer` (Fetch, "append a request Origin header").
    """
    headers = request.headers
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    is_own_origin = origin == f"http://{host}" or (origin == "null" and site == "same-origin")
    if request.method == "POST":
        return not (is_own_origin and site in {None, "same-origin"})
    if origin is not None and not is_own_origin:
        return True
    if site in {None, "none", "same-origin"}:
        return False
    is_link = headers.get("sec-fetch-mode") == "navigate"
    is_link = is_link and headers.get("sec-fetch-dest") == "document"
    return not is_link or request.url.path == _EVENTS


async def _read_form(request: Request) -> RequestRefusal | None:
    """Read the fields of a posted form into the scope, or return the reason against it."""
    if request.method != "POST":
        return None
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return RequestRefusal(415, "expected a form")
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MOST_BYTES:
                    return RequestRefusal(413, f"expected a form of at most {_MOST_BYTES:,} bytes")
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except TimeoutError:
        return RequestRefusal(408, f"the form took more than {_BODY_SECONDS:g} s")
    except (ClientDisconnect, ValueError):
        return RequestRefusal(400, "the form cannot be read")
    fields = dict(pairs)
    if len(fields) < len(pairs):
        return RequestRefusal(400, "a field of the form is repeated")
    request.scope["toolbus.form"] = fields
    return None


def notice(request: Request, status: int, reason: str, *, code: str = "") -> Response:
    """Return a page with *reason* for the person, and with *code* the button that logs in."""
    return page(request, "notice.html", status, reason=reason, code=code)


def _entry_routes(locks: UiLocks) -> list[Route]:
    """Return the login; only a POST uses the link up, since previews and crawlers send GET."""

    def show_entry(request: Request) -> Response:
        code = request.query_params.get("code", "")
        reason = "This link logs in one browser, once." if code else f"the link is cut; {_NO_LOGIN}"
        return notice(request, 200, reason, code=code)

    def enter(request: Request) -> Response:
        login = locks.enter(form_of(request).get("code", ""), request.headers["host"])
        if isinstance(login, str):
            return notice(request, 403, login)
        response = RedirectResponse("/", 303)
        response.set_cookie(locks.cookie_name, login.cookie, httponly=True, samesite="strict")
        return response

    return [Route(_ENTER, show_entry), Route(_ENTER, enter, methods=["POST"])]


def _show_http_error(request: Request, error: HTTPException) -> Response:
    return notice(request, error.status_code, error.detail)


def _show_error(request: Request, error: ToolbusError) -> Response:
    return notice(request, 500, str(error))


def _show_failure(request: Request, error: Exception) -> Response:
    del error  # Its text may contain anything; the log has it.
    return notice(request, 500, "the page failed; the terminal of `toolbus ui` shows the error")
