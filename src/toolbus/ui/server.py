"""The server of the page on the loopback, with limits on the time and size of requests."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolbus.http.server import listen_on
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

_MOST_CONNECTIONS, _HEAD_BYTES, _SECONDS = 100, 2**14, 5.0


def listen_on_loopback(port: int = 0) -> list[socket.socket]:
    """Return sockets at *port*, by default a free one, of 127.0.0.1 and of ::1 if it exists.

    A browser may try ::1 first, where a server of another user would get the link. Raises
    `UsageError` if *port* is in use.
    """
    sockets: list[socket.socket] = []
    try:
        for host in ("127.0.0.1", "::1"):
            sockets.append(listen_on(host, port))
            port = sockets[0].getsockname()[1]
    except OSError as error:
        if not sockets or error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
            for bound in sockets:
                bound.close()
            if error.errno == errno.EADDRINUSE:
                raise UsageError(f"port {port} is in use; give another --port, or none") from error
            raise
    return sockets


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server of *app* that logs nothing and ends if `should_exit` is set."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=0,  # Streams of events do not end.
    )
    return uvicorn.Server(config)


class LimitedProtocol(H11Protocol):
    """A connection on which its one request must arrive in time."""

    def connection_made(self, transport: Any) -> None:
        """Wait for the request."""
        super().connection_made(transport)
        self.loop.call_later(_SECONDS, self._end_without_request)

    def _end_without_request(self) -> None:
        if self.cycle is None or self.cycle.more_body:
            self.transport.abort()
