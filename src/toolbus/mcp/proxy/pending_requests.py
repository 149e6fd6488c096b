"""Requests under way in a session: the client's, and those that the proxy asks by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.mcp.proxy.jsonrpc import (
    REFUSED,
    SERVER_GONE,
    error_frame,
    read_frame,
    read_json,
    write_frame,
)
from toolbus.mcp.proxy.request_table import OpenRequest, RequestTable, RpcResponse
from toolbus.mcp.proxy.revisions import CANCELLED
from toolbus.mcp.proxy.texts import CALL
from toolbus.mcp.proxy.tool_list import LIST
from toolbus.messages.ids import new_id
from toolbus.messages.records import ToolCall, encode
from toolbus.tasks.locks import LoopLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.mcp.proxy.jsonrpc import Frame

    Send = Callable[[bytes], object]

ELICIT = "elicitation/create"

_LONGEST = 2_000
"""How many characters of a call's arguments a person gets to read."""

_SCHEMA = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Allow it", "description": "Run this tool call"}
    },
    "required": ["approve"],
}


class PendingRequests:
    """What was asked and not answered: *asked* of the server, *elicited* of the client."""

    def __init__(self) -> None:
        self.asked, self.elicited = RequestTable(), RequestTable()
        self.gone: str | None = None
        self._one_question = LoopLock()

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

    async def ask(
        self, own: Any, line: bytes, method: str = CALL, *, to_server: Send
    ) -> RpcResponse:
        """Send a request to the server in the place of the client; return the answer."""
        future: asyncio.Future[RpcResponse] = asyncio.get_running_loop().create_future()
        asked = OpenRequest(own, method, _nobody, future)
        if self.gone is not None:
            self.give(asked, error_frame(own, SERVER_GONE, self.gone))
        else:
            self.asked.add(asked)
            to_server(line)
        try:
            return await future
        except asyncio.CancelledError:
            if self.asked.abandon(own) is not None:
                params = {"requestId": own, "reason": "nobody waits for it any more"}
                to_server(write_frame(method=CANCELLED, params=params))
            raise

    async def ask_list(self, params: dict[str, Any], *, to_server: Send) -> RpcResponse:
        """Ask the server for its tools."""
        own = f"toolbus-{new_id()}"
        line = write_frame(id=own, method=LIST, params=params)
        return await self.ask(own, line, LIST, to_server=to_server)

    async def elicit(
        self, to_client: Send, ask: Ask, call: ToolCall | None, scope: Scope
    ) -> bool | Deny:
        """Put what a guard asks to the person in front of the client, after other questions."""
        async with self._one_question.here():
            return await self._elicit(to_client, ask, call, scope)

    async def _elicit(
        self, to_client: Send, ask: Ask, call: ToolCall | None, scope: Scope
    ) -> bool | Deny:
        own = f"toolbus-{new_id()}"
        future: asyncio.Future[RpcResponse] = asyncio.get_running_loop().create_future()
        self.elicited.add(OpenRequest(own, ELICIT, _nobody, future))
        to_client(write_frame(id=own, method=ELICIT, params=question(ask, call, scope)))
        try:
            return verdict(await future)
        except asyncio.CancelledError:
            if self.elicited.abandon(own) is not None:
                params = {"requestId": own, "reason": "the tool call has ended"}
                to_client(write_frame(method=CANCELLED, params=params))
            raise

    def give(self, asked: OpenRequest, line: bytes, frame: Frame | None = None) -> None:
        """Give an answer to whoever waits for it; *frame* is the one in *line*."""
        if asked.future is None:
            asked.send(line)
        elif not asked.future.done() and (said := frame or read_frame(line)) is not None:
            asked.future.set_result(RpcResponse(said, line))


def _nobody(_line: bytes) -> None:
    """Take the answer to a request whose future takes it."""


def question(ask: Ask, call: ToolCall | None, _scope: Scope) -> dict[str, Any]:
    """Return the params of an elicitation that asks for *call*."""
    text = ask.prompt
    if call is not None:
        arguments = encode(call.arguments).decode()
        cut = arguments if len(arguments) <= _LONGEST else arguments[:_LONGEST] + " … (cut)"
        text = f"{text}\n\n{call.name} {cut}"
    return {"message": text, "requestedSchema": _SCHEMA}


def verdict(answer: RpcResponse) -> bool | Deny:
    """Return what the person said: only a filled-in form that approves is a yes."""
    if answer.frame.failed or answer.frame.result is UNSET:
        return Deny("approval is needed, and the client could not ask")
    match read_json(answer.frame.result):
        case {"action": "accept", "content": {"approve": True}}:
            return True
    return Deny("approval was refused")


def can_elicit(params: Any) -> bool:
    """Tell whether *params* of `initialize` declare a client that shows forms."""
    match params:
        case {"capabilities": {"elicitation": dict(modes)}}:
            return not modes or "form" in modes
    return False
