"""The one place that knows uvicorn, the extra `http`: connections, and their end."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import resource
import socket
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolbus.mcp.http.asgi_app import AsgiApp
from toolbus.mcp.proxy.stdio import calling_on_signals
from toolbus.settings.extras import needs_extra

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    msg = needs_extra("to listen for HTTP clients the proxy needs uvicorn", "http")
    raise ImportError(msg) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.mcp.http.asgi_app import Backend, Rules

logger = logging.getLogger("toolbus")

_BACKLOG = 2_048
_FILES = 16_384
"""How many connections may be open, if the system lets us."""

_HEAD = 2**16


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only of a socket that says that it is of TCP does asyncio switch off Nagle's algorithm, with
    # which each answer of a head and a body would take 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


async def serve(bound: socket.socket, backend: Backend, rules: Rules, grace: float) -> int:
    """Let clients in at *bound* until a signal ends it; return 0.

    What is under way then has *grace* seconds. A second signal does not wait.
    """
    _allow_connections()
    app = AsgiApp(backend, rules)
    server = _UvicornServer(_config(app, rules, grace), lambda: _print_address(bound, rules.path))
    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ending: asyncio.Task[None] | None = None

    def stop(_number: int) -> None:
        if not stopped.done():
            stopped.set_result(None)
        elif ending is not None:
            ending.cancel()

    with calling_on_signals(stop):
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        ending = asyncio.create_task(app.close(grace))
        await asyncio.wait({ending})
        server.should_exit = True
        await serving
    return 0


def _print_address(bound: socket.socket, path: str) -> None:
    host, port = bound.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    print(f"toolbus: listening on http://{name}:{port}{path}", file=sys.stderr, flush=True)  # noqa: T201


def _allow_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _config(app: Any, rules: Rules, grace: float) -> uvicorn.Config:
    seconds: Any = rules.seconds
    return uvicorn.Config(
        app,
        http=_HttpProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        # A relay passes on what the server says of itself.
        server_header=False,
        date_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEAD,
        timeout_keep_alive=seconds,
        timeout_graceful_shutdown=max(1, int(grace)),
    )


class _UvicornServer(uvicorn.Server):
    """A server that leaves signals to us, and calls *ready* when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _HttpProtocol(H11Protocol):
    """A connection that is closed if a request takes too long to come, or an answer to be read."""

    _flush: Callable[[], None]
    _timer: asyncio.TimerHandle | None = None
    _reads: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        joiner: Any = _WriteJoiner(transport, self.loop)
        self._flush = joiner.flush
        super().connection_made(joiner)
        # So we are told of the first byte that the system does not take, not of the 65,536th.
        transport.set_write_buffer_limits(0)
        self._timer = self.loop.call_later(self.timeout_keep_alive, self._close_silent)

    def on_response_complete(self) -> None:
        self._flush()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Bytes that make no head yet have stopped the timer of a connection that was idle.
        waits = self.cycle is None or self.cycle.response_complete
        if waits and self._timer is None and self.timeout_keep_alive_task is None:
            self._timer = self.loop.call_later(self.timeout_keep_alive, self._close_silent)
        elif not waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch(_unread(self.transport))

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reads is not None:
            self._reads.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._reads):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _watch(self, unread: int) -> None:
        self._reads = self.loop.call_later(self.timeout_keep_alive, self._close_unread, unread)

    def _close_unread(self, before: int) -> None:
        """Give up a client that has read nothing since *before* bytes were unread."""
        unread = _unread(self.transport)
        if unread < before:
            self._watch(unread)
        else:
            self.transport.abort()

    def _close_silent(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


class _WriteJoiner:
    """A transport that sends at once what is written in one turn: a head, a body and their end."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if data:
            if not self._waiting:
                self._loop.call_soon(self.flush)
            self._waiting.append(data)

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        # Joining what is long costs more than sending it by itself.
        if sum(map(len, waiting)) < _HEAD:
            waiting = [b"".join(waiting)]
        for data in filter(None, waiting):
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()


def _unread(transport: Any) -> int:
    """Return how many bytes have not come to the other end, for all that we know."""
    waiting: int = transport.get_write_buffer_size()
    try:
        # The system may hold megabytes for a client that reads slowly, and asks for more seldom.
        held = fcntl.ioctl(transport.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4))
    except OSError:
        return waiting
    return waiting + int.from_bytes(held, sys.byteorder)
