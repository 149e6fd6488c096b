"""What of a client's request is refused, because two readers could take it for two things."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import UNSET

from toolbus.mcp.proxy.http.visits import RefusedVisitError
from toolbus.mcp.proxy.jsonrpc import INVALID_REQUEST
from toolbus.mcp.proxy.revisions import HEADER_MISMATCH, contradiction

if TYPE_CHECKING:
    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.jsonrpc import Frame

_SINGLE = frozenset(
    {"authorization", "content-encoding", "content-length", "content-type", "host"}
    | {"last-event-id", "origin", "transfer-encoding"}
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\"';,\s]*)", re.IGNORECASE)
_METHODS = ("GET", "POST", "DELETE")


def check_headers(visit: Visit) -> None:
    """Raise `RefusedVisitError` if a header that counts is said twice, or the length in two ways.

    See RFC 9112, 6.3, and 3.2 for `Host`.
    """
    for name, count in Counter([name for name, _ in visit.fields]).items():
        if count > 1 and (name in _SINGLE or name.startswith("mcp-")):
            raise RefusedVisitError(400, f"the header {name} is there {count} times")
    if {"content-length", "transfer-encoding"} <= visit.headers.keys():
        raise RefusedVisitError(400, "a body has either a length or chunks")


def check_method(visit: Visit) -> None:
    """Raise `RefusedVisitError` for what streamable HTTP has no use for."""
    if visit.method not in _METHODS and not visit.is_preflight:
        allowed = [("allow", ", ".join(_METHODS))]
        raise RefusedVisitError(405, "this is for GET, POST and DELETE", allowed)
    if visit.body and visit.method != "POST":
        raise RefusedVisitError(400, "only a POST has a body")


def check_judged(visit: Visit, frame: Frame | None) -> None:
    """Raise `RefusedVisitError` if what was judged might not be what the server reads."""
    own = None if frame is None or frame.id is UNSET else frame.id
    coding = visit.headers.get("content-encoding", "identity")
    charsets = {one.lower() for one in _CHARSET.findall(visit.headers.get("content-type", ""))}
    if coding.strip().lower() != "identity":
        reason = "what is compressed cannot be judged"
        raise RefusedVisitError(415, reason, own=own, code=INVALID_REQUEST)
    if charsets - {"utf-8", "utf8"}:
        raise RefusedVisitError(415, "JSON is UTF-8", own=own, code=INVALID_REQUEST)
    if (problem := contradiction(frame, visit.headers)) is not None:
        raise RefusedVisitError(400, problem, own=own, code=HEADER_MISMATCH)
