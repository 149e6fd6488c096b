"""Checks of MCP requests over HTTP: methods, media types and headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import UNSET

from toolbus.mcp.http.failures import JSON, HttpError
from toolbus.mcp.protocol.jsonrpc import INVALID_REQUEST, read_batch, read_frame
from toolbus.mcp.protocol.repeated_headers import HEADER_MISMATCH, contradiction

if TYPE_CHECKING:
    from toolbus.http.server import HttpRequest
    from toolbus.mcp.protocol.jsonrpc import Frame

STREAM = "text/event-stream"
STREAM_FIELDS = (
    ("content-type", STREAM),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\"';,\s]*)", re.IGNORECASE)
_METHODS = ("GET", "POST", "DELETE")


def is_preflight(request: HttpRequest) -> bool:
    """Return whether *request* is a CORS preflight of a browser."""
    named = {"origin", "access-control-request-method"}
    return request.method == "OPTIONS" and named <= request.headers.keys()


def prefers_stream(request: HttpRequest) -> bool:
    """Return whether the client accepts an event stream, and lists it before JSON."""
    kinds = [kind for kind in request.accepted_types() if kind in {JSON, STREAM}]
    return kinds[:1] == [STREAM]


def check_post(request: HttpRequest) -> None:
    """Raise `HttpError` unless the media types fit an MCP request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise HttpError(415, f"expected {JSON} as the Content-Type")
    if not (request.accepts(JSON) or request.accepts(STREAM)):
        raise HttpError(406, f"expected {JSON} or {STREAM} in the Accept header")


def check_method(request: HttpRequest) -> None:
    """Raise `HttpError` for a method that Streamable HTTP does not have, or a needless body."""
    if request.method not in _METHODS and not is_preflight(request):
        allowed = [("allow", ", ".join(_METHODS))]
        raise HttpError(405, "expected GET, POST or DELETE", allowed)
    if request.body and request.method != "POST":
        raise HttpError(400, "only a POST may have a body")


def check_judged(request: HttpRequest, frame: Frame | None) -> None:
    """Raise `HttpError` if the server might read a request that differs from the handlers'."""
    request_id = None if frame is None or frame.id is UNSET else frame.id
    coding = request.headers.get("content-encoding", "identity")
    charsets = {name.lower() for name in _CHARSET.findall(request.headers.get("content-type", ""))}
    if coding.strip().lower() != "identity":
        reason = "expected an uncompressed body, which handlers can read"
        raise HttpError(415, reason, request_id=request_id, code=INVALID_REQUEST)
    if charsets - {"utf-8", "utf8"}:
        raise HttpError(415, "expected UTF-8", request_id=request_id, code=INVALID_REQUEST)
    if (problem := contradiction(frame, request.headers)) is not None:
        raise HttpError(400, problem, request_id=request_id, code=HEADER_MISMATCH)


def requests_in(frame: Frame | None, body: bytes) -> list[Frame]:
    """Return the JSON-RPC requests in *body*, the frame *frame* or a batch."""
    frames = [read_frame(part) for part in read_batch(body) or ()] if frame is None else [frame]
    return [part for part in frames if part is not None and part.is_request]
