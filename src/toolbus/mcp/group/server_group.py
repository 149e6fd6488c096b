"""The link of a client session to a group of servers, which acts as one server.

A request goes to the server named by its prefix or URI, a list is requested from all, and requests
of the servers go to the client with new ids. A server that ends, hangs or fails to start is
reported on standard error and left out; the other servers continue.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from toolbus.mcp.group.grouped_server import GroupedServer, ServerError
from toolbus.mcp.group.merge import add_owner, form_with_owner, remove_owner
from toolbus.mcp.group.router import Router
from toolbus.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    error_frame,
    read_batch,
    read_frame,
    scan_top_level,
    write_frame,
)
from toolbus.mcp.protocol.revisions import CANCELLED, ELICIT, PROGRESS, cancelled_id, params_of
from toolbus.mcp.transport.processes import PROXY_FAILED, start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.mcp.group.settings import ServerSettings
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.link import ServerLink, Wait

logger = logging.getLogger("toolbus")

_MAX_QUEUED = 64
"""The number of queued lines for the client above which a server's next line waits."""

_TASK_STATUS = "notifications/tasks/status"


async def start_servers(
    command: Sequence[str], servers: Sequence[ServerSettings], limits: ProxyLimits
) -> ServerLink:
    """Start *servers*, or *command* if there are none, and return the link; raises `OSError`."""
    return ServerGroup(servers, limits) if servers else await start(command)


class _Asked(NamedTuple):
    """An unanswered request of *server* to the client."""

    server: GroupedServer
    id: Any
    token: Any


