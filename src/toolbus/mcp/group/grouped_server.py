"""One server of a group: the link to it, what it owes, and what it has told of itself.

Ids are those of the group: each request to a server has one that no other request has, so that an
answer, or a notification of progress, of a server can only be about what that server was asked.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.errors import ToolbusError
from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, write_frame
from toolbus.mcp.protocol.revisions import params_of
from toolbus.mcp.session.request_table import PendingRequests, fail, resolve
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
    """A server answered a request with *error*, the value of that JSON-RPC member."""

    def __init__(self, error: Any) -> None:
        self.error = error
        super().__init__(error)

    def __str__(self) -> str:
        # In quotes: a server may have chosen its words to mislead.
        text = self.error.get("message") if isinstance(self.error, dict) else None
        return repr(text if isinstance(text, str) else self.error)[:200]


def rpc_error(code: int, message: str) -> ServerError:
    """Return the error by which a group itself answers a request."""
    return ServerError({"code": code, "message": message})


class GroupedServer:
    """The server of *settings*; it is *ready* while it lives and the client can use it."""

    def __init__(self, settings: ServerSettings, limits: ProxyLimits, ids: Iterator[int]) -> None:
        self.name, self._settings = settings.name, settings
        self._limits, self._ids = limits, ids
        self.ready = self.is_probed = False
        self.connected = asyncio.Event()
        """Set when it can be written to, or never can."""
        self.hello: dict[str, Any] = {}
        """What it has told of itself when the client began."""
        self.pending = PendingRequests()
        self._tokens: dict[Any, int] = {}
        self.link: ServerLink | None = None
        """The way to it, once it is connected."""
        self._finished = self._restarts = False

    async def run(self, receive: Receive) -> None:
        """Start it, and give *receive* what it says; at its end what is open is answered."""

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
            why = f"is stopped: {why}" if why else describe_end(code)
        except OSError as error:
            why = f"does not start: {self._settings.command[0]!r}, {error.strerror}"
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
        """Start its process anew, if it is one, and wait until it is there.

        The first request of a process may decide for good which revisions it speaks: MCP
        2026-07-28, basic/versioning, "Backward Compatibility".
        """
        if self._settings.url is None and self.link and self.gone is None:
            self.connected.clear()
            self._restarts = True
            await self.link.end(self._limits.grace, at_once=True)
        self.is_probed = self.ready = False
        await self.connected.wait()

    def fail(self, why: str) -> None:
        """Count it as gone, and answer what it has left open; say so unless it was to end."""
        self.ready = False
        if self.gone is None:
            self.pending.server_gone(f"server {self.name!r} {why}")
            if not self._finished:
                logger.warning("%s; the others go on", self.gone)
        self.connected.set()

    @property
    def gone(self) -> str | None:
        """Why it is not there, None if it is."""
        return self.pending.gone

    @property
    def capabilities(self) -> dict[str, Any]:
        """What it has told that it can do."""
        capabilities = self.hello.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def offers(self, capability: str, part: str | None = None) -> bool:
        """Return whether it can be asked for what *capability*, or *part* of it, names."""
        offered = self.capabilities.get(capability) if self.ready else None
        return isinstance(offered, dict) and (part is None or part in offered)

    def next_id(self) -> int:
        """Return an id for a request to it."""
        return next(self._ids)

    async def ask(
        self, method: str, params: Any = UNSET, *, token: Any = None, request_id: int | None = None
    ) -> Any:
        """Return the result that it gives; raises `ServerError`.

        *token* is the one by which the client wants to be told of progress. Cancelling this
        cancels the request.
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
            raise rpc_error(SERVER_GONE, f"server {self.name!r} answers without a result")
        return answer.result

    def answered(self, frame: Frame) -> None:
        """Take an answer of the server; one to no request is dropped."""
        if (request := self.pending.asked.take(frame.id)) is not None:
            resolve(request, frame)
        else:
            logger.warning("server %r answered a request that it never got; dropped", self.name)

    def give_up(self, request_id: Any, reason: str) -> None:
        """Answer the request *request_id* in place of the server, for *reason*, if it is open."""
        if (request := self.pending.asked.take(request_id)) is not None:
            fail(request, SERVER_GONE, reason)

    def owes_progress(self, frame: Frame) -> bool:
        """Return whether a notification of progress is about a request that it works on."""
        token = params_of(frame).get("progressToken")
        return isinstance(token, str | int) and token in self._tokens

    def write(self, line: bytes) -> None:
        """Send a line, if it is there."""
        if self.link is not None and self.gone is None:
            self.link.write(line)

    def finish(self) -> None:
        """Tell it that nothing more comes."""
        self._finished = True
        if self.link is not None:
            self.link.finish()
