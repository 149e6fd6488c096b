"""The tool calls of one client on the bus: handlers, the server, handlers again."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.errors import MessageDenied
from toolbus.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Frame,
    error_frame,
    read_json,
    write_frame,
)
from toolbus.mcp.protocol.revisions import CALL, ERROR, VERSION
from toolbus.mcp.session.bodies import CallResult, decode_body, refusal, rendered
from toolbus.mcp.session.client_approvals import (
    CallApprovals,
    ForeignStateError,
    can_elicit,
    elicit,
)
from toolbus.mcp.session.named_sessions import client_name
from toolbus.mcp.session.request_table import run_or_fail
from toolbus.mcp.session.server_messages import (
    UNCHANGED,
    ResponseRejected,
    answer_member,
    explain,
    is_same,
    is_withheld,
)
from toolbus.mcp.session.server_tools import ServerTools
from toolbus.mcp.session.trace_context import enter_trace, with_trace
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import AssistantMessage, ToolCall
from toolbus.tools.calls.runner import ToolRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.events.catalogue import ToolCallOutcome
    from toolbus.mcp.session.bodies import Body
    from toolbus.mcp.session.judged_session import JudgedSession
    from toolbus.mcp.session.request_table import Channels
    from toolbus.messages.records import JsonObject, ToolResponse
    from toolbus.tools.toolset import Toolset

logger = logging.getLogger("toolbus")


class ToolCalls:
    """The running calls of *session*.

    Their questions belong to *question_session*; if that is "", to the client's part of the proxy's
    named session, or else to the session itself.
    """

    def __init__(self, session: JudgedSession, question_session: str) -> None:
        self._session, self._question_session = session, question_session
        self._approvals = session.proxy.client_approvals
        self._elicits, self._client = False, ""
        self.client_left = asyncio.Event()
        # A set besides the dict, because a client may reuse the id of a running call.
        self._under_way: set[ProxiedCall] = set()
        self._by_id: dict[Any, ProxiedCall] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of the running calls."""
        return [call.task for call in self._under_way]

    def learn_client(self, params: dict[str, Any]) -> None:
        """Learn the client's name and its support for forms from *params* of `initialize`."""
        self._elicits, self._client = self._elicits or can_elicit(params), client_name(params)

    def start(self, frame: Frame, channels: Channels) -> None:
        """Start the call *frame*."""
        if frame.id is UNSET or frame.id is None:
            logger.warning("dropped a tool call of the client: it has no id")
            if frame.id is None:
                channels.reply(error_frame(None, INVALID_REQUEST, "a tool call needs an id"))
            return
        try:
            call = ProxiedCall(self._session, frame, channels)
        except ValueError as error:
            channels.reply(error_frame(frame.id, INVALID_PARAMS, f"invalid tool call: {error}"))
            return
        self._by_id[call.id] = call
        self._under_way.add(call)
        approvals = self._approvals_of(call)
        call.task = asyncio.create_task(call.run(approvals))
        # A callback, because a task cancelled before it starts never enters its `finally`.
        call.task.add_done_callback(lambda _: self._end(call))

    def pop(self, request_id: Any) -> ProxiedCall | None:
        """Remove and return the call with the client's *request_id*, or None."""
        return self._by_id.pop(request_id, None)

    def _approvals_of(self, call: ProxiedCall) -> CallApprovals | None:
        """Return the gate for the questions of guards about *call*, None without any channel."""
        if not self._elicits and self._approvals.stored is None:
            return None
        ask = partial(elicit, self._session.pending, call.channels.to_client)
        return CallApprovals(
            self._approvals,
            call,
            self._session_for(call),
            ask if self._elicits else None,
            self.client_left,
        )

    def _session_for(self, call: ProxiedCall) -> str:
        """Return the session of the questions about *call*."""
        named = self._approvals.named
        if named is None or self._question_session:
            return self._question_session or self._session.scope.session_id
        return named.id_for(client_name(call.params) or self._client)

    def _end(self, call: ProxiedCall) -> None:
        self._under_way.discard(call)
        if self._by_id.get(call.id) is call:
            del self._by_id[call.id]


