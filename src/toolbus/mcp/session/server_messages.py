"""Messages of a server, through `MESSAGE_APPEND_BEFORE` to the client."""

from __future__ import annotations

import logging
from collections import OrderedDict
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.errors import FreezeError, HandlerError, MessageDenied, ToolbusError
from toolbus.mcp.protocol.jsonrpc import INTERNAL_ERROR, REFUSED, Frame, error_frame, write_frame
from toolbus.mcp.protocol.revisions import CALL, LIST
from toolbus.mcp.session.bodies import CallResult, decode_body
from toolbus.mcp.session.request_table import run_or_fail
from toolbus.messages.fields import replace_unchecked
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY, thaw
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, ToolResponse
from toolbus.transcript.admission import admit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.mcp.session.request_table import Channels, OpenRequest
    from toolbus.mcp.session.tool_list import ToolList
    from toolbus.messages.records import JsonObject
    from toolbus.transcript.session_log import SessionLog

    Append = Callable[[ToolMessage], Awaitable[Message]]

logger = logging.getLogger("toolbus")

UNCHANGED = object()
"""A marker for a body that no handler changed, whose original line is forwarded."""

_WITHHELD = frozenset({"denied", "withheld", "invalid_result"})
_RECORDED = frozenset({"resources/read", "prompts/get"})
_TASK_METHODS = frozenset({"tasks/get", "tasks/result", "notifications/tasks"})
"""Methods with the result of an earlier call: MCP 2025-11-25, basic/utilities/tasks; SEP-2663."""
_MAX_TASKS = 10_000


class ResponseRejected(ToolbusError):
    """A message must not be forwarded, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ServerMessages:
    """The server's messages at the handlers of *bus*, each in the form of a tool's result.

    Results of tool calls reach handlers through the bus; only their rest is shown here.
    """

    def __init__(self, bus: EventBus, scope: Scope, tool_list: ToolList, log: SessionLog) -> None:
        self._bus, self._scope, self._tool_list, self._log = bus, scope, tool_list, log
        self.task_calls: OrderedDict[str, ToolCall] = OrderedDict()
        """By task id: the call that created the task."""

    def learn_task(self, call: ToolCall, result: dict[str, Any]) -> None:
        """Remember *call* as the creator of the task in *result*, if there is one."""
        for owner in (result, result.get("task")):
            if isinstance(owner, dict) and isinstance(owner.get("taskId"), str):
                self.task_calls[owner["taskId"]] = call
                if len(self.task_calls) > _MAX_TASKS:
                    self.task_calls.popitem(last=False)

    async def answer(self, request: OpenRequest, frame: Frame) -> None:
        """Send the client the response *frame* to its *request*, as changed by handlers."""

        def fail(error: BaseException) -> None:
            reason = explain(request.method, error)
            request.send(error_frame(request.id, INTERNAL_ERROR, reason))

        await run_or_fail(self._answer(request, frame), fail)

    async def _answer(self, request: OpenRequest, frame: Frame) -> None:
        member, received = answer_member(frame)
        try:
            body = await self._judge(request, member, received)
        except ResponseRejected as error:
            request.send(error_frame(request.id, REFUSED, error.reason))
            return
        unchanged = body is UNCHANGED
        request.send(frame.line if unchanged else write_frame(id=request.id, **{member: body}))

    async def _judge(self, request: OpenRequest, member: str, received: Any) -> Any:
        """Return *received*, the *member* of the response to *request*, as changed by handlers."""
        if member == "error":
            return await self._body(member, received, request.call or _call(request.method))
        if request.call is not None:
            return await self._result(request.call, received)
        params = {} if request.params is UNSET else request.params
        if request.method == LIST:
            # Handlers see the tools as specs first, and then the prose of the list.
            first = not (isinstance(params, dict) and params.get("cursor"))
            with fail_closed(LIST):
                listed = await self._tool_list.relist(received, first=first)
            body = await self._body(LIST, listed, _call(LIST))
            return listed if body is UNCHANGED and listed is not received else body
        if request.method in _TASK_METHODS:
            return await self._task(request.method, received, params)
        if request.method in _RECORDED:
            return await self._recorded(request.method, received, params)
        return await self._body(request.method, received, _call(request.method))

    async def _result(self, call: ToolCall, received: Any) -> Any:
        """Return the late result of *call*, as changed by handlers."""
        with fail_closed(call.name):
            decoded = decode_body(CALL, received)
            response = await self._show(call, decoded.response)
            if not isinstance(decoded, CallResult):
                return UNCHANGED if is_same(response, decoded.response) else decoded.lower(response)
            rest = await self.rest(call, decoded)
            if rest is UNCHANGED and is_same(response, decoded.response):
                return UNCHANGED
            return decoded.lower_result(response, decoded.rest if rest is UNCHANGED else rest)

    async def _task(self, method: str, received: Any, params: Any) -> Any:
        """Return a task with *params*, as changed by handlers; its result is a call's result."""
        task_id = params.get("taskId") if isinstance(params, dict) else None
        call = self.task_calls.get(task_id) if isinstance(task_id, str) else None
        has_result = isinstance(received, dict) and isinstance(received.get("result"), dict)
        is_notice = method == "notifications/tasks"
        if not has_result and method != "tasks/result":
            return await self._body(method, received, _call(method), params=is_notice)
        if call is None:
            # Handlers scoped to one tool could not recognize the result as that tool's.
            reason = "no call of this session created the task, so its result cannot be checked"
            raise ResponseRejected(f"{reason}; call the tool again")
        if method == "tasks/result":
            return await self._result(call, received)
        state = {name: value for name, value in received.items() if name != "result"}
        result = await self._result(call, deepcopy(received["result"]))
        decoded = await self._body(method, deepcopy(state), _call(method), params=is_notice)
        if result is UNCHANGED and decoded is UNCHANGED:
            return UNCHANGED
        state = state if decoded is UNCHANGED else decoded
        return {**state, "result": received["result"] if result is UNCHANGED else result}

    async def _recorded(self, method: str, received: Any, params: Any) -> Any:
        """Record a result that the model will read, and return it as changed by handlers."""
        record = self._log.call_record()
        with fail_closed(method):
            call = _call(method, params)
            await record.ask(AssistantMessage(id=new_id(), tool_calls=(call,)), self._scope)

        async def append(message: ToolMessage) -> Message:
            return await record.answer(message, self._scope)

        return await self._body(method, received, call, append=append)

    async def forward(self, frame: Frame, channels: Channels) -> None:
        """Send the client a notification or request of the server, as changed by handlers."""

        def fail(error: BaseException) -> None:
            reason = explain(str(frame.method), error)
            if frame.is_request:
                channels.to_server(error_frame(frame.id, INTERNAL_ERROR, reason))

        await run_or_fail(self._forward(frame, channels), fail)

    async def _forward(self, frame: Frame, channels: Channels) -> None:
        method, body = str(frame.method), UNCHANGED
        if method.endswith("list_changed"):
            self._tool_list.forget()
        try:
            if method in _TASK_METHODS and frame.params is not UNSET:
                body = await self._task(method, frame.params, frame.params)
            elif frame.params is not UNSET:
                body = await self._body(method, frame.params, _call(method), params=True)
        except ResponseRejected as error:
            logger.warning("withheld %s of the server: %s", method, error.reason)
            if frame.is_request:
                channels.to_server(error_frame(frame.id, REFUSED, error.reason))
            return
        if body is UNCHANGED:
            channels.to_client(frame.line)
            return
        request_id = {"id": frame.id} if frame.is_request else {}
        channels.to_client(write_frame(**request_id, method=method, params=body))

    async def rest(self, call: ToolCall, decoded: CallResult) -> Any:
        """Return the rest of *decoded*, as changed by handlers, or `UNCHANGED`.

        Raises `ResponseRejected`.
        """
        if decoded.has_only_types:
            return UNCHANGED
        with fail_closed(call.name):
            shown = ToolResponse(structured=decoded.rest)
            response = await self._show(_call(call.name, call.arguments), shown)
            if response.structured is shown.structured:
                return UNCHANGED
            return thaw(response.structured)

    async def _body(
        self,
        method: str,
        body: Any,
        call: ToolCall,
        *,
        append: Append | None = None,
        params: bool = False,
    ) -> Any:
        """Return *body*, the result of *method* or its *params*, as changed by handlers.

        Handlers see it as the response to *call*. Returns `UNCHANGED` if they keep it. Raises
        `ResponseRejected` if they withhold it or fail.
        """
        with fail_closed(call.name):
            decoded = decode_body(method, body, params=params)
            if not decoded.response.content and decoded.response.structured is None:
                return UNCHANGED
            response = await self._show(call, decoded.response, append)
            if is_same(response, decoded.response):
                return UNCHANGED
            if decoded.needs_structure and decoded.has_lost_structure(response):
                reason = "a handler removed structured content that the client needs"
                raise ResponseRejected(reason)
            return decoded.lower(response)

    async def _show(
        self, call: ToolCall, response: ToolResponse, append: Append | None = None
    ) -> ToolResponse:
        message = ToolMessage(
            id=new_id(),
            tool_call_id=call.id,
            tool_name=call.name,
            tool_response=replace_unchecked(
                response, tool_name=call.name, tool_call_id=call.id, parameters=call.arguments
            ),
        )
        shown = await (append(message) if append else admit(self._bus, message, self._scope))
        if isinstance(shown, ToolMessage) and shown.tool_response is not None:
            response = shown.tool_response
        else:
            # A handler removed the response.
            response = ToolResponse.from_text(shown.text)
        if is_withheld(response):
            raise ResponseRejected(response.text)
        return response


