"""Responses with a page of HTML."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse

from toolbus.ui.rendering import find_template

if TYPE_CHECKING:
    from starlette.requests import Request


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the page of *template*, with a fresh nonce for its own style and script."""
    nonce = secrets.token_urlsafe(16)
    # Outside of the application, in front of its locks, there is no store to read.
    app = request.scope.get("app")
    shared = {"count_pending": app.state.count_pending} if app else {}
    html = find_template(template).render(
        nonce=nonce,
        path=request.url.path,
        live=True,
        **shared | values,
    )
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(html, status, headers={"content-security-policy": policy})
