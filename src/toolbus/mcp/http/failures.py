"""HTTP error responses with a JSON-RPC body."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolbus.errors import ToolbusError
from toolbus.http.client import TransportError
from toolbus.mcp.protocol.jsonrpc import INVALID_REQUEST, FrameTooLongError, error_frame
from toolbus.mcp.transport.processes import PROXY_FAILED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from toolbus.http.server import HttpRequest

logger = logging.getLogger("toolbus")

JSON = "application/json"


class HttpError(ToolbusError):
    """A request is refused with the HTTP *status*, a *reason* and the headers *fields*.

    The body is a JSON-RPC error with *code*, and with *request_id* if it is known.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        fields: Iterable[tuple[str, str]] = (),
        *,
        request_id: Any = None,
        code: int = INVALID_REQUEST,
    ) -> None:
        self.status, self.reason, self.fields = status, reason, tuple(fields)
        self.request_id, self.code = request_id, code
        super().__init__(status, reason)

    def __str__(self) -> str:
        return self.reason


async def send_error(request: HttpRequest, error: HttpError) -> None:
    """Answer *request* with *error*."""
    body = error_frame(error.request_id, error.code, error.reason).strip()
    await request.answer(error.status, [("content-type", JSON), *error.fields], body)


async def failure_of(work: Awaitable[str]) -> str:
    """Return the reason that *work* returns or raises; an unexpected exception is logged.

    Each task of a relay or bridge with a waiting client is awaited here: none fails silently.
    """
    try:
        return await work
    except (TransportError, FrameTooLongError) as error:
        return str(error)
    except Exception:
        logger.exception("a task of the proxy failed; its client gets an error")
        return PROXY_FAILED