def answer_member(frame: Frame) -> tuple[str, Any]:
    """Return the name of the response's member, `error` or `result`, and its value."""
    if frame.failed:
        return "error", frame.error
    return "result", None if frame.result is UNSET else frame.result


def is_withheld(response: ToolResponse) -> bool:
    """Return whether *response* replaces a withheld or denied one."""
    return response.is_error and response.error_type in _WITHHELD


def is_same(response: ToolResponse, other: ToolResponse) -> bool:
    """Return whether both are equal, so that the original line can be forwarded."""
    return (
        response.structured is other.structured
        and response.is_error == other.is_error
        and response.content == other.content
    )


def _call(name: str, arguments: JsonObject = EMPTY) -> ToolCall:
    return ToolCall(id=new_id(), name=name, arguments=arguments)


class fail_closed:  # noqa: N801 - used as a function
    """A context manager that turns any exception of handlers into a `ResponseRejected`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, ResponseRejected) or not isinstance(error, Exception):
            return
        raise ResponseRejected(explain(self._name, error)) from error


def explain(name: str, error: BaseException) -> str:
    """Return the text of *error* for the client, and log the details."""
    match error:
        case MessageDenied() | ResponseRejected():
            return error.reason
        case FreezeError():
            # The reason alone: the path may hold a key of the server, which may be secret.
            logger.warning("%s could not be checked: %s", name, error)
            return f"{name} could not be checked: {error.reason}"
        case HandlerError():
            logger.error("%s: %s", name, error)
            return f"handler {error.handler!r} failed"
        case ValueError() | ToolbusError():
            logger.warning("%s could not be checked: %s", name, error)
            return f"{name} could not be checked: {error}"
    logger.error("%s could not be checked", name, exc_info=error)
    return f"{name} could not be checked: {type(error).__name__}"
