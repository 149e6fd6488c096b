"""What a client meets first: who may come in, from where, with how much and how fast."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from toolbus.mcp.http.checks import check_headers
from toolbus.mcp.http.failures import HttpError
from toolbus.mcp.http.http_request import HttpRequest
from toolbus.mcp.protocol.jsonrpc import read_frame
from toolbus.mcp.transport.processes import FAILED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.mcp.http.http_request import Receive, Send

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
        check_headers(request)
        # Who was led here by a page under a name of its own would show that name.
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
    """What is behind the application: a relay to a server, or a bridge to a process."""

    async def take(self, request: HttpRequest) -> None:
        """Answer *request*; being cancelled means that the client has gone."""
        ...

    def end_streams(self) -> None:
        """End the answers that would go on as long as their clients like."""
        ...

    async def close(self) -> None:
        """Answer what is still under way with an error, and end all sessions."""
        ...


class AsgiApp:
    """The ASGI application: it lets in whom the *rules* let, to *backend*."""

    def __init__(self, backend: Backend, rules: Rules) -> None:
        self._backend, self._rules = backend, rules
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] != "http":
            return
        request = HttpRequest(scope, receive, send)
        try:
            self._check(request)
            await request.read(self._rules.body, self._rules.seconds)
            await self._serve(request)
        except HttpError as error:
            # The rest of its body is read for a while, so that it comes to read the answer.
            error.fields = (*error.fields, ("connection", "close"))
            slow = error.status == 408  # noqa: PLR2004 - HTTP's
            await request.refuse(error, linger=0.0 if slow else self._rules.seconds)
        except ConnectionResetError:
            return

    def _check(self, request: HttpRequest) -> None:
        if self._closing:
            raise HttpError(503, "the proxy is ending")
        self._rules.check(request)

    async def close(self, grace: float) -> None:
        """Let nobody in any more; give what is under way *grace* seconds, and end the rest."""
        self._closing = True
        self._backend.end_streams()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        await self._backend.close()

    async def _serve(self, request: HttpRequest) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine
        self._tasks.add(task)
        watch = asyncio.create_task(_cancel_when_gone(request, task))
        try:
            await self._backend.take(request)
        except HttpError as error:
            await request.refuse(error)
        except asyncio.CancelledError:
            if not (watch.done() and task.uncancel() == 0):
                raise
        except Exception:
            logger.exception("a request could not be served")
            if not request.has_begun:
                await request.refuse(HttpError(500, FAILED, request_id=_id_of(request)))
        finally:
            watch.cancel()
            self._tasks.discard(task)


async def _cancel_when_gone(request: HttpRequest, task: asyncio.Task[Any]) -> None:
    """Cancel *task* if the client of *request* goes before it has its answer."""
    await request.wait_until_gone()
    if not request.ended:
        task.cancel()


def _id_of(request: HttpRequest) -> Any:
    frame = read_frame(request.body)
    return frame.id if frame is not None and frame.is_request else None
