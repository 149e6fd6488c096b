"""One server of a group: its process or its address, what it owes, and what it has told of itself.

Ids are those of the group: each request to a server has one that no other request has, so that an
answer, or a notification of progress, of a server can only be about what that server was asked.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import UNSET

from toolbus.errors import ToolbusError
from toolbus.mcp.protocol.jsonrpc import write_frame
from toolbus.mcp.protocol.revisions import params_of
from toolbus.mcp.session.request_table import PendingRequests, resolve
from toolbus.mcp.transport.launching import listed_environment
from toolbus.mcp.transport.processes import describe_end, start

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from urllib.parse import SplitResult

    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.processes import Process

    Take = Callable[[bytes], Coroutine[Any, Any, None]]
    TakeFrom = Callable[["GroupedServer", bytes], Coroutine[Any, Any, None]]

logger = logging.getLogger("toolbus")


class ServerSettings(NamedTuple):
    """A server of a group: a *command* and what its table adds to the environment, or a *url*.

    The names of *headers* are in lower case.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: SplitResult | None = None
    headers: tuple[tuple[str, str], ...] = ()


class ServerError(ToolbusError):
    """A server answered a request with *error*, the value of that JSON-RPC member."""

    def __init__(self, error: Any) -> None:
        self.error = error
        super().__init__(error)


class ServerChannel(Protocol):
    """The way to a server."""

    def write(self, line: bytes) -> None:
        """Send a line."""

    async def run(self, take: Take) -> str:
        """Give *take* each line until the server says no more; return why."""

    def signal(self, number: int) -> None:
        """Pass a signal on, if there is a process."""

    def finish(self) -> None:
        """Let it end by itself."""

    async def end(self, grace: float, *, at_once: bool) -> None:
        """See to it that it ends, after *grace* seconds by force."""

    async def kill(self) -> None:
        """Leave nothing of it behind."""


class GroupedServer:
    """The server of *settings*; it is *ready* while it has taken the handshake and lives."""

    def __init__(self, settings: ServerSettings, limits: ProxyLimits, ids: Iterator[int]) -> None:
        self.name, self._settings = settings.name, settings
        self._limits, self._ids = limits, ids
        self.ready = False
        self.connected = asyncio.Event()
        """Set when it can be written to, or never can."""
        self.capabilities: dict[str, Any] = {}
        self.pending = PendingRequests()
        self._tokens: dict[Any, int] = {}
        self._channel: ServerChannel | None = None
        self._finished = False

    async def run(self, take: TakeFrom) -> None:
        """Start it, and give *take* what it says until its end; what is open is answered then."""
        try:
            self._channel = await self._connect()
            self.connected.set()

            async def take_line(line: bytes) -> None:
                await take(self, line)

            why = await self._channel.run(take_line)
        except OSError as error:
            why = f"does not start: {self._settings.command[0]!r}, {error.strerror}"
        except ImportError as error:
            why = f"cannot be reached: {error}"
        self.fail(why)

    def fail(self, why: str) -> None:
        """Count it as gone, and answer what it has left open; say so unless it was to end."""
        self.ready = False
        if self.gone is None:
            self.pending.server_gone(f"server {self.name!r} {why}")
            if not self._finished:
                logger.warning("%s; the others go on", self.gone)
        self.connected.set()

    async def _connect(self) -> ServerChannel:
        settings = self._settings
        if settings.url is None:
            env = listed_environment(settings.env)
            return _ProcessChannel(await start(settings.command, env), self._limits)
        from toolbus.mcp.group.remote_channel import RemoteChannel  # noqa: PLC0415 - h11 is an extra

        return RemoteChannel(settings.url, settings.headers, self._limits)

    @property
    def gone(self) -> str | None:
        """Why it is not there, None if it is."""
        return self.pending.gone

    def offers(self, capability: str) -> bool:
        """Tell whether it can be asked for what *capability* names."""
        return self.ready and isinstance(self.capabilities.get(capability), dict)

    async def ask(self, method: str, params: Any = UNSET, *, token: Any = None) -> Any:
        """Return the result that it gives; raises `ServerError`.

        *token* is the one by which the client wants to be told of progress. Who is cancelled here
        cancels the request.
        """
        request_id = next(self._ids)
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
        if answer.failed or answer.result is UNSET:
            raise ServerError(answer.error)
        return answer.result

    def answered(self, frame: Frame) -> None:
        """Take an answer of the server; one that nobody asked for is dropped."""
        if (request := self.pending.asked.take(frame.id)) is not None:
            resolve(request, frame)
        else:
            logger.warning("server %r answered what nobody asked; dropped", self.name)

    def owes_progress(self, frame: Frame) -> bool:
        """Tell whether a notification of progress is about a request that it works on."""
        token = params_of(frame).get("progressToken")
        return isinstance(token, str | int) and token in self._tokens

    def write(self, line: bytes) -> None:
        """Send a line, if it is there."""
        if self._channel is not None and self.gone is None:
            self._channel.write(line)

    def signal(self, number: int) -> None:
        """Pass a signal on to its process."""
        if self._channel is not None:
            self._channel.signal(number)

    def finish(self) -> None:
        """Tell it that nothing more comes."""
        self._finished = True
        if self._channel is not None:
            self._channel.finish()

    async def end(self, grace: float, *, at_once: bool) -> None:
        """End it within *grace* seconds."""
        if self._channel is not None:
            await self._channel.end(grace, at_once=at_once)

    async def kill(self) -> None:
        """Leave nothing of it behind."""
        if self._channel is not None:
            await self._channel.kill()


class _ProcessChannel:
    def __init__(self, process: Process, limits: ProxyLimits) -> None:
        self._process, self._limits = process, limits
        self.write, self.signal, self.finish = process.write, process.signal, process.finish
        self.kill = process.kill

    async def run(self, take: Take) -> str:
        why = await self._process.lines(self._limits.frame, take, lambda: None)
        code = await self._process.end(self._limits.grace, at_once=bool(why))
        return f"is stopped: {why}" if why else describe_end(code)

    async def end(self, grace: float, *, at_once: bool) -> None:
        await self._process.end(grace, at_once=at_once)
