"""The upstream server of a relay: requests to it, and the headers in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.http.client import Timeouts
from toolbus.mcp.http.headers import request_headers
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

_HOP_BY_HOP = frozenset(
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
"""Headers of a connection, not of the message: RFC 9110, 7.6.1."""

_PER_REQUEST = frozenset(
    {METHOD, NAME, "content-length", "traceparent", "tracestate", "x-request-id"}
)
"""Headers specific to one request, which do not identify a client."""

_SET_BY_PROXY = frozenset({"accept-encoding", "content-length", "expect", "host"})
"""Headers that the proxy sets itself.

`Host` names the server (RFC 9110, 7.2), so the front checks the client's on the server's behalf;
`Origin` passes, and both check it. `Accept-Encoding` keeps responses readable for handlers.
"""


class Upstream(NamedTuple):
    """The server at *url*, over *wire*.

    *token* is sent with requests that have no credentials. *guarded*: the clients' credentials are
    for the proxy, and are not sent. *headers* replace a client's headers of the same names. With
    *oauth*, clients send tokens of their own.
    """

    wire: HttpClient
    url: SplitResult
    limits: ProxyLimits
    token: str | None = None
    guarded: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    oauth: OAuthGateway | None = None

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send *request* unchanged; raises `TransportError`."""
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
        """Send *line*, the frame *frame*, in place of *request*; raises `TransportError`.

        The headers must not contradict the body, so a line that *is_changed* gets new repeated
        headers. *schema* is the input schema of the called tool, if it is known.
        """
        fields = request_headers(self._headers(request))
        if is_stateless(request.headers):
            fields = _with_repeated_headers(fields, frame, schema) if is_changed else fields
        else:
            # Repeated headers mean nothing with sessions, and handlers may have changed the body.
            fields = [(name, value) for name, value in fields if not _is_repeated(name)]
        waits = Timeouts(head=None if has_no_timeout(frame) else self.limits.silence)
        return await self._send(request, fields, line, waits)

    async def _send(
        self, request: HttpRequest, fields: Fields, body: bytes, waits: Timeouts
    ) -> HttpReply:
        queries = filter(None, (self.url.query, request.query))
        url = self.url._replace(query="&".join(queries))
        return await self.wire.send(url, request.method, fields, body, waits)

    def response_fields(self, request: HttpRequest, reply: HttpReply) -> list[tuple[str, str]]:
        """Return the headers of *reply* to send to the client of *request*."""
        fields = end_to_end(reply.fields)
        return fields if self.oauth is None else self.oauth.challenges(request, fields)

    def _headers(self, request: HttpRequest) -> list[tuple[str, str]]:
        dropped = _SET_BY_PROXY | {"authorization"} if self.guarded else _SET_BY_PROXY
        dropped = dropped | {name for name, _ in self.headers}
        fields = [field for field in end_to_end(request.fields) if field[0].lower() not in dropped]
        shows = "authorization" in request.headers and not self.guarded
        if self.token is not None and not shows:
            fields.append(("authorization", f"Bearer {self.token}"))
        return [*fields, *self.headers, ("accept-encoding", "identity")]


def client_identity(fields: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return the headers that identify a client to a server.

    Requests that differ in any header not specific to a request belong to two clients.
    """
    return frozenset(
        [
            field
            for field in fields
            if field[0] not in _PER_REQUEST and not field[0].startswith(PARAM)
        ]
    )


def _is_repeated(name: str) -> bool:
    return name in {METHOD, NAME} or name.startswith(PARAM)


def _with_repeated_headers(
    fields: list[tuple[str, str]], frame: Frame | None, schema: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """Return *fields* with the headers that repeat the body made from *frame*.

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
    """Return *fields* without hop-by-hop headers and the length: RFC 9110, 7.6.1."""
    fields = list(fields)
    dropped = _HOP_BY_HOP
    for name, value in fields:
        if name.lower() == "connection":
            dropped = dropped | {option.strip().lower() for option in value.split(",")}
    return [field for field in fields if field[0].lower() not in dropped]
