"""What a client meets first: who may come in, from where, with how much and how fast."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from toolbus.mcp.proxy.http.checks import check_headers
from toolbus.mcp.proxy.http.visits import RefusedVisitError, Visit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.mcp.proxy.http.visits import Receive, Send

logger = logging.getLogger("toolbus")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._\-]+)(?::[0-9]{1,5})?"
_IS_HOST, _IS_ORIGIN = re.compile(_HOST), re.compile(rf"https?://{_HOST}")
"""As browsers and clients write them: RFC 9110, 7.2, and RFC 6454, 6.1."""


class Rules(NamedTuple):
    """Where the proxy is and whom it lets in; *hosts* and *origins* besides those of loopback.

    *token* is what clients must show; *body* is how many bytes one may send, in *seconds*, which
    are also how long it may take to say what it wants, or to want more.
    """

    path: str = "/mcp"
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    token: str | None = None
    body: int = 2**28
    seconds: float = 30.0

    def check(self, visit: Visit) -> None:
        """Raise `RefusedVisitError` if *visit* may not come in."""
        if self.token is not None and not self._knows(visit.headers.get("authorization", "")):
            shown = [("www-authenticate", 'Bearer realm="toolbus"')]
            raise RefusedVisitError(401, "a bearer token is needed", shown)
        check_headers(visit)
        # Who was led here by a page under a name of its own would show that name.
        if not self._is_host(visit.headers.get("host", "")):
            raise RefusedVisitError(403, "this Host is not allowed; see --allow-host")
        if not self._is_origin(visit.headers.get("origin")):
            raise RefusedVisitError(403, "this Origin is not allowed; see --allow-origin")
        if visit.path != self.path:
            raise RefusedVisitError(404, f"there is nothing here; MCP is at {self.path}")

    def _knows(self, shown: str) -> bool:
        scheme, _, token = shown.partition(" ")
        expected = (self.token or "").encode()
        same = hmac.compare_digest(token.strip().encode("latin-1"), expected)
        return same and scheme.lower() == "bearer"

    def _is_host(self, host: str) -> bool:
        found = _IS_HOST.fullmatch(host.lower())
        return found is not None and (
            found["name"] in _LOOPBACK or bool({found[0], found["name"]} & self.hosts)
        )

    def _is_origin(self, origin: str | None) -> bool:
        if origin is None or origin.lower() in self.origins:
            return True
        found = _IS_ORIGIN.fullmatch(origin.lower())
        return found is not None and found["name"] in _LOOPBACK


class Back(Protocol):
    """What is behind the front: a relay to a server, or a bridge to a process."""

    async def take(self, visit: Visit) -> None:
        """Answer *visit*; being cancelled means that the client has gone."""
        ...

    async def close(self, grace: float) -> None:
        """End all sessions; give what is under way *grace* seconds."""
        ...


class Front:
    """The ASGI application: it lets in whom the *rules* let, to *back*."""

    def __init__(self, back: Back, rules: Rules) -> None:
        self._back, self._rules = back, rules
        self.closing = False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] != "http":
            return
        visit = Visit(scope, receive, send)
        try:
            self._check(visit)
            await visit.read(self._rules.body, self._rules.seconds)
            await self._serve(visit)
        except RefusedVisitError as error:
            # What is left of its body is read for a while, so that it comes to read the answer.
            error.fields = (*error.fields, ("connection", "close"))
            slow = error.status == 408  # noqa: PLR2004 - HTTP's
            await visit.refuse(error, linger=0.0 if slow else self._rules.seconds)
        except ConnectionResetError:
            return

    def _check(self, visit: Visit) -> None:
        if self.closing:
            raise RefusedVisitError(503, "the proxy is ending")
        self._rules.check(visit)

    async def _serve(self, visit: Visit) -> None:
        work = asyncio.current_task()
        assert work is not None  # noqa: S101 - this is a coroutine
        left = asyncio.create_task(_cancel_if_left(visit, work))
        try:
            await self._back.take(visit)
        except RefusedVisitError as error:
            await visit.refuse(error)
        except asyncio.CancelledError:
            if not (left.done() and work.uncancel() == 0):
                raise
        except Exception:
            logger.exception("a request could not be served")
            if not visit.begun:
                await visit.refuse(RefusedVisitError(500, "the proxy has failed; see its log"))
        finally:
            left.cancel()


async def _cancel_if_left(visit: Visit, work: asyncio.Task[Any]) -> None:
    """Cancel *work* for *visit* when its client goes before it has its answer."""
    await visit.left()
    if not visit.ended:
        work.cancel()