class ServerGroup:
    """The `ServerLink` to the servers of *settings*, which start concurrently."""

    def __init__(self, settings: Sequence[ServerSettings], limits: ProxyLimits) -> None:
        ids = count(1)
        self._servers = [GroupedServer(each, limits, ids) for each in settings]
        # One queue for all servers, because a session processes one line after another.
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._router = Router(self._servers, self._outbox.put_nowait)
        # A client may reuse the id of an open request; a cancellation applies to the last one.
        self._answers: set[asyncio.Task[None]] = set()
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self._asked: dict[str, _Asked] = {}
        self._asked_count = count(1)
        self._client_tasks: dict[str, GroupedServer] = {}
        self._finished = asyncio.Event()
        self._running = [asyncio.create_task(self._run(server)) for server in self._servers]

    # --- the link ------------------------------------------------------------------------------

    def write(self, line: bytes) -> None:
        """Process a line of the client."""
        if (batch := read_batch(line)) is not None:
            for part in batch:
                self._from_client(part)
        elif line.strip():
            self._from_client(line)

    def drain(self) -> None:
        """Return None: one server that does not read must not block the others."""

    def signal(self, number: int) -> None:
        """Forward a signal to all servers."""
        for link in self._links():
            link.signal(number)

    def finish(self) -> None:
        """Close the input of all servers."""
        self._finished.set()
        for server in self._servers:
            server.finish()

    async def lines(
        self, _limit: int, take: Callable[[bytes], Wait], drain: Callable[[], Wait]
    ) -> str:
        """Pass each line for the client to *take*, until all servers have ended after `finish`."""
        passing = asyncio.create_task(self._deliver(take, drain))
        ending = asyncio.create_task(self._ended())
        try:
            await asyncio.wait({passing, ending}, return_when=asyncio.FIRST_COMPLETED)
            return PROXY_FAILED if passing.done() else ""
        finally:
            passing.cancel()
            ending.cancel()

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """End all servers; return 0."""
        self.finish()
        await asyncio.gather(*[link.end(grace, at_once=at_once) for link in self._links()])
        await asyncio.wait(self._running)
        return 0

    async def kill(self) -> None:
        """Kill all servers and cancel all tasks."""
        self.finish()
        tasks = [*self._answers, *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._router.negotiation.close()
        await asyncio.gather(*[link.kill() for link in self._links()])

    def _links(self) -> list[ServerLink]:
        return [server.link for server in self._servers if server.link is not None]

    async def _ended(self) -> None:
        await self._finished.wait()
        await asyncio.wait(self._running)
        await self._outbox.join()

    async def _deliver(self, take: Callable[[bytes], Wait], drain: Callable[[], Wait]) -> None:
        try:
            while True:
                line = await self._outbox.get()
                for rest in (take(line), drain()):
                    if rest is not None:
                        await rest
                self._outbox.task_done()
        except Exception:
            logger.exception("could not process the servers' output")

    # --- frames of the client ------------------------------------------------------------------

    def _from_client(self, line: bytes) -> None:
        frame = read_frame(line)
        if frame is None:
            self._outbox.put_nowait(
                error_frame(scan_top_level(line)[0], PARSE_ERROR, "expected a JSON-RPC frame")
            )
        elif frame.is_response:
            self._answer_server(frame)
        elif frame.is_request:
            task = asyncio.create_task(self._answer(frame))
            self._answers.add(task)
            self._answering[frame.id] = task
            task.add_done_callback(lambda _: self._forget(frame.id, task))
        elif frame.method == CANCELLED:
            if (under_way := self._answering.get(cancelled_id(frame))) is not None:
                under_way.cancel()
        elif frame.method == "notifications/initialized":
            self._router.negotiation.initialized()
        else:
            self._notify_servers(frame)

    def _forget(self, request_id: Any, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        if self._answering.get(request_id) is task:
            del self._answering[request_id]

    async def _answer(self, frame: Frame) -> None:
        try:
            answer = write_frame(id=frame.id, result=await self._router.answer(frame))
        except ServerError as error:
            answer = write_frame(id=frame.id, error=error.error)
        except Exception as error:
            logger.exception("could not answer %s", frame.method)
            answer = error_frame(frame.id, INTERNAL_ERROR, type(error).__name__)
        self._outbox.put_nowait(answer)

    def _answer_server(self, frame: Frame) -> None:
        """Send the client's response to the server that sent the request."""
        if (asked := self._asked.pop(frame.id, None)) is None:
            return
        match frame.result:
            case {"task": {"taskId": str(task_id)}}:
                self._client_tasks[task_id] = asked.server
        result = None if frame.result is UNSET else frame.result
        kind, value = ("error", frame.error) if frame.failed else ("result", result)
        asked.server.write(
            write_frame(id=asked.id, **{kind: remove_owner(asked.server.name, value)})
        )

    def _notify_servers(self, frame: Frame) -> None:
        """Forward a notification of the client to the server concerned, or to all servers."""
        params = params_of(frame)
        if frame.method == PROGRESS:
            if (asked := self._asked.get(_text(params, "progressToken"))) is not None:
                params = {**params, "progressToken": asked.token}
                asked.server.write(write_frame(method=frame.method, params=params))
            return
        owner = self._client_tasks.get(_text(params, "taskId"))
        for server in self._servers:
            if server.ready and (frame.method != _TASK_STATUS or server is owner):
                server.write(write_frame(method=frame.method, params=params))

    # --- frames of a server --------------------------------------------------------------------

    async def _run(self, server: GroupedServer) -> None:
        try:
            await server.run(self._from_server)
        except Exception:
            logger.exception("could not serve server %r", server.name)
            server.fail(PROXY_FAILED)
        if not self._finished.is_set():
            for own_id, asked in [*self._asked.items()]:
                if asked.server is server:
                    self._cancel(own_id)
            self._router.changed(server)

    async def _from_server(self, server: GroupedServer, line: bytes) -> None:
        frame = read_frame(line)
        if frame is not None:
            self._frame_from_server(server, frame)
        elif (batch := read_batch(line)) is not None:
            for part in batch:
                await self._from_server(server, part)
        elif line.strip():
            logger.warning(
                "dropped %d bytes of server %r: invalid JSON-RPC", len(line), server.name
            )
            problem = "the server's response is not valid JSON-RPC"
            server.fail_request(scan_top_level(line)[0], problem)
        if self._outbox.qsize() > _MAX_QUEUED:
            await self._outbox.join()

    def _frame_from_server(self, server: GroupedServer, frame: Frame) -> None:
        if frame.is_response:
            server.resolve(frame)
        elif frame.is_request and frame.method == "ping":
            server.write(write_frame(id=frame.id, result={}))
        elif frame.is_request:
            self._ask_client(server, frame)
        elif frame.method == CANCELLED:
            self._cancelled_by_server(server, cancelled_id(frame))
        elif frame.method == PROGRESS and not server.owes_progress(frame):
            logger.warning("dropped progress of server %r without an open request", server.name)
        elif frame.method is not UNSET:
            self._notify_client(server, frame)

    def _ask_client(self, server: GroupedServer, frame: Frame) -> None:
        """Forward a request of *server* to the client, with an id and token unique in the group."""
        method, params = str(frame.method), add_owner(server.name, params_of(frame))
        if self._router.negotiation.revision is not None:
            reason = "servers cannot send requests in this revision"
            server.write(error_frame(frame.id, INVALID_REQUEST, reason))
            return
        if method.startswith("tasks/"):
            params = params_of(frame)
            if self._client_tasks.get(_text(params, "taskId")) is not server:
                reason = "unknown task"
                server.write(error_frame(frame.id, INVALID_PARAMS, reason))
                return
        if method == ELICIT:
            params = form_with_owner(server.name, params)
        own_id, token, meta = f"{server.name}:{next(self._asked_count)}", None, params.get("_meta")
        if isinstance(meta, dict) and "progressToken" in meta:
            token = meta["progressToken"]
            params = {**params, "_meta": {**meta, "progressToken": own_id}}
        self._asked[own_id] = _Asked(server, frame.id, token)
        self._outbox.put_nowait(write_frame(id=own_id, method=method, params=params))

    def _notify_client(self, server: GroupedServer, frame: Frame) -> None:
        """Forward a notification of *server*; a log message gets the server's name as logger."""
        method, params = str(frame.method), add_owner(server.name, params_of(frame))
        if method == "notifications/message":
            name = params.get("logger")
            params["logger"] = f"{server.name}/{name}" if isinstance(name, str) else server.name
        if method == "notifications/resources/list_changed":
            self._router.forget_resources()
        if not self._router.forward_subscription(server, method, params):
            self._outbox.put_nowait(write_frame(method=method, params=params))

    def _cancelled_by_server(self, server: GroupedServer, request_id: Any) -> None:
        """Forward the cancellation of a request by *server*, or end its subscription."""
        for own_id, asked in self._asked.items():
            if asked.server is server and asked.id == request_id:
                self._cancel(own_id)
                return
        server.fail_request(request_id, "the server cancelled the request")

    def _cancel(self, own_id: str) -> None:
        del self._asked[own_id]
        self._outbox.put_nowait(write_frame(method=CANCELLED, params={"requestId": own_id}))


def _text(params: dict[str, Any], name: str) -> str:
    """Return the string *name* of *params*, empty if it is missing."""
    value = params.get(name)
    return value if isinstance(value, str) else ""
