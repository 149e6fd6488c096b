"""Servers of an MCP client: commands and addresses, with options that are checked once."""

from __future__ import annotations

import re
import sys
from contextlib import asynccontextmanager
from contextvars import ContextVar
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias, TypedDict
from urllib.parse import urlsplit

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from toolbus.errors import RegistrationError
from toolbus.http.urls import without_query
from toolbus.presence.agents import JUDGED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
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


class McpOptions(TypedDict, total=False):
    """What `tools` takes besides the server; the times are in seconds.

    *name* is what errors and logs call the server: the command or the address, if not given.
    For a command: *env*, laid over a part of ours that holds no secret (HOME, LOGNAME, PATH, SHELL,
    TERM, USER; `env=os.environ` gives it all); *cwd*; *stderr*, a file, where what the server
    writes to its standard error goes (ours, if none is given). For an address: *headers*, and
    *auth*, an `httpx2.Auth` as the SDK's OAuth has them.

    *prefix* is put before every name. *include* and *exclude* are a glob pattern of the server's
    own names, or several; what is excluded is never there. *timeout* is that of each call, 300 if
    not given, None for never; *connect_timeout* that of connecting and of each listing, 60 if
    not given. *reconnects* is how often a call tries to connect again to a server that was
    lost, 3 if not given. *mode* is the SDK's: "auto", "legacy", or a revision without handshake.
    """

    name: str
    env: Mapping[str, str]
    cwd: str | Path
    stderr: TextIO
    headers: Mapping[str, str]
    auth: httpx2.Auth
    prefix: str
    include: str | Sequence[str]
    exclude: str | Sequence[str]
    timeout: float | None
    connect_timeout: float
    reconnects: int
    mode: str


_PREFIX = re.compile(r"[A-Za-z0-9_./:-]*")
_FOR_COMMANDS, _FOR_ADDRESSES = {"env", "cwd", "stderr"}, {"headers", "auth"}


Server: TypeAlias = "StdioServer | UrlServer"


def server_of(server: str, args: Sequence[str], options: McpOptions) -> Server:
    """Return how to reach *server*; raises `RegistrationError` for what cannot work."""
    is_address = server.lower().startswith(("http://", "https://"))
    problems = [*_misplaced(args, options, is_address=is_address), *_wrong_values(options)]
    if problems:
        raise RegistrationError("toolbus.mcp.client.tools", problems[0])
    return UrlServer(server, options) if is_address else StdioServer(server, args, options)


def _misplaced(args: Sequence[str], options: McpOptions, *, is_address: bool) -> Iterator[str]:
    known = McpOptions.__annotations__.keys()
    if unknown := options.keys() - known:
        yield f"unknown options: {', '.join(sorted(unknown))}; known: {', '.join(known)}"
    if isinstance(args, str):
        yield f"the arguments are a list of words, not {args!r}; split it"
    if is_address and args:
        yield "an address takes no arguments; put them into the query, or name a command"
    other, kind = (_FOR_COMMANDS, "a command") if is_address else (_FOR_ADDRESSES, "an address")
    if misplaced := options.keys() & other:
        yield f"{', '.join(sorted(misplaced))} is for {kind}; leave it out"


def _wrong_values(options: McpOptions) -> Iterator[str]:
    if (timeout := options.get("timeout")) is not None and not _is_time(timeout):
        yield f"timeout must be a positive number of seconds, or None for never, not {timeout!r}"
    if not _is_time(timeout := options.get("connect_timeout", 1)):
        yield f"connect_timeout must be a positive number of seconds, not {timeout!r}"
    prefix = options.get("prefix", "")
    if not _PREFIX.fullmatch(prefix):
        yield f"a prefix has letters, digits or `_-./:`, unlike {prefix!r}"
    reconnects = options.get("reconnects", 0)
    if type(reconnects) is not int or reconnects < 0:
        yield f"reconnects must be a number of attempts, 0 or more, not {reconnects!r}"


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and seconds is not True and 0 < seconds < inf


# --- the two kinds -------------------------------------------------------------------------------


class StdioServer:
    """A server that we start, and that speaks over its standard streams."""

    trouble = ""
    """There is nothing that it says instead of speaking MCP."""

    def __init__(self, command: str, args: Sequence[str], options: McpOptions) -> None:
        # The arguments may hold a secret.
        self.label = options.get("name") or Path(command).name
        self._stderr = options.get("stderr")
        env = {**options.get("env", {}), JUDGED: "1"}
        self._parameters = StdioServerParameters(
            command=command, args=list(args), env=env, cwd=options.get("cwd")
        )

    def transport(self, on_end: Callable[[str], None]) -> Transport:
        """Return the way to a process of its own; *on_end* is told why it comes to its end."""
        return _watched(stdio_client(self._parameters, _with_file(self._stderr)), on_end)


class UrlServer:
    """A streamable HTTP server at *url*."""

    def __init__(self, url: str, options: McpOptions) -> None:
        # Neither a password nor a token of the query belongs in a message.
        self.label = options.get("name") or without_query(urlsplit(url))
        self.trouble = ""
        """What it last said instead of speaking MCP, or nothing."""
        self._url, self._options = url, options

    @asynccontextmanager
    async def transport(self, on_end: Callable[[str], None]) -> AsyncGenerator[Any]:
        """Return the way to a session of its own; *on_end* is told why it comes to its end."""
        headers, auth = self._options.get("headers", {}), self._options.get("auth")
        async with _Http(self, on_end, headers=headers, auth=auth) as http:
            streams = streamable_http_client(
                self._url, http_client=http, max_sse_event_size=_MOST_BYTES_OF_AN_EVENT
            )
            async with _watched(streams, on_end) as pair:
                yield pair


# --- what the SDK does not tell ------------------------------------------------------------------


class Delivery:
    """One delivery of a call; *refused* if the server has certainly not looked at it.

    The SDK may send a call in several rounds; *seen* is set once the server has seen one.
    """

    seen = refused = False


# The SDK gives no other way from a call to its HTTP requests: it sends them in the context of
# whoever asked, and takes nothing along that the server would not see.
delivery_under_way: ContextVar[Delivery | None] = ContextVar("toolbus_mcp", default=None)


class _Http(httpx2.AsyncClient):
    """Sends, and notes what the SDK does not tell: what a server did not even look at."""

    def __init__(self, address: UrlServer, on_end: Callable[[str], None], **options: Any) -> None:
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
