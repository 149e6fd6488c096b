"""What of a client's request is refused, because two readers could take it for two things."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import UNSET

from toolbus.mcp.http.failures import HttpError
from toolbus.mcp.protocol.jsonrpc import INVALID_REQUEST
from toolbus.mcp.protocol.revisions import HEADER_MISMATCH, contradiction

if TYPE_CHECKING:
    from toolbus.mcp.http.http_request import HttpRequest
    from toolbus.mcp.protocol.jsonrpc import Frame

_SINGLE = frozenset(
    {"authorization", "content-encoding", "content-length", "content-type", "host"}
    | {"last-event-id", "origin", "transfer-encoding"}
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\"';,\s]*)", re.IGNORECASE)
_METHODS = ("GET", "POST", "DELETE")


def check_headers(request: HttpRequest) -> None:
    """Raise `HttpError` if a header that counts is said twice, or the length in two ways.

    See RFC 9112, 6.3, and 3.2 for `Host`.
    """
    for name, count in Counter([name for name, _ in request.fields]).items():
        if count > 1 and (name in _SINGLE or name.startswith("mcp-")):
            raise HttpError(400, f"the header {name} is there {count} times")
    if {"content-length", "transfer-encoding"} <= request.headers.keys():
        raise HttpError(400, "a body has either a length or chunks")


def check_method(request: HttpRequest) -> None:
    """Raise `HttpError` for what streamable HTTP has no use for."""
    if request.method not in _METHODS and not request.is_preflight:
        allowed = [("allow", ", ".join(_METHODS))]
        raise HttpError(405, "this is for GET, POST and DELETE", allowed)
    if request.body and request.method != "POST":
        raise HttpError(400, "only a POST has a body")


def check_judged(request: HttpRequest, frame: Frame | None) -> None:
    """Raise `HttpError` if what was judged might not be what the server reads."""
    request_id = None if frame is None or frame.id is UNSET else frame.id
    coding = request.headers.get("content-encoding", "identity")
    charsets = {name.lower() for name in _CHARSET.findall(request.headers.get("content-type", ""))}
    if coding.strip().lower() != "identity":
        reason = "what is compressed cannot be judged"
        raise HttpError(415, reason, request_id=request_id, code=INVALID_REQUEST)
    if charsets - {"utf-8", "utf8"}:
        raise HttpError(415, "JSON is UTF-8", request_id=request_id, code=INVALID_REQUEST)
    if (problem := contradiction(frame, request.headers)) is not None:
        raise HttpError(400, problem, request_id=request_id, code=HEADER_MISMATCH)
