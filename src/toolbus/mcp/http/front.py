"""The front of a listening proxy: access control and limits for requests."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from toolbus.http.server import RequestError
from toolbus.mcp.http.failures import HttpError, send_error
from toolbus.mcp.protocol.jsonrpc import read_frame
from toolbus.mcp.transport.processes import PROXY_FAILED

if TYPE_CHECKING:
    from toolbus.http.server import HttpRequest

logger = logging.getLogger("toolbus")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._\-]+)(?::[0-9]{1,5})?"
_IS_HOST, _IS_ORIGIN = re.compile(_HOST), re.compile(rf"https?://{_HOST}")
"""The forms of Host and Origin: RFC 9110, 7.2, and RFC 6454, 6.1."""


class Rules(NamedTuple):
    """The access rules: paths, token, and allowed *hosts* and *origins* besides loopback.

    *other_paths* are prefixes of further paths. *token* is required from clients if it is set.
    *body* is the maximum size of a request in bytes; *seconds* is the time limit for receiving a
    head, a body, or the next request on a connection.
    """

    path: str = "/mcp"
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    token: str | None = None
    body: int = 2**28
    seconds: float = 30.0
    other_paths: tuple[str, ...] = ()

    def check(self, request: HttpRequest) -> None:
        """Raise `HttpError` if *request* is not allowed."""
        if self.token is not None and not self._has_token(request.headers.get("authorization", "")):
            shown = [("www-authenticate", 'Bearer realm="toolbus"')]
            raise HttpError(401, "expected a bearer token", shown)
        # DNS rebinding: a browser misled by a page sends the page's own host name.
        if not self._is_host(request.headers.get("host", "")):
            raise HttpError(403, "this Host is not allowed; see --allow-host")
        if not self._is_origin(request.headers.get("origin")):
            raise HttpError(403, "this Origin is not allowed; see --allow-origin")
        if request.path != self.path and not request.path.startswith(self.other_paths):
            raise HttpError(404, f"unknown path; MCP is at {self.path}")

    def _has_token(self, shown: str) -> bool:
        scheme, _, token = shown.partition(" ")
        expected = (self.token or "").encode()
        same = hmac.compare_digest(token.strip().encode("latin-1"), expected)
        return same and scheme.lower() == "bearer"

    def _is_host(self, host: str) -> bool:
        match = _IS_HOST.fullmatch(host.lower())
        return match is not None and (
            match["name"] in _LOOPBACK or bool({match[0], match["name"]} & self.hosts)
        )

    def _is_origin(self, origin: str | None) -> bool:
        if origin is None or origin.lower() in self.origins:
            return True
        match = _IS_ORIGIN.fullmatch(origin.lower())
        return match is not None and match["name"] in _LOOPBACK


class Backend(Protocol):
    """The part behind the front: a relay to a server, or a bridge to processes."""

    async def answer(self, request: HttpRequest) -> None:
        """Answer *request*; a cancellation means that the client is gone."""
        ...

    def end_streams(self) -> None:
        """End the standing streams and the subscriptions."""
        ...

    async def close(self) -> None:
        """Answer open requests with an error, and end all sessions."""
        ...


class Front:
    """The front of *backend*, which admits requests according to *rules*."""

    def __init__(self, backend: Backend, rules: Rules) -> None:
        self._backend, self._rules = backend, rules
        self._tasks: set[asyncio.Future[None]] = set()
        self._is_closing = False

    async def answer(self, request: HttpRequest) -> None:
        """Answer *request*; a cancellation means that the client is gone."""
        try:
            self._check(request)
            await request.read(self._rules.body, self._rules.seconds)
        except HttpError as error:
            error.fields = (*error.fields, ("connection", "close"))
            await send_error(request, error)
        except RequestError as error:
            await send_error(request, HttpError(error.status, error.reason))
        else:
            await self._serve(request)

    def _check(self, request: HttpRequest) -> None:
        if self._is_closing:
            raise HttpError(503, "the proxy is shutting down")
        self._rules.check(request)

    async def close(self, grace: float) -> None:
        """Refuse new requests, give open ones *grace* seconds, and end the rest."""
        self._is_closing = True
        self._backend.end_streams()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        await self._backend.close()

    async def _serve(self, request: HttpRequest) -> None:
        done = asyncio.get_running_loop().create_future()
        self._tasks.add(done)
        try:
            await self._backend.answer(request)
        except HttpError as error:
            await send_error(request, error)
        except Exception:
            if request.has_begun:
                raise
            logger.exception("a request could not be served")
            frame = read_frame(request.body)
            request_id = frame.id if frame is not None and frame.is_request else None
            await send_error(request, HttpError(500, PROXY_FAILED, request_id=request_id))
        finally:
            self._tasks.discard(done)
            done.set_result(None)
