"""What of a client's HTTP request goes on to the server, and what of its answer comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.mcp.proxy.http.headers import upward
from toolbus.mcp.proxy.http_client import Timeouts
from toolbus.mcp.proxy.revisions import (
    METHOD,
    NAME,
    PARAM,
    REVISION,
    find_header_params,
    header_params,
    is_patient,
    is_stateless,
    params_of,
    routing,
)
from toolbus.mcp.proxy.texts import CALL

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from urllib.parse import SplitResult

    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.http_client import HttpClient, HttpReply
    from toolbus.mcp.proxy.jsonrpc import Frame
    from toolbus.mcp.proxy.stdio import ProxyLimits

_HOPS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"}
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
"""What is about a connection and not about what it carries: RFC 9110, 7.6.1."""

_SINGLE = frozenset({METHOD, NAME, "content-length", "traceparent", "tracestate", "x-request-id"})
"""What is said of one request and not of who asks."""

_OURS = frozenset({"accept-encoding", "content-length", "expect", "host"})
"""What the proxy says by itself.

`Host` names the server, as HTTP wants it (RFC 9110, 7.2), so the front judges the client's in the
server's place; `Origin` passes, and is judged by both. What was compressed nobody can judge.
"""


class Upstream(NamedTuple):
    """The server at *url*, over *wire*.

    *token* goes to it with requests that bring no credentials of their own; *guarded* says that
    those which they bring are for the proxy, and none of the server's business.
    """

    wire: HttpClient
    url: SplitResult
    limits: ProxyLimits
    token: str | None = None
    guarded: bool = False

    async def send(
        self,
        visit: Visit,
        frame: Frame | None,
        line: bytes,
        schema: Mapping[str, Any] | None,
        *,
        judged: bool,
    ) -> HttpReply:
        """Send *line*, *frame*, in the place of *visit*; raises `WireError`.

        *schema* is that of the tool which it calls, if that is known; *judged* says that the server
        must not be able to read anything else in it.
        """
        headers = [*self._headers(visit), ("accept-encoding", "identity")]
        headers = upward(headers) if judged else headers
        if line is not visit.body and is_stateless(visit.headers):
            headers = _mirroring(headers, frame, schema)
        elif judged and not is_stateless(visit.headers):
            # They mean nothing there, and handlers may have rewritten what they repeat.
            headers = [one for one in headers if not _repeats(one[0])]
        waits = Timeouts(head=None if is_patient(frame) else self.limits.silence)
        return await self.wire.send(self._url(visit), visit.method, headers, line, waits)

    def _url(self, visit: Visit) -> SplitResult:
        queries = [one for one in (self.url.query, visit.query) if one]
        return self.url._replace(query="&".join(queries))

    def _headers(self, visit: Visit) -> list[tuple[str, str]]:
        fields = [one for one in passed(visit.fields) if one[0].lower() not in _OURS]
        if self.guarded:
            fields = [one for one in fields if one[0].lower() != "authorization"]
        if self.token is not None and (self.guarded or "authorization" not in visit.headers):
            fields.append(("authorization", f"Bearer {self.token}"))
        return fields


def identity(fields: Iterable[tuple[str, str]]) -> Hashable:
    """Return what is the same in requests of one client, for all that a server can see.

    Whatever differs between two requests without being known to belong to one alone makes them
    requests of two clients.
    """
    return frozenset(
        [one for one in fields if one[0] not in _SINGLE and not one[0].startswith(PARAM)]
    )


def _repeats(name: str) -> bool:
    return name in {METHOD, NAME} or name.startswith(PARAM)


def _mirroring(
    headers: list[tuple[str, str]], frame: Frame | None, schema: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """Return *headers* in which those that repeat the body say what *frame* says."""
    said = routing(frame)
    if schema is not None:
        arguments = params_of(frame).get("arguments")
        said |= header_params(find_header_params(schema), arguments)
    kept = [one for one in headers if one[0] not in {REVISION, METHOD, NAME}]
    if schema is not None or (METHOD in said and said[METHOD] != CALL):
        kept = [one for one in kept if not one[0].startswith(PARAM)]
    return [*kept, *said.items()]


def passed(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of *fields* that are not about one connection alone, nor about its length."""
    fields = list(fields)
    named = {
        one.strip().lower()
        for name, value in fields
        if name.lower() == "connection"
        for one in value.split(",")
    }
    dropped = _HOPS | named | {"content-length"}
    return [one for one in fields if one[0].lower() not in dropped]
