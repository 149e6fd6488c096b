"""The server of the page on the loopback, with limits on the time and size of requests."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp

_MOST_CONNECTIONS, _HEAD_BYTES, _HEAD_SECONDS = 100, 2**14, 10.0
_BINDS = 20
_NO_IPV6 = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}


def listen_on_loopback(port: int = 0) -> list[socket.socket]:
    """Return sockets at *port*, by default a free one, of 127.0.0.1 and of ::1 if it exists.

    A browser may try ::1 first, where a server of another user would get the link. Raises
    `UsageError` if *port* is in use.
    """
    for _ in range(_BINDS):
        sockets: list[socket.socket] = []
        try:
            sockets.append(_bind(socket.AF_INET, "127.0.0.1", port))
            sockets.append(_bind(socket.AF_INET6, "::1", sockets[0].getsockname()[1]))
        except OSError as error:
            if sockets and error.errno in _NO_IPV6:
                return sockets
            for bound in sockets:
                bound.close()
            if error.errno != errno.EADDRINUSE:
                raise
            if port:
                break
        else:
            return sockets
    raise UsageError(f"port {port} is in use; leave --port out for a free one")


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server of *app* that logs nothing and ends within a second."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=0,  # Streams of events have no end.
    )
    return uvicorn.Server(config)


class LimitedProtocol(H11Protocol):
    """A connection on which the head of each request must arrive in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Process *data*; the time goes on while a head is incomplete."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start_timer()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound
