"""Requests to the page: the checks that each one must pass, and their logins and forms."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from toolbus.ui.locks import WAY_IN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.ui.locks import PageLogin, UiLocks

ENTRY = "/enter"
_FORM = "application/x-www-form-urlencoded"
_MOST_BYTES, _MOST_FIELDS = 2**16, 100


def check_request(request: Request, locks: UiLocks) -> None:
    """Raise `HTTPException` unless *request* may read the page, or post to it."""
    hosts = request.headers.getlist("host")
    if hosts not in ([locks.host], [locks.numeric_host]):
        raise HTTPException(421, f"this address is not the page's; {WAY_IN}")
    if is_foreign(request, hosts[0]):
        raise HTTPException(403, f"another page sent this request; {WAY_IN}")
    if request.scope["path"] == ENTRY:
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


async def read_form(request: Request) -> dict[str, str]:
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


def login_of(request: Request) -> PageLogin:
    """Return the login that the locks accepted for *request*."""
    login: PageLogin = request.scope["toolbus.login"]
    return login


def form_of(request: Request) -> Mapping[str, str]:
    """Return the fields of the form that *request* posts; the locks have read it."""
    fields: Mapping[str, str] = request.scope["toolbus.form"]
    return fields
