"""Requests under way in a session: the client's, and those that the proxy asks by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolbus.mcp.proxy.asking import ELICIT, question, verdict
from toolbus.mcp.proxy.exchanges import Answer, Asked, Exchanges
from toolbus.mcp.proxy.frames import REFUSED, SERVER_GONE, error_frame, read_frame, write_frame
from toolbus.mcp.proxy.offering import LIST
from toolbus.mcp.proxy.texts import CALL
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.events.catalogue import Ask, Deny, Scope
    from toolbus.mcp.proxy.frames import Frame
    from toolbus.messages.records import ToolCall

CANCELLED = "notifications/cancelled"


class Questions:
    """What was asked and not answered: *asked* of the server, *elicited* of the client."""

    def __init__(
        self, to_client: Callable[[bytes], object], to_server: Callable[[bytes], object]
    ) -> None:
        self._to_client, self._to_server = to_client, to_server
        self.asked, self.elicited = Exchanges(), Exchanges()
        self.gone: str | None = None

    def server_gone(self, reason: str) -> None:
        """Answer what the server will never answer."""
        self.gone = reason
        for asked in self.asked.take_all():
            line = error_frame(asked.id, SERVER_GONE, reason)
            self.give(asked, line)

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        for asked in self.elicited.take_all():
            self.give(asked, error_frame(asked.id, REFUSED, "the client is gone"))

    def take_elicited(self, frame: Frame, line: bytes) -> bool:
        """Take an answer of the client, if the proxy has asked for it."""
        asked = self.elicited.take(frame.id)
        if asked is not None:
            self.give(asked, line, frame)
        return asked is not None

    async def ask(self, own: Any, line: bytes, method: str = CALL) -> Answer:
        """Send a request to the server in the place of the client; return the answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        asked = Asked(own, method, self._to_client, future)
        if self.gone is not None:
            self.give(asked, error_frame(own, SERVER_GONE, self.gone))
        else:
            self.asked.add(asked)
            self._to_server(line)
        try:
            return await future
        except asyncio.CancelledError:
            if self.asked.abandon(own) is not None:
                params = {"requestId": own, "reason": "nobody waits for it any more"}
                self._to_server(write_frame(method=CANCELLED, params=params))
            raise

    async def ask_list(self, params: dict[str, Any]) -> Answer:
        """Ask the server for its tools."""
        own = f"toolbus-{new_id()}"
        return await self.ask(own, write_frame(id=own, method=LIST, params=params), LIST)

    async def elicit(self, ask: Ask, call: ToolCall | None, scope: Scope) -> bool | Deny:
        """Put what a guard asks to the person in front of the client."""
        own = f"toolbus-{new_id()}"
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.elicited.add(Asked(own, ELICIT, self._to_server, future))
        self._to_client(write_frame(id=own, method=ELICIT, params=question(ask, call, scope)))
        try:
            return verdict(await future)
        except asyncio.CancelledError:
            if self.elicited.abandon(own) is not None:
                params = {"requestId": own, "reason": "the tool call has ended"}
                self._to_client(write_frame(method=CANCELLED, params=params))
            raise

    def give(self, asked: Asked, line: bytes, frame: Frame | None = None) -> None:
        """Give an answer to whoever waits for it; *frame* is the one in *line*."""
        if asked.future is None:
            asked.send(line)
        elif not asked.future.done() and (said := frame or read_frame(line)) is not None:
            asked.future.set_result(Answer(said, line))
