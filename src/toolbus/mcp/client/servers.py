"""How an MCP server is reached: as a command, or at an address; each opens a pair of streams."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO
from urllib.parse import urlsplit

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from toolbus.terminal.agent_marks import JUDGED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp.client import Transport
    from mcp.shared.message import SessionMessage

# One event may hold a whole result with its images; the SDK's own bound is 1 MiB.
_MOST_BYTES_OF_AN_EVENT = 64 * 1024 * 1024
# A call is bounded by its tool's timeout and nothing else: a stream of events may be silent, and
# as many calls as there are take a connection each.
_TIMEOUT = httpx2.Timeout(30.0, read=None, pool=None)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
_SESSION = "mcp-session-id"


class Delivery:
    """One delivery of a call; *refused* if the server has certainly not looked at it.

    The SDK may send a call in several rounds; *seen* is set once the server has seen one.
    """

    seen = refused = False


# The SDK gives no other way from a call to its HTTP requests: it sends them in the context of
# whoever asked, and takes nothing along that the server would not see.
delivery_under_way: ContextVar[Delivery | None] = ContextVar("toolbus_mcp", default=None)


class Server(Protocol):
    """Something that speaks MCP."""

    label: str
    """Its name in errors and logs; never a secret."""

    trouble: str
    """What it last said instead of speaking MCP, or nothing."""

    def transport(self, on_end: Callable[[str], None]) -> Transport:
        """Return the way to it, once; *on_end* is told why as soon as it comes to its end."""


class StdioServer:
    """A server that we start, and that speaks over its standard streams."""

    def __init__(
        self,
        command: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None,
        stderr: TextIO | None,
        name: str | None,
    ) -> None:
        # The arguments may hold a secret.
        self.label, self.trouble, self._stderr = name or Path(command).name, "", stderr
        self._parameters = StdioServerParameters(
            command=command, args=list(args), env={**env, JUDGED: "1"}, cwd=cwd
        )

    def transport(self, on_end: Callable[[str], None]) -> Transport:
        """Return the way to a process of its own."""
        return _watched(stdio_client(self._parameters, _with_file(self._stderr)), on_end)


class Address:
    """A streamable HTTP server at *url*."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str], auth: httpx2.Auth | None, name: str | None
    ) -> None:
        parts = urlsplit(url)
        # Neither a password nor a token of the query belongs in a message.
        bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.label = name or bare
        self._url, self._headers, self._auth, self.trouble = url, dict(headers), auth, ""

    @asynccontextmanager
    async def transport(self, on_end: Callable[[str], None]) -> AsyncGenerator[Any]:
        """Return the way to a session of its own."""
        size = _MOST_BYTES_OF_AN_EVENT
        async with _Http(self, on_end, headers=self._headers, auth=self._auth) as http:
            streams = streamable_http_client(self._url, http_client=http, max_sse_event_size=size)
            async with _watched(streams, on_end) as pair:
                yield pair


class _Http(httpx2.AsyncClient):
    """Sends, and notes what the SDK does not tell: what a server did not even look at."""

    def __init__(self, address: Address, on_end: Callable[[str], None], **options: Any) -> None:
        super().__init__(timeout=_TIMEOUT, limits=_LIMITS, **options)
        self._address, self._on_end = address, on_end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send *request*."""
        self._address.trouble = ""
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            _note(request, seen=False)
            raise
        if response.is_error:
            self._address.trouble = f"HTTP {response.status_code} {response.reason_phrase}"
        # The specification's sign of a session that the server no longer has (2025-11-25,
        # transports, "Session Management"); the SDK tells it by a text alone.
        gone = (request.method, response.status_code) == ("POST", 404)
        gone = gone and _SESSION in request.headers
        if gone:
            self._on_end("the server ended the session")
        _note(request, seen=not gone)
        return response


def _note(request: httpx2.Request, *, seen: bool) -> None:
    delivery = delivery_under_way.get()
    if delivery is not None and b'"method":"tools/call"' in request.content:
        delivery.refused = not seen and not delivery.seen
        delivery.seen = delivery.seen or seen


@asynccontextmanager
async def _watched(
    transport: AbstractAsyncContextManager[Any], on_end: Callable[[str], None]
) -> AsyncGenerator[Any]:
    async with transport as (read, write):
        yield _Watched(read, on_end), write


class _Watched:
    """The stream of what the server says; the SDK does not tell of its end, this does."""

    def __init__(self, stream: Any, on_end: Callable[[str], None]) -> None:
        self._stream, self._on_end = stream, on_end

    @property
    def last_context(self) -> Any:
        """What the SDK's HTTP streams tell of the sender, for traces."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await anext(self)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            message: SessionMessage | Exception = await anext(self._stream)
        except StopAsyncIteration:
            self._on_end("the server closed it")
            raise
        return message

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> bool | None:
        handled: bool | None = await self._stream.__aexit__(*details)
        return handled


def _with_file(stderr: TextIO | None) -> TextIO:
    """Return *stderr*, or ours; a notebook's or a test's has no file for a process to write to."""
    if stderr is not None:
        return stderr
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError):  # `io.UnsupportedOperation` is an OSError.
        return sys.__stderr__ or sys.stderr
    return sys.stderr
