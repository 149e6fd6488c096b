"""Servers of an MCP client, commands and URLs, with their validated options."""

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
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse

from toolbus.errors import RegistrationError
from toolbus.http.urls import without_query
from toolbus.presence.agents import JUDGED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp.client import Transport

    OnResult = Callable[[Mapping[str, Any]], object]

# One event may hold a whole result with its images; the SDK's own bound is 1 MiB.
_MOST_BYTES_OF_AN_EVENT = 64 * 1024 * 1024
# Only the tool's timeout limits a call: an event stream may be silent for long, and each
# concurrent call needs a connection.
_TIMEOUT = httpx2.Timeout(30.0, read=None, pool=None)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
_SESSION = "mcp-session-id"


class McpOptions(TypedDict, total=False):
    """The options of `tools`; times are in seconds.

    *name* is the server's name in errors and logs, by default the command or the URL.
    For a command: *env* is added to HOME, LOGNAME, PATH, SHELL, TERM and USER of this process
    (`env=os.environ` passes all variables); *cwd*; *stderr*, a file for the server's standard
    error, by default this process's. For a URL: *headers*, and *auth*, an `httpx2.Auth` such as
    the SDK's OAuth provider.

    *prefix* is put before every tool name. *include* and *exclude* are one or several glob patterns
    for the server's own names; *exclude* wins. *timeout* limits each call, by default 300, None for
    no limit; *connect_timeout* limits connecting and each listing, by default 60. *reconnects* is
    the number of attempts of a call to reconnect to a lost server, by default 3. *mode* is the
    SDK's: "auto", "legacy", or a stateless revision.
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
_FOR_COMMANDS, _FOR_URLS = {"env", "cwd", "stderr"}, {"headers", "auth"}


Server: TypeAlias = "StdioServer | UrlServer"


def server_of(server: str, args: Sequence[str], options: McpOptions) -> Server:
    """Return the server for a command or URL; raises `RegistrationError` for invalid options."""
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
        yield f"expected a list of words as arguments, got {args!r}; split it"
    if is_address and args:
        yield "a URL takes no arguments; put them into the query, or name a command"
    other, kind = (_FOR_COMMANDS, "a command") if is_address else (_FOR_URLS, "a URL")
    if misplaced := options.keys() & other:
        yield f"{', '.join(sorted(misplaced))} is for {kind}; leave it out"


def _wrong_values(options: McpOptions) -> Iterator[str]:
    if (timeout := options.get("timeout")) is not None and not _is_time(timeout):
        yield f"expected a positive number of seconds or None as timeout, got {timeout!r}"
    if not _is_time(timeout := options.get("connect_timeout", 1)):
        yield f"expected a positive number of seconds as connect_timeout, got {timeout!r}"
    prefix = options.get("prefix", "")
    if not _PREFIX.fullmatch(prefix):
        yield f"expected letters, digits or `_-./:` in the prefix, got {prefix!r}"
    reconnects = options.get("reconnects", 0)
    if type(reconnects) is not int or reconnects < 0:
        yield f"expected 0 or a positive number as reconnects, got {reconnects!r}"


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and seconds is not True and 0 < seconds < inf


def _ignore(_: Mapping[str, Any]) -> None:
    """Take a result, and do nothing."""


# --- the two kinds -------------------------------------------------------------------------------


class StdioServer:
    """A server started as a child process, on its standard streams."""

    last_error = ""
    """Always empty: a process has no HTTP errors."""

    def __init__(self, command: str, args: Sequence[str], options: McpOptions) -> None:
        # Without the arguments, which may hold a secret.
        self.label = options.get("name") or Path(command).name
        self._stderr = options.get("stderr")
        env = {**options.get("env", {}), JUDGED: "1"}
        self._parameters = StdioServerParameters(
            command=command, args=list(args), env=env, cwd=options.get("cwd")
        )

    def transport(self, on_end: Callable[[str], None], on_result: OnResult = _ignore) -> Transport:
        """Return a transport to a new process; *on_end* is called with the reason of its end.

        *on_result* is called with each result, before the SDK drops members unknown to it.
        """
        stream = stdio_client(self._parameters, _with_file(self._stderr))
        return _watched(stream, on_end, on_result)


class UrlServer:
    """A streamable HTTP server at *url*."""

    def __init__(self, url: str, options: McpOptions) -> None:
        # Without passwords and the query, which may hold a secret.
        self.label = options.get("name") or without_query(urlsplit(url))
        self.last_error = ""
        """The HTTP error of the last response, or ""."""
        self._url, self._options = url, options

    @asynccontextmanager
    async def transport(
        self, on_end: Callable[[str], None], on_result: OnResult = _ignore
    ) -> AsyncGenerator[Any]:
        """Return a transport for a new session, with the callbacks of `StdioServer.transport`."""
        headers, auth = self._options.get("headers", {}), self._options.get("auth")
        async with _Http(self, on_end, headers=headers, auth=auth) as http:
            streams = streamable_http_client(
                self._url, http_client=http, max_sse_event_size=_MOST_BYTES_OF_AN_EVENT
            )
            async with _watched(streams, on_end, on_result) as pair:
                yield pair


# --- additions to the SDK ------------------------------------------------------------------------


class Delivery:
    """One delivery of a call; *refused* if the server has certainly not processed it.

    The SDK may send a call several times; *seen* is set once one of them has reached the server.
    """

    seen = refused = False


# A context variable is the only link from a call to its HTTP requests: the SDK sends them in the
# caller's context, and passes nothing else that the server would not see.
delivery_under_way: ContextVar[Delivery | None] = ContextVar("toolbus_mcp", default=None)


class _Http(httpx2.AsyncClient):
    """An HTTP client that also records whether the server has received a call."""

    def __init__(self, address: UrlServer, on_end: Callable[[str], None], **options: Any) -> None:
        super().__init__(timeout=_TIMEOUT, limits=_LIMITS, **options)
        self._address, self._on_end = address, on_end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send *request*."""
        self._address.last_error = ""
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            _note(request, seen=False)
            raise
        if response.is_error:
            self._address.last_error = f"HTTP {response.status_code} {response.reason_phrase}"
        # The status for an unknown session (MCP 2025-11-25, basic/transports, "Session
        # Management"); the SDK reports it only as text.
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
    transport: AbstractAsyncContextManager[Any],
    on_end: Callable[[str], None],
    on_result: OnResult,
) -> AsyncGenerator[Any]:
    async with transport as (read, write):
        yield _Watched(read, on_end, on_result), write


class _Watched:
    """The stream of the server's messages, which also reports its end, unlike the SDK."""

    def __init__(
        self, stream: Any, on_end: Callable[[str], None], on_result: OnResult = _ignore
    ) -> None:
        self._stream, self._on_end, self._on_result = stream, on_end, on_result

    @property
    def last_context(self) -> Any:
        """The sender's context in the SDK's HTTP streams, for traces."""
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
            self._on_end("the server closed the connection")
            raise
        if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
            self._on_result(message.message.result)
        return message

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> bool | None:
        handled: bool | None = await self._stream.__aexit__(*details)
        return handled


def _with_file(stderr: TextIO | None) -> TextIO:
    """Return *stderr*, or this process's; in notebooks and tests `sys.stderr` has no file."""
    if stderr is not None:
        return stderr
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError):  # `io.UnsupportedOperation` is an OSError.
        return sys.__stderr__ or sys.stderr
    return sys.stderr
