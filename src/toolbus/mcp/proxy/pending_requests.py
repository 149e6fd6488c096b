"""What a session has asked and not been answered: for the client, and for the proxy itself."""

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
from toolbus.mcp.proxy.revisions import CALL, CANCELLED, LIST
from toolbus.messages.ids import new_id
from toolbus.messages.records import ToolCall, encode
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.mcp.proxy.jsonrpc import Frame
    from toolbus.mcp.proxy.request_table import Send

ELICIT = "elicitation/create"

_MAX_SHOWN = 2_000
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
        for request in self.asked.take_all():
            give(request, error_frame(request.id, SERVER_GONE, reason))

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        for request in self.elicited.take_all():
            give(request, error_frame(request.id, REFUSED, "the client is gone"))

    def take_elicited(self, frame: Frame, line: bytes) -> bool:
        """Take an answer of the client, if the proxy has asked for it."""
        request = self.elicited.take(frame.id)
        if request is not None:
            give(request, line, frame)
        return request is not None

    async def ask(
        self, request_id: Any, line: bytes, to_server: Send, method: str = CALL
    ) -> RpcResponse:
        """Send the server a request in the place of the client; return the answer."""
        return await self._ask(self.asked, request_id, method, line, to_server)

    async def ask_list(self, params: dict[str, Any], to_server: Send) -> RpcResponse:
        """Ask the server for its tools."""
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=LIST, params=params)
        return await self.ask(request_id, line, to_server, LIST)

    async def elicit(
        self, to_client: Send, ask: Ask, call: ToolCall | None, _scope: Scope
    ) -> bool | Deny:
        """Put what a guard asks to the person in front of the client, one question at a time.

        See MCP 2025-11-25, client/elicitation, "Form Mode".
        """
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=ELICIT, params=_question(ask, call))
        async with self._one_question.here():
            return _verdict(await self._ask(self.elicited, request_id, ELICIT, line, to_client))

    async def _ask(
        self, table: RequestTable, request_id: Any, method: str, line: bytes, send: Send
    ) -> RpcResponse:
        """Write *line* with *send*, and return its answer; cancelling this cancels the request."""
        future: asyncio.Future[RpcResponse] = asyncio.get_running_loop().create_future()
        request = OpenRequest(request_id, method, send, future)
        if table is self.asked and self.gone is not None:
            give(request, error_frame(request_id, SERVER_GONE, self.gone))
        else:
            table.add(request)
            send(line)
        try:
            return await future
        except asyncio.CancelledError:
            # MCP 2025-11-25, basic/utilities/cancellation: whoever asked says so.
            if table.abandon(request_id) is not None:
                params = {"requestId": request_id, "reason": "nobody waits for it any more"}
                send(write_frame(method=CANCELLED, params=params))
            raise


def give(request: OpenRequest, line: bytes, frame: Frame | None = None) -> None:
    """Give the answer in *line* to whoever waits for it; *frame* is what *line* says."""
    if request.future is None:
        request.send(line)
    elif not request.future.done() and (answer := frame or read_frame(line)) is not None:
        request.future.set_result(RpcResponse(answer, line))


async def run_or_fail(work: Awaitable[None], fail: Callable[[BaseException], object]) -> None:
    """Await *work*; if it dies, give *fail* the reason: whoever waits for an answer gets one."""
    try:
        await work
    except asyncio.CancelledError as error:
        # A handler, or a future of a handler's, may say so though nobody cancels this task.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        fail(error)
    except Exception as error:  # noqa: BLE001 - whatever it is
        fail(error)


# --- what a guard asks, put to the person in front of the client ---------------------------------


def _question(ask: Ask, call: ToolCall | None) -> dict[str, Any]:
    """Return the params of an elicitation that asks for *call*."""
    text = ask.prompt
    if call is not None:
        arguments = encode(call.arguments).decode()
        shown = arguments if len(arguments) <= _MAX_SHOWN else arguments[:_MAX_SHOWN] + " … (cut)"
        text = f"{text}\n\n{call.name} {shown}"
    return {"message": text, "requestedSchema": _SCHEMA}


def _verdict(answer: RpcResponse) -> bool | Deny:
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
