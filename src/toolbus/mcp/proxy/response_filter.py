"""What a server says, past `MESSAGE_APPEND_BEFORE`: as it came, changed, or not at all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from toolbus.errors import FreezeError, HandlerError, MessageDenied, ToolbusError
from toolbus.mcp.proxy.jsonrpc import read_json
from toolbus.mcp.proxy.prose import HANDSHAKES, LIST
from toolbus.mcp.proxy.texts import CALL, decode_body
from toolbus.messages.fields import with_sound
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY, thaw
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, ToolResponse
from toolbus.transcript.admission import admit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import JsonObject
    from toolbus.transcript.transcript import Transcript

logger = logging.getLogger("toolbus")

UNCHANGED = object()
"""Stands for a body that no handler changed, so that its bytes may go on."""

_WITHHELD = frozenset({"denied", "withheld", "invalid_result"})


class Refused(ToolbusError):
    """What a server said must not reach the client, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


def is_withheld(response: ToolResponse) -> bool:
    """Tell whether *response* stands for one that must not be read."""
    return response.is_error and response.error_type in _WITHHELD


def is_same(one: ToolResponse, other: ToolResponse) -> bool:
    """Tell whether both say the same: then the bytes that said the one say the other as well."""
    return (
        one.structured is other.structured
        and one.is_error == other.is_error
        and one.content == other.content
    )


def response_of(message: Message) -> ToolResponse:
    """Return what *message* says, also if a handler took its response away."""
    if isinstance(message, ToolMessage) and message.tool_response is not None:
        return message.tool_response
    return ToolResponse.from_text(message.text)


class ResponseFilter:
    """Shows what a server says to the handlers of *bus*, as the result of a tool."""

    def __init__(self, bus: EventBus, scope: Scope) -> None:
        self.bus, self._scope = bus, scope

    async def body(
        self,
        method: str,
        body: Any,
        *,
        name: str | None = None,
        call: ToolCall | None = None,
        append: Callable[[ToolMessage], Awaitable[Message]] | None = None,
        params: bool = False,
    ) -> Any:
        """Return *body*, the result of *method* or its *params*, as handlers leave it.

        They see it as the response of a tool *name*, else of one that is called like the method.
        It is JSON as it came, or free to change. `UNCHANGED` stands for the same. Raises `Refused`.
        """
        name = name or method
        with _closed(name):
            seen = decode_body(
                method, read_json(body) if isinstance(body, Raw) else body, params=params
            )
            if not seen.response.content and seen.response.structured is None:
                return UNCHANGED
            left = await self._show(call or _call(name), seen.response, append)
            if is_same(left, seen.response):
                return UNCHANGED
            lost = seen.response.structured is not None and left.structured is None
            if lost and (seen.layout.kind == "whole" or method not in _LOSSLESS):
                raise Refused("a handler left nothing of it but text")
            return seen.body(left, left.structured)

    async def result(self, call: ToolCall, raw: Raw) -> Any:
        """Return the result *raw* of *call* as handlers leave it, or `UNCHANGED`.

        For one that comes when nothing waits for it any more. Raises `Refused`.
        """
        with _closed(call.name):
            seen = decode_body(CALL, read_json(raw))
            left = await self._show(call, seen.response, None)
            rest = UNCHANGED
            if seen.rest is not None and not seen.bare:
                rest = await self.rest(call.name, seen.rest, call.arguments)
            if rest is UNCHANGED and is_same(left, seen.response):
                return UNCHANGED
            return seen.result(left, seen.rest if rest is UNCHANGED else rest)

    async def recorded(self, transcript: Transcript, method: str, raw: Raw, params: Any) -> Any:
        """Do as `body` does, and append it to *transcript* as the answer to a call of *method*."""
        with _closed(method):
            call = _call(method, params)
            asking = AssistantMessage(id=new_id(), tool_calls=(call,))
            await transcript.enter(asking, self._scope, later=True)

        async def append(message: ToolMessage) -> Message:
            return await transcript.append(message, self._scope)

        return await self.body(method, raw, call=call, append=append)

    async def rest(self, name: str, rest: Any, parameters: JsonObject) -> Any:
        """Return what handlers leave of *rest*, which stands beside a result; else `UNCHANGED`."""
        with _closed(name):
            given = ToolResponse(structured=rest)
            left = await self._show(_call(name, parameters), given, None)
            if left.structured is given.structured:
                return UNCHANGED
            return thaw(left.structured)

    async def _show(
        self,
        call: ToolCall,
        response: ToolResponse,
        append: Callable[[ToolMessage], Awaitable[Message]] | None,
    ) -> ToolResponse:
        message = ToolMessage(
            id=new_id(),
            tool_call_id=call.id,
            tool_name=call.name,
            tool_response=with_sound(
                response, tool_name=call.name, tool_call_id=call.id, parameters=call.arguments
            ),
        )
        shown = (
            await admit(self.bus, message, self._scope) if append is None else await append(message)
        )
        left = response_of(shown)
        if is_withheld(left):
            raise Refused(left.text)
        return left


def _call(name: str, arguments: JsonObject = EMPTY) -> ToolCall:
    return ToolCall(id=new_id(), name=name, arguments=arguments)


_LOSSLESS = frozenset(
    {LIST, *HANDSHAKES, "resources/read", "prompts/get", "notifications/message", "error"}
)
"""What can be said with the text alone, as a handler left it."""


class _closed:  # noqa: N801 - used as a function
    """Turns every failure on the way into a refusal: what was not judged does not pass."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Refused) or not isinstance(error, Exception):
            return
        raise Refused(explain(self._name, error)) from error


def explain(name: str, error: Exception) -> str:
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
