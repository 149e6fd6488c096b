"""Answers to requests that cannot be served: an HTTP error, whose body is JSON-RPC."""

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
    """A request gets the HTTP *status*, a *reason* and the headers *fields*, and goes no further.

    The body is a JSON-RPC error with *request_id*, if that is known, and *code*.
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


async def refuse(request: HttpRequest, error: HttpError) -> None:
    """Send *error*, as JSON-RPC says it."""
    body = error_frame(error.request_id, error.code, error.reason).strip()
    await request.answer(error.status, [("content-type", JSON), *error.fields], body)


async def failure_of(work: Awaitable[str]) -> str:
    """Return what *work* returns: why a request has no answer; if it dies, log how, and say so.

    Each task of relay and bridge for which somebody waits runs in here, so none dies in silence.
    """
    try:
        return await work
    except (TransportError, FrameTooLongError) as error:
        return str(error)
    except Exception:
        logger.exception("a task of the proxy has failed; whoever waits for it is told")
        return PROXY_FAILED
