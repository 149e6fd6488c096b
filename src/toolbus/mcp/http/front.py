"""The front of a listening proxy: who may come in, from where, with how much and how fast."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from toolbus.http.server import RequestError
from toolbus.mcp.http.failures import HttpError, refuse
from toolbus.mcp.protocol.jsonrpc import read_frame
from toolbus.mcp.transport.processes import PROXY_FAILED

if TYPE_CHECKING:
    from toolbus.http.server import HttpRequest

logger = logging.getLogger("toolbus")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._\-]+)(?::[0-9]{1,5})?"
_IS_HOST, _IS_ORIGIN = re.compile(_HOST), re.compile(rf"https?://{_HOST}")
"""As browsers and clients write them: RFC 9110, 7.2, and RFC 6454, 6.1."""


class Rules(NamedTuple):
    """Where the proxy is and whom it lets in; *hosts* and *origins* besides those of loopback.

    What begins like one of *others* is a path of the proxy as well.
    *token* is what clients must show; *body* is how many bytes one may send, in *seconds*, which
    are also how long it may take to say what it wants, or to want more.
    """

    path: str = "/mcp"
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    token: str | None = None
    body: int = 2**28
    seconds: float = 30.0
    others: tuple[str, ...] = ()

    def check(self, request: HttpRequest) -> None:
        """Raise `HttpError` if *request* may not come in."""
        if self.token is not None and not self._knows(request.headers.get("authorization", "")):
            shown = [("www-authenticate", 'Bearer realm="toolbus"')]
            raise HttpError(401, "a bearer token is needed", shown)
        # A browser that a page led here under a name of its own shows that name.
        if not self._is_host(request.headers.get("host", "")):
            raise HttpError(403, "this Host is not allowed; see --allow-host")
        if not self._is_origin(request.headers.get("origin")):
            raise HttpError(403, "this Origin is not allowed; see --allow-origin")
        if request.path != self.path and not request.path.startswith(self.others):
            raise HttpError(404, f"there is nothing here; MCP is at {self.path}")

    def _knows(self, shown: str) -> bool:
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
    """What is behind the front: a relay to a server, or a bridge to a process."""

    async def take(self, request: HttpRequest) -> None:
        """Answer *request*; being cancelled means that the client has gone."""
        ...

    def end_streams(self) -> None:
        """End the answers that would go on as long as their clients like."""
        ...

    async def close(self) -> None:
        """Answer what is still under way with an error, and end all sessions."""
        ...


class Front:
    """Lets requests come in that keep the *rules*, to *backend*."""

    def __init__(self, backend: Backend, rules: Rules) -> None:
        self._backend, self._rules = backend, rules
        self._tasks: set[asyncio.Future[None]] = set()
        self._is_closing = False

    async def answer(self, request: HttpRequest) -> None:
        """Answer *request*; being cancelled means that the client has gone."""
        try:
            self._check(request)
            await request.read(self._rules.body, self._rules.seconds)
        except HttpError as error:
            error.fields = (*error.fields, ("connection", "close"))
            await refuse(request, error)
        except RequestError as error:
            await refuse(request, HttpError(error.status, error.reason))
        else:
            await self._serve(request)

    def _check(self, request: HttpRequest) -> None:
        if self._is_closing:
            raise HttpError(503, "the proxy is ending")
        self._rules.check(request)

    async def close(self, grace: float) -> None:
        """Let nobody in any more; give what is under way *grace* seconds, and end the rest."""
        self._is_closing = True
        self._backend.end_streams()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        await self._backend.close()

    async def _serve(self, request: HttpRequest) -> None:
        done = asyncio.get_running_loop().create_future()
        self._tasks.add(done)
        try:
            await self._backend.take(request)
        except HttpError as error:
            await refuse(request, error)
        except Exception:
            if request.has_begun:
                raise
            logger.exception("a request could not be served")
            frame = read_frame(request.body)
            request_id = frame.id if frame is not None and frame.is_request else None
            await refuse(request, HttpError(500, PROXY_FAILED, request_id=request_id))
        finally:
            self._tasks.discard(done)
            done.set_result(None)