class ProxiedCall:
    """A running `tools/call` of the client, in *task*; its lines go to *channels*.

    Raises `FreezeError` and `ValueError` for an invalid call.
    """

    task: asyncio.Task[None]

    def __init__(self, session: JudgedSession, frame: Frame, channels: Channels) -> None:
        params = {} if frame.params is UNSET else frame.params
        name = params.get("name") if isinstance(params, dict) else None
        if not isinstance(name, str):
            raise ValueError("expected a string as `name`")  # noqa: TRY004 - invalid input
        arguments = params.get("arguments")
        if not (arguments is None or isinstance(arguments, dict)):
            raise ValueError("expected an object as `arguments`")
        self.id, self.channels, self.timeout = frame.id, channels, session.proxy.timeout
        self.params: dict[str, Any] = params
        self.call = ToolCall(id=new_id(), name=name, arguments=arguments or {})
        self._line, self._session, self._asked = frame.line, session, 0
        # By tool name: the body of the server's response as handlers saw it, and the response.
        self._answers: dict[str, tuple[Body, Frame]] = {}

    @property
    def sent_arguments(self) -> dict[str, Any]:
        """The arguments in the call's line."""
        arguments: dict[str, Any] = self.params.get("arguments") or {}
        return arguments

    def restore(self, params: dict[str, Any]) -> None:
        """Replace the params, and the line, by those for the server in a repeated call."""
        self.params, self._line = params, write_frame(id=self.id, method=CALL, params=params)

    async def run(self, approvals: CallApprovals | None) -> None:
        """Run the call through the handlers and on the server, and send the response.

        A denial is sent as a result. A cancelled call is completed in the session's log, but not
        answered: the client no longer waits.
        """

        def fail(error: BaseException) -> None:
            reason = explain(f"tool {self.call.name!r}", error)
            self.channels.reply(error_frame(self.id, INTERNAL_ERROR, reason))

        await run_or_fail(self._run(approvals), fail)

    async def _run(self, approvals: CallApprovals | None) -> None:
        session = self._session
        if session.proxy.makes_spans:
            enter_trace(self.params)
        advertised = await session.tool_list.advertise(self, session.pending.ask_list)
        try:
            if approvals is not None:
                await approvals.record_answer()
        except ForeignStateError as error:
            self.channels.reply(error_frame(self.id, INVALID_PARAMS, str(error)))
            return
        if reason := session.tool_list.clashes.get(self.call.name):
            self._settle("denied")
            self.channels.reply(self._line_with(refusal(reason)))
            return
        toolset = ServerTools(session.tool_list, self, session.proxy.tools)
        record = session.log.call_record(sheltered=True)
        ids = _ids_of(self.call)
        runner = ToolRunner(
            session.proxy.bus,
            toolset,
            session.scope,
            approver=approvals,
            append=record.answer,
            ids=ids,
        )
        try:
            asking = AssistantMessage(id=ids(), tool_calls=(self.call,))
            asked = await record.ask(asking, session.scope)
            calls = asked.tool_calls if isinstance(asked, AssistantMessage) else ()
            outcomes = await runner.call_all(calls, advertised)
            line = self._line_with(refusal("a handler removed the call"))
            for outcome in outcomes:
                if outcome.requested.id == self.call.id:
                    line = await self._line_of(outcome, toolset, approvals)
        except (ResponseRejected, MessageDenied) as error:
            self._settle("denied")
            line = self._line_with(refusal(error.reason))
        self.channels.reply(line)

    def _settle(self, status: str) -> None:
        if (settle := self.channels.settle) is not None:
            settle(self.id, status)

    async def ask_server(self, name: str, arguments: JsonObject) -> ToolResponse:
        """Run the tool *name* on the server; return the response as handlers see it."""
        self._asked += 1
        request_id = self.id if self._asked == 1 else f"toolbus-{new_id()}"
        line = self._line_for(request_id, name, arguments)
        answer = await self._session.pending.ask(request_id, line, self.channels.to_server)
        member, body = answer_member(answer)
        if isinstance(body, dict) and ("task" in body or "taskId" in body):
            made_by = ToolCall(id=self.call.id, name=name, arguments=arguments)
            self._session.server_messages.learn_task(made_by, body)
        try:
            decoded = decode_body(CALL if member == "result" else ERROR, body)
        except ValueError as error:
            raise ResponseRejected(explain(f"the result of {name!r}", error)) from None
        self._answers[name] = decoded, answer
        return decoded.response

    def _line_for(self, request_id: Any, name: str, arguments: JsonObject) -> bytes:
        """Return the request line for *name* with *arguments* and *request_id*."""
        call, params = self.call, self.params
        if self._session.proxy.makes_spans:
            params = with_trace(params)
        is_same_call = name == call.name and arguments is call.arguments
        if request_id is self.id and is_same_call and params is self.params:
            return self._line
        params = {**params, "name": name, "arguments": thaw(arguments)}
        return write_frame(id=request_id, method=CALL, params=params)

    def _line_with(self, result: dict[str, Any]) -> bytes:
        """Return the response line with *result*, which is not the server's."""
        meta = self.params.get("_meta")
        # The stateless revision distinguishes complete results from `input_required` ones.
        if isinstance(meta, dict) and VERSION in meta:
            result = {"resultType": "complete"} | result
        return write_frame(id=self.id, result=result)

    async def _line_of(
        self, outcome: ToolCallOutcome, toolset: Toolset, approvals: CallApprovals | None
    ) -> bytes:
        """Return the response line for *outcome*: the server's own if no handler changed it."""
        self._settle(outcome.status)
        if approvals is not None and outcome.pending:
            asked_back = await approvals.input_required_result(outcome.pending)
            if asked_back is not None:
                return self._line_with(asked_back)
        response, executed = outcome.response, outcome.executed
        if executed is None or executed.name not in self._answers or is_withheld(response):
            return self._line_with(rendered(response))
        decoded, answer = self._answers[executed.name]
        if not isinstance(decoded, CallResult):
            if is_same(response, decoded.response):
                return _with_id(self.id, answer)
            return write_frame(id=self.id, **{answer_member(answer)[0]: decoded.lower(response)})
        rest = await self._session.server_messages.rest(executed, decoded)
        if rest is UNCHANGED and is_same(response, decoded.response):
            return _with_id(self.id, answer)
        result = decoded.lower_result(response, decoded.rest if rest is UNCHANGED else rest)
        if decoded.has_lost_structure(response) and _promises_structure(toolset, response):
            # A client rejects a successful result without the structure that the tool promises.
            result["isError"] = True
        return write_frame(id=self.id, result=result)


def _promises_structure(toolset: Toolset, response: ToolResponse) -> bool:
    """Return whether a tool has an output schema: MCP, server/tools, "Output Schema"."""
    tool = toolset.get(response.tool_name or "")
    return tool is not None and tool.spec.output_schema is not None


def _ids_of(call: ToolCall) -> Callable[[], str]:
    """Return a factory of message ids for *call*: its id and a number."""
    return (f"{call.id}-{number}" for number in count(1)).__next__


def _with_id(request_id: Any, answer: Frame) -> bytes:
    """Return the line of *answer* with the id *request_id*."""
    if answer.id == request_id:
        return answer.line
    # From the line, because showing the frame's values to handlers has mutated them.
    return write_frame(**{**read_json(answer.line), "id": request_id})
