"""What a session has asked and not been answered: for the client, and for the proxy itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolbus.mcp.protocol.jsonrpc import (
    REFUSED,
    SERVER_GONE,
    Frame,
    error_frame,
    write_frame,
)
from toolbus.mcp.protocol.revisions import CALL, CANCELLED, LIST
from toolbus.mcp.session.client_questions import ELICIT, question_form, verdict_of
from toolbus.mcp.session.request_table import OpenRequest, RequestTable
from toolbus.messages.ids import new_id
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.approvals import Question
    from toolbus.mcp.session.request_table import Send
    from toolbus.tools.calls.gate import ApprovalRequest


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
            fail(request, SERVER_GONE, reason)

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        for request in self.elicited.take_all():
            fail(request, REFUSED, "the client is gone")

    def take_elicited(self, frame: Frame) -> bool:
        """Take an answer of the client, if the proxy has asked for it."""
        request = self.elicited.take(frame.id)
        if request is not None:
            resolve(request, frame)
        return request is not None

    async def ask(self, request_id: Any, line: bytes, to_server: Send, method: str = CALL) -> Frame:
        """Send the server a request in the place of the client; return the answer."""
        return await self._ask(self.asked, request_id, method, line, to_server)

    async def ask_list(self, params: dict[str, Any], to_server: Send) -> Frame:
        """Ask the server for its tools."""
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=LIST, params=params)
        return await self.ask(request_id, line, to_server, LIST)

    async def elicit(self, to_client: Send, question: Question, _: ApprovalRequest) -> bool | None:
        """Put *question* to the person in front of the client, one question at a time.

        Returns None if that person was not asked, or said nothing.
        """
        form = question_form(question)
        if form is None:
            return None
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=ELICIT, params=form)
        async with self._one_question.here():
            reply = await self._ask(self.elicited, request_id, ELICIT, line, to_client)
        return None if reply.failed else verdict_of(reply.result)

    async def _ask(
        self, table: RequestTable, request_id: Any, method: str, line: bytes, send: Send
    ) -> Frame:
        """Write *line* with *send*, and return its answer; cancelling this cancels the request."""
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        request = OpenRequest(request_id, method, send, future)
        if table is self.asked and self.gone is not None:
            fail(request, SERVER_GONE, self.gone)
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


def resolve(request: OpenRequest, answer: Frame) -> None:
    """Give *answer* to the client, or to the part of the proxy that waits for it."""
    if request.future is None:
        request.send(answer.line)
    elif not request.future.done():
        request.future.set_result(answer)


def fail(request: OpenRequest, code: int, reason: str) -> None:
    """Answer *request* with an error."""
    error = {"code": code, "message": reason}
    resolve(request, Frame(error_frame(request.id, code, reason), request.id, error=error))


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
