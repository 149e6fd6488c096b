"""What a server says, past `MESSAGE_APPEND_BEFORE`: as it came, changed, or not at all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolbus.errors import FreezeError, HandlerError, MessageDenied, ToolbusError
from toolbus.mcp.protocol.revisions import CALL, ERROR, LIST
from toolbus.mcp.session.prose import HANDSHAKES
from toolbus.mcp.session.texts import DecodedBody, decode_body
from toolbus.messages.fields import with_sound
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY, thaw
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, ToolResponse
from toolbus.transcript.admission import admit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.mcp.session.session_log import CallRecord
    from toolbus.messages.records import JsonObject

    Append = Callable[[ToolMessage], Awaitable[Message]]

logger = logging.getLogger("toolbus")

UNCHANGED = object()
"""Stands for a body that no handler changed, so that its bytes may go on."""

_WITHHELD = frozenset({"denied", "withheld", "invalid_result"})


class ResponseRejected(ToolbusError):
    """What a server said must not reach the client, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def is_withheld(response: ToolResponse) -> bool:
    """Tell whether *response* stands for one that must not be read."""
    return response.is_error and response.error_type in _WITHHELD


def is_same(response: ToolResponse, other: ToolResponse) -> bool:
    """Tell whether both say the same: then the bytes that said the one say the other as well."""
    return (
        response.structured is other.structured
        and response.is_error == other.is_error
        and response.content == other.content
    )


def lost_structure(seen: DecodedBody, response: ToolResponse) -> bool:
    """Tell whether handlers left nothing in *response* of the structure that *seen* had."""
    return seen.response.structured is not None and response.structured is None


class ResponseFilter:
    """Shows what a server says to the handlers of *bus*, as the result of a tool.

    What handlers leave is returned as the value of a JSON-RPC member, or as `UNCHANGED` if that is
    the same. All raise `ResponseRejected` for what must not be read or could not be judged.
    """

    def __init__(self, bus: EventBus, scope: Scope) -> None:
        self.bus, self._scope = bus, scope

    async def body(
        self,
        method: str,
        body: Any,
        *,
        call: ToolCall | None = None,
        append: Append | None = None,
        params: bool = False,
    ) -> Any:
        """Return what handlers leave of *body*, the result of *method* or its *params*.

        They see it as the response to *call*, else to one of a tool that is called like the
        method. It is free to change.
        """
        call = call or _call(method)
        with fail_closed(call.name):
            seen = decode_body(method, body, params=params)
            if not seen.response.content and seen.response.structured is None:
                return UNCHANGED
            response = await self._show(call, seen.response, append)
            if is_same(response, seen.response):
                return UNCHANGED
            lossless = seen.layout.kind != "whole" and method in _LOSSLESS
            if lost_structure(seen, response) and not lossless:
                raise ResponseRejected("a handler left nothing of it but text")
            return seen.body(response, response.structured)

    async def error(self, method: str, body: Any, call: ToolCall | None) -> Any:
        """Return what handlers leave of the error *body*, which answers *method* or *call*."""
        return await self.body(ERROR, body, call=call or _call(method))

    async def result(self, call: ToolCall, body: Any) -> Any:
        """Return what handlers leave of the result *body* of *call*.

        For one that comes when nothing waits for it any more.
        """
        with fail_closed(call.name):
            seen = decode_body(CALL, body)
            response = await self._show(call, seen.response)
            rest = await self.rest(call, seen)
            if rest is UNCHANGED and is_same(response, seen.response):
                return UNCHANGED
            return seen.result(response, seen.rest if rest is UNCHANGED else rest)

    async def recorded(self, record: CallRecord, method: str, body: Any, params: Any) -> Any:
        """Do as `body` does, and keep it in *record* as the answer to a call of *method*."""
        with fail_closed(method):
            call = _call(method, params)
            asking = AssistantMessage(id=new_id(), tool_calls=(call,))
            await record.ask(asking, self._scope)

        async def append(message: ToolMessage) -> Message:
            return await record.answer(message, self._scope)

        return await self.body(method, body, call=call, append=append)

    async def rest(self, call: ToolCall, seen: DecodedBody) -> Any:
        """Return what handlers leave of the rest of *seen*, which stands beside its texts."""
        if seen.bare:
            return UNCHANGED
        with fail_closed(call.name):
            shown = ToolResponse(structured=seen.rest)
            response = await self._show(_call(call.name, call.arguments), shown)
            if response.structured is shown.structured:
                return UNCHANGED
            return thaw(response.structured)

    async def _show(
        self, call: ToolCall, response: ToolResponse, append: Append | None = None
    ) -> ToolResponse:
        message = ToolMessage(
            id=new_id(),
            tool_call_id=call.id,
            tool_name=call.name,
            tool_response=with_sound(
                response, tool_name=call.name, tool_call_id=call.id, parameters=call.arguments
            ),
        )
        shown = await (append(message) if append else admit(self.bus, message, self._scope))
        if isinstance(shown, ToolMessage) and shown.tool_response is not None:
            response = shown.tool_response
        else:
            # A handler took the response away.
            response = ToolResponse.from_text(shown.text)
        if is_withheld(response):
            raise ResponseRejected(response.text)
        return response


def _call(name: str, arguments: JsonObject = EMPTY) -> ToolCall:
    return ToolCall(id=new_id(), name=name, arguments=arguments)


_LOSSLESS = frozenset(
    {LIST, *HANDSHAKES, "resources/read", "prompts/get", "notifications/message", "error"}
)
"""What can be said with the text alone, as a handler left it."""


class fail_closed:  # noqa: N801 - used as a function
    """Turns every failure on the way into a refusal: what was not judged does not pass."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, ResponseRejected) or not isinstance(error, Exception):
            return
        raise ResponseRejected(explain(self._name, error)) from error


def explain(name: str, error: BaseException) -> str:
    """Return what the client may know of *error*, and log the rest."""
    match error:
        case MessageDenied():
            return error.reason
        case FreezeError():
            # The path may hold a key of the server's, and that a secret.
            logger.warning("%s cannot be judged: %s", name, error)
            return f"{name} cannot be judged: {error.reason}"
        case HandlerError():
            logger.error("%s: %s", name, error)
            return f"handler {error.handler!r} failed"
        case ValueError() | ToolbusError():
            logger.warning("%s cannot be judged: %s", name, error)
            return f"{name} cannot be judged: {error}"
    logger.error("%s cannot be judged", name, exc_info=error)
    return f"{name} cannot be judged: {type(error).__name__}"
