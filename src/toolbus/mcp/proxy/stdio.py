"""The proxy on pipes, with the client on standard input and output."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    FrameTooLongError,
    LineSplitter,
    error_frame,
    scan_top_level,
)
from toolbus.mcp.proxy.byte_relay import open_session
from toolbus.mcp.session.request_table import Channels
from toolbus.mcp.transport.limits import ProxyLimits
from toolbus.mcp.transport.pipes import open_sink, read_loop
from toolbus.mcp.transport.processes import PROXY_FAILED, adopt, explain_end, start

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from toolbus.mcp.group.settings import ServerSettings
    from toolbus.mcp.proxy.byte_relay import ByteRelay
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.judged_session import JudgedSession
    from toolbus.mcp.transport.launch import LaunchedServer
    from toolbus.mcp.transport.link import ServerLink
    from toolbus.mcp.transport.pipes import ByteSink

logger = logging.getLogger("toolbus")

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def run_stdio(
    proxy: Proxy,
    command: Sequence[str],
    limits: ProxyLimits | None = None,
    *,
    output: int = 1,
    launched: LaunchedServer | None = None,
    servers: Sequence[ServerSettings] = (),
) -> int:
    """Run the proxy between standard input and output and the server *command*.

    *launched* is that server if it runs already; *servers* replace it. Returns the server's exit
    code, or 128 plus the number of the signal that ended it. Raises `OSError` if the server cannot
    be started.
    """
    limits = limits or ProxyLimits()
    server: ServerLink
    if servers:
        from toolbus.mcp.group import server_group  # noqa: PLC0415 - rarely needed

        server = server_group.ServerGroup(servers, limits)
    else:
        server = await (start(command) if launched is None else adopt(launched))
    return await run_link(proxy, server, limits, output)


async def run_link(proxy: Proxy, server: ServerLink, limits: ProxyLimits, output: int = 1) -> int:
    """Run the proxy between standard input, *output* and *server*; return the exit code."""
    try:
        sink = await open_sink(output)
        session = open_session(proxy, Channels(sink.write, server.write))
        return await _StdioRun(session, server, sink, limits).run()
    finally:
        await server.kill()


class _StdioRun:
    """One run of the proxy on pipes."""

    def __init__(
        self,
        session: JudgedSession | ByteRelay,
        server: ServerLink,
        output: ByteSink,
        limits: ProxyLimits,
    ) -> None:
        self._session, self._server, self._output = session, server, output
        self._limits, self._signal = limits, 0

    async def run(self) -> int:
        """Forward lines until either side ends or a signal comes; return the exit code."""
        session, server, limit = self._session, self._server, self._limits.frame
        asking = asyncio.create_task(pass_requests(session, self._output, server.drain, limit))
        take = session.begin_from_server
        answering = asyncio.create_task(server.lines(limit, take, self._output.drain))
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def stop(number: int) -> None:
            self._signal = number
            if not stopped.done():
                stopped.set_result(None)
            else:
                server.signal(number)

        with signal_handlers(stop):
            lost = asyncio.ensure_future(self._output.lost)
            ends: set[asyncio.Future[Any]] = {asking, answering, stopped, lost}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await self._client_gone(answering)
            code = await self._server_gone(answering)
        ends.remove(stopped)
        for end in ends:
            end.cancel()
        await asyncio.wait(ends)
        await self._session.close()
        await self._output.close(self._limits.grace)
        return code

    async def _client_gone(self, answering: asyncio.Task[str]) -> None:
        """Let open work finish, or forward the signal; then close the server's input and wait."""
        self._session.client_gone()
        if self._signal:
            self._server.signal(self._signal)
        else:
            # Also until the server ends, because an ended server answers nothing more.
            settling = asyncio.create_task(self._session.settle(self._limits.grace))
            await asyncio.wait({settling, answering}, return_when=asyncio.FIRST_COMPLETED)
            settling.cancel()
        self._server.finish()
        await asyncio.wait({answering}, timeout=self._limits.grace)

    async def _server_gone(self, answering: asyncio.Task[str]) -> int:
        """End the server, fail its open requests, and return its exit code."""
        grace = self._limits.grace
        why = answering.result() if answering.done() else "it did not exit in time"
        if why:
            logger.error("stopping the server: %s", why)
        code = await self._server.end(grace, at_once=bool(why))
        self._session.server_gone(explain_end(code, why))
        await self._session.settle(grace)
        return code


async def pass_requests(
    session: JudgedSession | ByteRelay,
    output: ByteSink,
    drain: Callable[[], Coroutine[Any, Any, None] | None],
    limit: int,
) -> None:
    """Pass the lines of standard input to *session* until its end; *drain* waits for the server."""
    lines = LineSplitter(limit)

    def take(data: bytes) -> Coroutine[Any, Any, None] | None:
        for line in lines.feed(data):
            _process_line(session, line, output)
        return drain()

    try:
        await read_loop(0, take)
    except FrameTooLongError as error:
        output.write(error_frame(None, INVALID_REQUEST, str(error)))
        return
    if lines.remainder:
        _process_line(session, lines.remainder, output)


def _process_line(session: JudgedSession | ByteRelay, line: bytes, output: ByteSink) -> None:
    try:
        session.from_client(line)
    except Exception:
        # The client gets an error response, and the next line may be fine.
        logger.exception("could not process a frame of the client")
        request_id, names = scan_top_level(line)
        if request_id is not UNSET and "method" in names:
            output.write(error_frame(request_id, INTERNAL_ERROR, PROXY_FAILED))


@contextmanager
def signal_handlers(stop: Callable[[int], None]) -> Iterator[None]:
    """Call *stop* with the number of each terminating signal."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
