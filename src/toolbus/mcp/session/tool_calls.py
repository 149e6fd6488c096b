"""The tool calls of one client on the bus: judged, run by the server, judged again."""

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
    """The calls of *session* that are under way.

    Questions about them are kept in *question_session*; if that is "", in what the proxy's named
    session has for the client, and without one in the session itself.
    """

    def __init__(self, session: JudgedSession, question_session: str) -> None:
        self._session, self._question_session = session, question_session
        self._approvals = session.proxy.client_approvals
        self._elicits, self._client = False, ""
        self.client_left = asyncio.Event()
        # All that are under way, and by the client's ids, of which it may use one twice.
        self._under_way: set[ProxiedCall] = set()
        self._by_id: dict[Any, ProxiedCall] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of all that are under way."""
        return [call.task for call in self._under_way]

    def introduce(self, params: dict[str, Any]) -> None:
        """Learn from *params* of `initialize` who the client is, and whether it shows forms."""
        self._elicits, self._client = self._elicits or can_elicit(params), client_name(params)

    def take(self, frame: Frame, channels: Channels) -> None:
        """Begin the call *frame*."""
        if frame.id is UNSET or frame.id is None:
            logger.warning("the client sent a tool call without an id; it is dropped")
            if frame.id is None:
                channels.reply(error_frame(None, INVALID_REQUEST, "a tool call needs an id"))
            return
        try:
            call = ProxiedCall(self._session, frame, channels)
        except ValueError as error:
            channels.reply(error_frame(frame.id, INVALID_PARAMS, f"no tool call: {error}"))
            return
        self._by_id[call.id] = call
        self._under_way.add(call)
        approvals = self._approvals_of(call)
        call.task = asyncio.create_task(call.run(approvals))
        # Not in its `finally`, which a task that is cancelled before it begins never enters.
        call.task.add_done_callback(lambda _: self._end(call))

    def pop(self, request_id: Any) -> ProxiedCall | None:
        """Return the call of the client's *request_id*, which no longer finds it, or None."""
        return self._by_id.pop(request_id, None)

    def _approvals_of(self, call: ProxiedCall) -> CallApprovals | None:
        """Return the gate that decides what guards ask about *call*; None if nobody decides."""
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
    """A `tools/call` of the client on its way, in *task*; its lines go to *channels*.

    Raises `FreezeError` and `ValueError` for a frame that is not a call of a tool.
    """

    task: asyncio.Task[None]

    def __init__(self, session: JudgedSession, frame: Frame, channels: Channels) -> None:
        params = {} if frame.params is UNSET else frame.params
        name = params.get("name") if isinstance(params, dict) else None
        if not isinstance(name, str):
            raise ValueError("it needs a `name`")  # noqa: TRY004 - of what came, not of an argument
        arguments = params.get("arguments")
        if not (arguments is None or isinstance(arguments, dict)):
            raise ValueError("`arguments` must be an object")
        self.id, self.channels, self.timeout = frame.id, channels, session.proxy.timeout
        self.params: dict[str, Any] = params
        self.call = ToolCall(id=new_id(), name=name, arguments=arguments or {})
        self._line, self._session, self._asked = frame.line, session, 0
        # By the tools' names: what handlers saw of the server's answer, and that answer.
        self._answers: dict[str, tuple[Body, Frame]] = {}

    @property
    def sent_arguments(self) -> dict[str, Any]:
        """The arguments that its line says."""
        arguments: dict[str, Any] = self.params.get("arguments") or {}
        return arguments

    def restore(self, params: dict[str, Any]) -> None:
        """Have it say *params*: those of the call that the client repeats, for the server."""
        self.params, self._line = params, write_frame(id=self.id, method=CALL, params=params)

    async def run(self, approvals: CallApprovals | None) -> None:
        """Take the call past the handlers and to the server, and answer it.

        A denial is a result as well. Being cancelled, it still comes to its end in the session's
        log, and is not answered: nobody waits for that.
        """

        def fail(error: BaseException) -> None:
            reason = explain(f"tool {self.call.name!r}", error)
            self.channels.reply(error_frame(self.id, INTERNAL_ERROR, reason))

        await run_or_fail(self._run(approvals), fail)

    async def _run(self, approvals: CallApprovals | None) -> None:
        session = self._session
        advertised = await session.tool_list.advertise(self, session.pending.ask_list)
        try:
            if approvals is not None:
                await approvals.take_verdict()
        except ForeignStateError as error:
            self.channels.reply(error_frame(self.id, INVALID_PARAMS, str(error)))
            return
        toolset = ServerTools(session.tool_list, advertised, self, session.proxy.tools)
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
            line = self._line_with(refusal("a handler took the call away"))
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
        """Let the server run its tool *name*; return what handlers see of the answer."""
        self._asked += 1
        request_id = self.id if self._asked == 1 else f"toolbus-{new_id()}"
        line = self._line_for(request_id, name, arguments)
        answer = await self._session.pending.ask(request_id, line, self.channels.to_server)
        member, body = answer_member(answer)
        if isinstance(body, dict) and ("task" in body or "taskId" in body):
            made_by = ToolCall(id=self.call.id, name=name, arguments=arguments)
            self._session.server_messages.learn_task(made_by, body)
        try:
            seen = decode_body(CALL if member == "result" else ERROR, body)
        except ValueError as error:
            raise ResponseRejected(explain(f"the result of {name!r}", error)) from None
        self._answers[name] = seen, answer
        return seen.response

    def _line_for(self, request_id: Any, name: str, arguments: JsonObject) -> bytes:
        """Return the line that asks for *name* with *arguments* under *request_id*."""
        call = self.call
        if request_id is self.id and name == call.name and arguments is call.arguments:
            return self._line
        params = {**self.params, "name": name, "arguments": thaw(arguments)}
        return write_frame(id=request_id, method=CALL, params=params)

    def _line_with(self, result: dict[str, Any]) -> bytes:
        """Return the line that answers with *result*, which no server gave."""
        meta = self.params.get("_meta")
        # The stateless revision tells results that are whole from those that ask back.
        if isinstance(meta, dict) and VERSION in meta:
            result = {"resultType": "complete"} | result
        return write_frame(id=self.id, result=result)

    async def _line_of(
        self, outcome: ToolCallOutcome, toolset: Toolset, approvals: CallApprovals | None
    ) -> bytes:
        """Return the line that says *outcome*: the server's own, if no handler changed a thing."""
        self._settle(outcome.status)
        if approvals is not None and outcome.pending:
            asked_back = await approvals.result_of(outcome.pending)
            if asked_back is not None:
                return self._line_with(asked_back)
        response, executed = outcome.response, outcome.executed
        if executed is None or executed.name not in self._answers or is_withheld(response):
            return self._line_with(rendered(response))
        seen, answer = self._answers[executed.name]
        if not isinstance(seen, CallResult):
            if is_same(response, seen.response):
                return _with_id(self.id, answer)
            return write_frame(id=self.id, **{answer_member(answer)[0]: seen.lower(response)})
        rest = await self._session.server_messages.rest(executed, seen)
        if rest is UNCHANGED and is_same(response, seen.response):
            return _with_id(self.id, answer)
        result = seen.lower_result(response, seen.rest if rest is UNCHANGED else rest)
        if seen.has_lost_structure(response) and _promises_structure(toolset, response):
            # A client refuses a result without the structure that the tool promises.
            result["isError"] = True
        return write_frame(id=self.id, result=result)


def _promises_structure(toolset: Toolset, response: ToolResponse) -> bool:
    """Return whether a tool has an output schema: MCP, server/tools, "Output Schema"."""
    tool = toolset.get(response.tool_name or "")
    return tool is not None and tool.spec.output_schema is not None


def _ids_of(call: ToolCall) -> Callable[[], str]:
    """Return what gives the ids of the messages about *call*: its own and a number."""
    return (f"{call.id}-{number}" for number in count(1)).__next__


def _with_id(request_id: Any, answer: Frame) -> bytes:
    """Return the line of *answer* under *request_id*."""
    if answer.id == request_id:
        return answer.line
    # Its values were changed when they were shown to handlers, its line was not.
    return write_frame(**{**read_json(answer.line), "id": request_id})
