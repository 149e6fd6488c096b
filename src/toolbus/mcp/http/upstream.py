"""A client's HTTP request on its way to the server, and the headers of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.http.client import Timeouts
from toolbus.mcp.http.headers import upward
from toolbus.mcp.protocol.repeated_headers import METHOD, NAME, PARAM, argument_headers, routing
from toolbus.mcp.protocol.revisions import CALL, REVISION, has_no_timeout, is_stateless, params_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from urllib.parse import SplitResult

    from toolbus.http.client import HttpClient, HttpReply
    from toolbus.http.server import Fields, HttpRequest
    from toolbus.mcp.oauth.gateway import OAuthGateway
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.transport.limits import ProxyLimits

_HOPS = frozenset(
    {
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
    }
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
"""What is about a connection and not about what it carries: RFC 9110, 7.6.1."""

_SINGLE = frozenset({METHOD, NAME, "content-length", "traceparent", "tracestate", "x-request-id"})
"""Headers that are about one request and not about its client."""

_OURS = frozenset({"accept-encoding", "content-length", "expect", "host"})
"""What the proxy says by itself.

`Host` names the server, as HTTP wants it (RFC 9110, 7.2), so the front judges the client's in the
server's place; `Origin` passes, and is judged by both. What was compressed nobody can judge.
"""


class Upstream(NamedTuple):
    """The server at *url*, over *wire*.

    *token* goes to it with requests that bring no credentials of their own; *guarded* says that
    those which they bring are for the proxy, and none of the server's business. *headers* go to it
    with each request, in the place of a client's of the same names. Where *oauth* is, clients bring
    tokens of their own.
    """

    wire: HttpClient
    url: SplitResult
    limits: ProxyLimits
    token: str | None = None
    guarded: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    oauth: OAuthGateway | None = None

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send *request* as it came; raises `TransportError`."""
        return await self._send(request, self._headers(request), request.body, Timeouts())

    async def send_judged(
        self,
        request: HttpRequest,
        frame: Frame | None,
        line: bytes,
        schema: Mapping[str, Any] | None,
        *,
        is_changed: bool,
    ) -> HttpReply:
        """Send *line*, which is *frame*, in the place of *request*; raises `TransportError`.

        The server must not be able to read anything else in it: where it *is_changed*, headers
        repeat it anew. *schema* is that of the tool which it calls, if that is known.
        """
        fields = upward(self._headers(request))
        if is_stateless(request.headers):
            fields = _repeating(fields, frame, schema) if is_changed else fields
        else:
            # They mean nothing there, and handlers may have rewritten what they repeat.
            fields = [(name, value) for name, value in fields if not _repeats(name)]
        waits = Timeouts(head=None if has_no_timeout(frame) else self.limits.silence)
        return await self._send(request, fields, line, waits)

    async def _send(
        self, request: HttpRequest, fields: Fields, body: bytes, waits: Timeouts
    ) -> HttpReply:
        queries = filter(None, (self.url.query, request.query))
        url = self.url._replace(query="&".join(queries))
        return await self.wire.send(url, request.method, fields, body, waits)

    def answered(self, request: HttpRequest, reply: HttpReply) -> list[tuple[str, str]]:
        """Return the headers of *reply* that are for the client of *request*."""
        fields = end_to_end(reply.fields)
        return fields if self.oauth is None else self.oauth.challenges(request, fields)

    def _headers(self, request: HttpRequest) -> list[tuple[str, str]]:
        dropped = _OURS | {"authorization"} if self.guarded else _OURS
        dropped = dropped | {name for name, _ in self.headers}
        fields = [field for field in end_to_end(request.fields) if field[0].lower() not in dropped]
        shows = "authorization" in request.headers and not self.guarded
        if self.token is not None and not shows:
            fields.append(("authorization", f"Bearer {self.token}"))
        return [*fields, *self.headers, ("accept-encoding", "identity")]


def identity(fields: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return what is the same in requests of one client, for all that a server can see.

    Whatever differs between two requests without being known to belong to one alone makes them
    requests of two clients.
    """
    return frozenset(
        [field for field in fields if field[0] not in _SINGLE and not field[0].startswith(PARAM)]
    )


def _repeats(name: str) -> bool:
    return name in {METHOD, NAME} or name.startswith(PARAM)


def _repeating(
    fields: list[tuple[str, str]], frame: Frame | None, schema: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """Return *fields* in which those that repeat the body say what *frame* says.

    See MCP 2026-07-28, Transports, "Standard Headers" and "Custom Headers".
    """
    repeated = routing(frame)
    method = repeated.get(METHOD, CALL)
    if schema is not None:
        arguments = params_of(frame).get("arguments")
        repeated |= argument_headers(schema, arguments)
    others = [field for field in fields if field[0] not in {REVISION, METHOD, NAME}]
    if schema is not None or method != CALL:
        others = [field for field in others if not field[0].startswith(PARAM)]
    return [*others, *repeated.items()]


def end_to_end(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of *fields* that are not about one connection alone, nor about its length.

    See RFC 9110, 7.6.1.
    """
    fields = list(fields)
    dropped = _HOPS
    for name, value in fields:
        if name.lower() == "connection":
            dropped = dropped | {option.strip().lower() for option in value.split(",")}
    return [field for field in fields if field[0].lower() not in dropped]
