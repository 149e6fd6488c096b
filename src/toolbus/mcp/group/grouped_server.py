"""One server of a group: its link, its open requests, and the result of its handshake.

Request ids are unique in the group, so that a response or progress of a server can only refer to a
request to that server.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.errors import ToolbusError
from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, write_frame
from toolbus.mcp.protocol.revisions import params_of
from toolbus.mcp.session.request_table import PendingRequests, fail
from toolbus.mcp.session.request_table import resolve as resolve_request
from toolbus.mcp.transport.launch import listed_environment
from toolbus.mcp.transport.processes import describe_end, start

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from toolbus.mcp.group.settings import ServerSettings
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.link import ServerLink

    Receive = Callable[["GroupedServer", bytes], Coroutine[Any, Any, None]]

logger = logging.getLogger("toolbus")


class ServerError(ToolbusError):
    """A server's error response, with the value of its JSON-RPC member *error*."""

    def __init__(self, error: Any) -> None:
        self.error = error
        super().__init__(error)

    def __str__(self) -> str:
        # Quoted, because a server may choose a misleading text.
        text = self.error.get("message") if isinstance(self.error, dict) else None
        return repr(text if isinstance(text, str) else self.error)[:200]


def rpc_error(code: int, message: str) -> ServerError:
    """Return an error response of the group itself."""
    return ServerError({"code": code, "message": message})


class GroupedServer:
    """A server of a group; it is *ready* while it runs and its handshake is complete."""

    def __init__(self, settings: ServerSettings, limits: ProxyLimits, ids: Iterator[int]) -> None:
        self.name, self.resources, self._settings = settings.name, settings.resources, settings
        self._limits, self._ids = limits, ids
        self.ready = self.is_probed = False
        self.connected = asyncio.Event()
        """Set when the server is connected, or has failed to start."""
        self.hello: dict[str, Any] = {}
        """The result of its `initialize` or `server/discover`."""
        self.pending = PendingRequests()
        self._tokens: dict[Any, int] = {}
        self.link: ServerLink | None = None
        """The link, once it is connected."""
        self._finished = self._restarts = False

    async def run(self, receive: Receive) -> None:
        """Start the server, pass its lines to *receive*, and fail its open requests at its end."""

        async def receive_line(line: bytes) -> None:
            await receive(self, line)

        try:
            while True:
                self.link = await self._connect()
                self.connected.set()
                why = await self.link.lines(self._limits.frame, receive_line, lambda: None)
                code = await self.link.end(self._limits.grace, at_once=bool(why))
                if not self._restarts:
                    break
                self._restarts = False
                await self.link.kill()
            why = f"was stopped: {why}" if why else describe_end(code)
        except OSError as error:
            why = f"failed to start: {self._settings.command[0]!r}, {error.strerror}"
        except ImportError as error:
            why = f"cannot be reached: {error}"
        self.fail(why)

    async def _connect(self) -> ServerLink:
        settings = self._settings
        if settings.url is None:
            return await start(settings.command, listed_environment(settings.env))
        from toolbus.mcp.transport.remote import RemoteServer  # noqa: PLC0415 - h11 is an extra

        return RemoteServer(settings.url, self._limits, None, settings.headers)

    async def restart(self) -> None:
        """Restart the server's process, if it has one, and wait until it is connected.

        The first request to a process may fix its revision: MCP 2026-07-28, basic/versioning,
        "Backward Compatibility".
        """
        if self._settings.url is None and self.link and self.gone is None:
            self.connected.clear()
            self._restarts = True
            await self.link.end(self._limits.grace, at_once=True)
        self.is_probed = self.ready = False
        await self.connected.wait()

    def fail(self, why: str) -> None:
        """Mark the server as gone, fail its requests, and log a warning if it was still in use."""
        self.ready = False
        if self.gone is None:
            self.pending.server_gone(f"server {self.name!r} {why}")
            if not self._finished:
                logger.warning("%s; the other servers continue", self.gone)
        self.connected.set()

    @property
    def gone(self) -> str | None:
        """The reason why the server is gone, or None."""
        return self.pending.gone

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities in its handshake."""
        capabilities = self.hello.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def supports(self, capability: str, part: str | None = None) -> bool:
        """Return whether the server is ready and has *capability*, with its member *part*."""
        offered = self.capabilities.get(capability) if self.ready else None
        return isinstance(offered, dict) and (part is None or part in offered)

    def next_id(self) -> int:
        """Return an id for a request to the server."""
        return next(self._ids)

    async def ask(
        self, method: str, params: Any = UNSET, *, token: Any = None, request_id: int | None = None
    ) -> Any:
        """Send a request and return its result; raises `ServerError`.

        *token* is the client's progress token. Cancelling this cancels the request.
        """
        request_id = self.next_id() if request_id is None else request_id
        members = {} if params is UNSET else {"params": params}
        line = write_frame(id=request_id, method=method, **members)
        if token is not None:
            self._tokens[token] = self._tokens.get(token, 0) + 1
        try:
            answer = await self.pending.ask(request_id, line, self.write, method)
        finally:
            if token is not None:
                self._tokens[token] -= 1
                if not self._tokens[token]:
                    del self._tokens[token]
        if answer.failed:
            raise ServerError(answer.error)
        if answer.result is UNSET:
            raise rpc_error(SERVER_GONE, f"server {self.name!r} sent a response without a result")
        return answer.result

    def resolve(self, frame: Frame) -> None:
        """Resolve the request that *frame* answers; a response to no request is dropped."""
        if (request := self.pending.asked.pop(frame.id)) is not None:
            resolve_request(request, frame)
        else:
            logger.warning("dropped a response of server %r without an open request", self.name)

    def fail_request(self, request_id: Any, reason: str) -> None:
        """Fail the open request *request_id* for *reason*, if there is one."""
        if (request := self.pending.asked.pop(request_id)) is not None:
            fail(request, SERVER_GONE, reason)

    def owes_progress(self, frame: Frame) -> bool:
        """Return whether the progress notification *frame* refers to an open request."""
        token = params_of(frame).get("progressToken")
        return isinstance(token, str | int) and token in self._tokens

    def write(self, line: bytes) -> None:
        """Send a line; it is dropped if the server is gone."""
        if self.link is not None and self.gone is None:
            self.link.write(line)

    def finish(self) -> None:
        """Close the server's input."""
        self._finished = True
        if self.link is not None:
            self.link.finish()
