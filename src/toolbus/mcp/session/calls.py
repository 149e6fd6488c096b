"""One tool call of a client on the bus: judged, run by the server, judged again."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.errors import MessageDenied
from toolbus.mcp.protocol.jsonrpc import Frame, read_json, write_frame
from toolbus.mcp.protocol.revisions import CALL, ERROR, VERSION
from toolbus.mcp.session.response_filter import (
    UNCHANGED,
    ResponseRejected,
    explain,
    is_same,
    is_withheld,
    lost_structure,
)
from toolbus.mcp.session.texts import DecodedBody, decode_body, refusal, rendered
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import AssistantMessage, ToolCall
from toolbus.tools.calls.runner import ToolRunner

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from toolbus.events.catalogue import Scope, ToolCallOutcome
    from toolbus.mcp.session.client_approvals import CallApprovals
    from toolbus.mcp.session.pending_requests import PendingRequests
    from toolbus.mcp.session.request_table import Channels
    from toolbus.mcp.session.response_filter import ResponseFilter
    from toolbus.mcp.session.session_log import SessionLog
    from toolbus.messages.records import JsonObject, ToolResponse
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.toolset import Toolset


class CallRequest:
    """A `tools/call` of the client: its line, what it says, and where lines go because of it.

    Raises `FreezeError` and `ValueError` for what is no call of a tool.
    """

    def __init__(self, frame: Frame, channels: Channels) -> None:
        self.id, self.line, self.channels = frame.id, frame.line, channels
        params = {} if frame.params is UNSET else frame.params
        name = params.get("name") if isinstance(params, dict) else None
        if not isinstance(name, str):
            raise ValueError("it needs a `name`")  # noqa: TRY004 - of what came, not of an argument
        arguments = params.get("arguments")
        if not (arguments is None or isinstance(arguments, dict)):
            raise ValueError("`arguments` must be an object")
        self.params: dict[str, Any] = params
        self.call = ToolCall(id=new_id(), name=name, arguments=arguments or {})

    @property
    def sent_arguments(self) -> dict[str, Any]:
        """The arguments that its line says."""
        arguments: dict[str, Any] = self.params.get("arguments") or {}
        return arguments

    def restore(self, params: dict[str, Any]) -> None:
        """Have it say *params*: those of the call that the client repeats, for the server."""
        self.params, self.line = params, write_frame(id=self.id, method=CALL, params=params)

    def line_of(self, result: dict[str, Any]) -> bytes:
        """Return the line that answers with *result*, which no server gave."""
        meta = self.params.get("_meta")
        # The stateless revision tells results that are whole from those that ask back.
        if isinstance(meta, dict) and VERSION in meta:
            result = {"resultType": "complete"} | result
        return write_frame(id=self.id, result=result)

    def line_for(self, request_id: Any, name: str, arguments: JsonObject) -> bytes:
        """Return the line that asks for *name* with *arguments* under *request_id*."""
        call = self.call
        if request_id is self.id and name == call.name and arguments is call.arguments:
            return self.line
        params = {**self.params, "name": name, "arguments": thaw(arguments)}
        return write_frame(id=request_id, method=CALL, params=params)


class ProxiedCall:
    """One call on its way, in *task*."""

    task: asyncio.Task[None]

    def __init__(
        self,
        request: CallRequest,
        pending: PendingRequests,
        response_filter: ResponseFilter,
        log: SessionLog,
        timeout: float | None,
    ) -> None:
        self.request, self.timeout = request, timeout
        self._pending, self._filter, self._log = pending, response_filter, log
        self._asked = 0
        # By the tools' names: what handlers saw of the server's answer, and that answer.
        self._answers: dict[str, tuple[DecodedBody, Frame]] = {}
        self._runner: ToolRunner | None = None
        self._stopped = False

    def stop(self) -> None:
        """Cancel it; one that the handlers have seen still takes its way to the end."""
        self._stopped = True
        if self._runner is None:
            self.task.cancel()
        else:
            self._runner.stop()

    async def answer(
        self,
        toolset: Toolset,
        advertised: AdvertisedTools,
        scope: Scope,
        approvals: CallApprovals | None,
    ) -> bytes | None:
        """Take the call past the handlers and to the server; return the line for the client.

        A denial is a result as well. Returns None if it was stopped: nobody waits for an answer.
        """
        record = self._log.call_record(sheltered=True)
        ids = _ids_of(self.request.call)
        asking = AssistantMessage(id=ids(), tool_calls=(self.request.call,))
        runner = ToolRunner(
            self._filter.bus,
            toolset,
            scope,
            approver=approvals,
            append=record.answer,
            ids=ids,
        )
        try:
            asked = await record.ask(asking, scope)
            calls = asked.tool_calls if isinstance(asked, AssistantMessage) else ()
            outcomes = await self._run_all(runner, calls, advertised)
            if self._stopped:
                return None
            for outcome in outcomes:
                if outcome.requested.id == self.request.call.id:
                    self._settle(outcome.status)
                    if approvals is not None and outcome.pending:
                        asked_back = await approvals.result_of(outcome.pending)
                        if asked_back is not None:
                            return self.request.line_of(asked_back)
                    return await self._line_of(outcome, toolset)
            return self.request.line_of(refusal("a handler took the call away"))
        except (ResponseRejected, MessageDenied) as error:
            self._settle("denied")
            return self.request.line_of(refusal(error.reason))

    def _settle(self, status: str) -> None:
        if (settle := self.request.channels.settle) is not None:
            settle(self.request.id, status)

    async def _run_all(
        self, runner: ToolRunner, calls: Sequence[ToolCall], advertised: AdvertisedTools
    ) -> Sequence[ToolCallOutcome]:
        self._runner = runner
        try:
            return await runner.call_all(calls, advertised)
        finally:
            self._runner = None

    async def run(self, name: str, arguments: JsonObject) -> ToolResponse:
        """Let the server run its tool *name*; return what handlers see of the answer."""
        self._asked += 1
        request_id = self.request.id if self._asked == 1 else f"toolbus-{new_id()}"
        line = self.request.line_for(request_id, name, arguments)
        answer = await self._pending.ask(request_id, line, self.request.channels.to_server)
        kind, body = answer_member(answer)
        try:
            seen = decode_body(CALL if kind == "result" else ERROR, body)
        except ValueError as error:
            raise ResponseRejected(explain(f"the result of {name!r}", error)) from None
        self._answers[name] = seen, answer
        return seen.response

    async def _line_of(self, outcome: ToolCallOutcome, toolset: Toolset) -> bytes:
        """Return the line that says *outcome*: the server's own, if no handler changed a thing."""
        request, response, executed = self.request, outcome.response, outcome.executed
        if executed is None or executed.name not in self._answers or is_withheld(response):
            return request.line_of(rendered(response))
        seen, answer = self._answers[executed.name]
        rest = UNCHANGED if seen.bare else await self._filter.rest(executed, seen)
        if rest is UNCHANGED and is_same(response, seen.response):
            return _with_id(request.id, answer)
        if answer.failed:
            error = seen.body(response, response.structured)
            return write_frame(id=request.id, error=error)
        result = seen.result(response, seen.rest if rest is UNCHANGED else rest)
        if lost_structure(seen, response) and _promises_structure(toolset, response):
            # A client refuses a result without the structure that the tool promises.
            result["isError"] = True
        return write_frame(id=request.id, result=result)


def _promises_structure(toolset: Toolset, response: ToolResponse) -> bool:
    """Tell whether a tool says how its results are structured: MCP, server/tools, Output Schema."""
    tool = toolset.get(response.tool_name or "")
    return tool is not None and tool.spec.output_schema is not None


def _ids_of(call: ToolCall) -> Callable[[], str]:
    """Return what gives the ids of the messages about *call*: its own and a number."""
    return (f"{call.id}-{number}" for number in count(1)).__next__


def answer_member(frame: Frame) -> tuple[str, Any]:
    """Return the member that makes *frame* an answer, `error` or `result`, and its value."""
    if frame.failed:
        return "error", frame.error
    return "result", None if frame.result is UNSET else frame.result


def _with_id(request_id: Any, answer: Frame) -> bytes:
    """Return the line of *answer* under *request_id*."""
    if answer.id == request_id:
        return answer.line
    # Its values were changed when they were shown to handlers, its line was not.
    return write_frame(**{**read_json(answer.line), "id": request_id})
