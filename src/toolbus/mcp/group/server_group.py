"""Several servers that are one to a client session, which writes to them as to one process.

What the client asks goes to the server that its name or URI tells, what it lists is asked of all,
and what servers ask goes to the client under ids of ours. One that ends, hangs or does not start
is told of on standard error, and is not there: the others go on.

It speaks the revisions of MCP that begin with a handshake.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.group.group_requests import GroupRequests
from toolbus.mcp.group.grouped_server import GroupedServer, ServerError
from toolbus.mcp.group.server_requests import ServerRequests
from toolbus.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    SERVER_GONE,
    error_frame,
    read_batch,
    read_frame,
    scan_top_level,
    write_frame,
)
from toolbus.mcp.protocol.revisions import CANCELLED, PROGRESS, cancelled_id
from toolbus.mcp.session.request_table import fail
from toolbus.mcp.transport.processes import FAILED, start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.mcp.group.grouped_server import ServerSettings
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.session.request_table import Send
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.link import ServerLink, Wait

logger = logging.getLogger("toolbus")

_MOST_WAITING = 64
"""How many lines for the client may wait before a server waits that says more."""


async def start_servers(
    command: Sequence[str], servers: Sequence[ServerSettings], limits: ProxyLimits
) -> ServerLink:
    """Start *servers*, or *command* if there are none; raises `OSError` if that cannot be."""
    return ServerGroup(servers, limits) if servers else await start(command)


class ServerGroup:
    """The servers of *settings*, which start at once; together they are a `ServerLink`."""

    def __init__(self, settings: Sequence[ServerSettings], limits: ProxyLimits) -> None:
        ids = count(1)
        self._servers = [GroupedServer(each, limits, ids) for each in settings]
        # What is said to the client, in one order: a session takes one line after another.
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._requests = GroupRequests(self._servers, self._outbox.put_nowait)
        self._asked = ServerRequests()
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self._finished = asyncio.Event()
        self._running = [asyncio.create_task(self._run(server)) for server in self._servers]

    # --- what a session uses of a process ------------------------------------------------------

    def write(self, line: bytes) -> None:
        """Take a line of the client."""
        if (batch := read_batch(line)) is not None:
            for part in batch:
                self._take(part, read_frame(part), self._outbox.put_nowait)
        elif line.strip():
            self._take(line, read_frame(line), self._outbox.put_nowait)

    def drain(self) -> None:
        """Wait for nothing: a server that does not read must not stop the others."""

    def signal(self, number: int) -> None:
        """Pass a signal on to all."""
        for server in self._servers:
            server.signal(number)

    def finish(self) -> None:
        """Tell all that nothing more comes."""
        self._finished.set()
        for server in self._servers:
            server.finish()

    async def lines(
        self, _limit: int, take: Callable[[bytes], Wait], drain: Callable[[], Wait]
    ) -> str:
        """Give *take* what is said to the client, until all have ended after `finish`."""
        passing = asyncio.create_task(self._pass_on(take, drain))
        ending = asyncio.create_task(self._ended())
        try:
            await asyncio.wait({passing, ending}, return_when=asyncio.FIRST_COMPLETED)
            return FAILED if passing.done() else ""
        finally:
            passing.cancel()
            ending.cancel()

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """End all of them; return 0."""
        self.finish()
        await asyncio.gather(*[server.end(grace, at_once=at_once) for server in self._servers])
        await asyncio.wait(self._running)
        return 0

    async def kill(self) -> None:
        """Leave nothing of them behind."""
        self.finish()
        tasks = [*self._answering.values(), *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.gather(*[server.kill() for server in self._servers])

    async def _ended(self) -> None:
        await self._finished.wait()
        await asyncio.wait(self._running)
        await self._outbox.join()

    async def _pass_on(self, take: Callable[[bytes], Wait], drain: Callable[[], Wait]) -> None:
        try:
            while True:
                line = await self._outbox.get()
                for rest in (take(line), drain()):
                    if rest is not None:
                        await rest
                self._outbox.task_done()
        except Exception:
            logger.exception("what the servers said could not be taken")

    # --- what the client says ------------------------------------------------------------------

    def _take(self, line: bytes, frame: Frame | None, reply: Send) -> None:
        if frame is None:
            reply(error_frame(scan_top_level(line)[0], PARSE_ERROR, "this is no JSON-RPC"))
        elif frame.is_answer:
            self._asked.answer(frame)
        elif frame.is_request:
            task = asyncio.create_task(self._answer(frame, reply))
            self._answering[frame.id] = task
            task.add_done_callback(lambda _: self._forget(frame.id, task))
        elif frame.method == CANCELLED:
            if (under_way := self._answering.get(cancelled_id(frame))) is not None:
                under_way.cancel()
        elif frame.method == PROGRESS:
            self._asked.progress(frame)
        elif frame.method == "notifications/initialized":
            self._requests.initialized()
        else:
            self._tell_all(frame)

    def _tell_all(self, frame: Frame) -> None:
        params = {} if frame.params is UNSET else {"params": frame.params}
        for server in self._servers:
            if server.ready:
                server.write(write_frame(method=frame.method, **params))

    def _forget(self, request_id: Any, task: asyncio.Task[None]) -> None:
        if self._answering.get(request_id) is task:
            del self._answering[request_id]

    async def _answer(self, frame: Frame, reply: Send) -> None:
        try:
            reply(write_frame(id=frame.id, result=await self._requests.answer(frame)))
        except ServerError as error:
            reply(write_frame(id=frame.id, error=error.error))
        except Exception as error:
            logger.exception("%s could not be answered", frame.method)
            reply(error_frame(frame.id, INTERNAL_ERROR, type(error).__name__))

    # --- what a server says --------------------------------------------------------------------

    async def _run(self, server: GroupedServer) -> None:
        try:
            await server.run(self._take_from)
        except Exception:
            logger.exception("server %r could not be served", server.name)
            server.fail(FAILED)
        if not self._finished.is_set():
            for line in self._asked.forget(server):
                self._outbox.put_nowait(line)
            self._requests.changed(server)

    async def _take_from(self, server: GroupedServer, line: bytes) -> None:
        frame = read_frame(line)
        if frame is not None:
            try:
                self._take_frame(server, frame)
            except ValueError as error:
                logger.warning("what server %r said is dropped: %s", server.name, error)
        elif (batch := read_batch(line)) is not None:
            for part in batch:
                await self._take_from(server, part)
        elif line.strip():
            logger.warning("server %r wrote %d bytes that are no JSON-RPC", server.name, len(line))
            if (request := server.pending.asked.take(scan_top_level(line)[0])) is not None:
                reason = "the server's answer is no JSON-RPC"
                fail(request, SERVER_GONE, reason)
        if self._outbox.qsize() > _MOST_WAITING:
            await self._outbox.join()

    def _take_frame(self, server: GroupedServer, frame: Frame) -> None:
        if frame.is_answer:
            server.answered(frame)
        elif frame.is_request and frame.method == "ping":
            server.write(write_frame(id=frame.id, result={}))
        elif frame.is_request:
            self._outbox.put_nowait(self._asked.ask(server, frame))
        elif frame.method == CANCELLED:
            if (notice := self._asked.cancelled(server, cancelled_id(frame))) is not None:
                self._outbox.put_nowait(notice)
        elif frame.method == PROGRESS and not server.owes_progress(frame):
            logger.warning("server %r told of progress that nobody asked for; dropped", server.name)
        elif frame.method is not UNSET:
            self._outbox.put_nowait(_notification(server, frame))


def _notification(server: GroupedServer, frame: Frame) -> bytes:
    """Return what the client is told; of a log message also whose it is."""
    if frame.params is UNSET:
        return write_frame(method=frame.method)
    params = frame.params
    if frame.method == "notifications/message" and isinstance(params, dict):
        logger_name = params.get("logger")
        name = f"{server.name}/{logger_name}" if isinstance(logger_name, str) else server.name
        return write_frame(method=frame.method, params={**params, "logger": name})
    return write_frame(method=frame.method, params=params)
