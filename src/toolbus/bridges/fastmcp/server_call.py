"""A call of a client: its session, its tool, and the question to the client's user."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import contextmanager
from dataclasses import replace
from functools import update_wrapper
from hashlib import blake2b
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import anyio
import mcp_types
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import bind_request_context, without_injected_parameters
from fastmcp.server.sessions import current_principal
from fastmcp.tools.function_tool import FunctionTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from toolbus.approvals.display import channel_text
from toolbus.approvals.questions import Question
from toolbus.bridges.fastmcp.failures import (
    original_failure,
    withheld_failures,
)
from toolbus.bridges.fastmcp.results import response_of, result_of
from toolbus.messages import schemas

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from fastmcp.server.context import Context
    from fastmcp.server.middleware import CallNext, MiddlewareContext
    from fastmcp.tools.base import Tool, ToolResult

    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.events.catalogue import Ask, ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse

    CallContext: TypeAlias = MiddlewareContext[mcp_types.CallToolRequestParams]

_KEY, _STATE_PREFIX = "toolbus-approval", "toolbus-"
_MAX_SHOWN = 10_000
"""The most characters of a form; a longer question is left to the approver."""

_FORM = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve"}},
    "required": ["approve"],
}
_MEMBERS = ("inputResponses", "requestState")

_IDENTITY = ("authorization", "user-agent", "forwarded", "x-forwarded-for")
"""The headers of a client without a session, which with its address identify it."""

_SECRET = secrets.token_bytes(32)


class ClientPauseError(Exception):
    """The client must show the *form* to its user, and make the same call again with *state*."""

    def __init__(self, form: str) -> None:
        self.state = _STATE_PREFIX + secrets.token_hex(16)
        params = mcp_types.ElicitRequestFormParams(message=form, requested_schema=_FORM)
        request = mcp_types.ElicitRequest(method="elicitation/create", params=params)
        self.question = mcp_types.InputRequiredResult(
            input_requests={_KEY: request}, request_state=self.state
        )
        super().__init__(self.state)


class PausedCall(NamedTuple):
    """A call of *session* before its approval, with the *members* of the request for its tool."""

    session: BridgeSession
    call_id: str
    members: Mapping[str, Any]


class ServerCall:
    """A call of a client, which runs *tool*; *paused* is the same call before its approval."""

    def __init__(
        self,
        context: CallContext,
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],
        tool: Tool | None,
        paused: PausedCall | None,
    ) -> None:
        self._context, self._call_next, self._paused = context, call_next, paused
        self._tool, self._result = tool, None
        self._server = server_context(context)
        self._params = _params_of(self._server)
        is_ours = str(self._params.get("requestState")).startswith(_STATE_PREFIX)
        sent = {} if is_ours else {name: self._params.get(name) for name in _MEMBERS}
        self.members = sent if paused is None else paused.members
        self._hides_members = is_ours

    @property
    def shows_forms(self) -> bool:
        """Whether the client shows forms to its user."""
        return _shows_forms(self._server)

    @property
    def check(self) -> Callable[[Mapping[str, Any]], str | None] | None:
        """The server's own check of arguments, if it can be had without running the tool."""
        return self._problem if isinstance(self._tool, FunctionTool) else None

    async def run(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool; its exception is as FastMCP raises it, with the original text."""
        self._result = None
        update: dict[str, Any] = {"arguments": arguments}
        if self._hides_members:
            update |= {"input_responses": None, "request_state": None}
        message = self._context.message.model_copy(update=update)
        with self._request_of_tool(), withheld_failures() as failures:
            try:
                self._result = await self._call_next(self._context.copy(message=message))
            except ToolError as error:
                failure = original_failure(error, failures)
            else:
                return response_of(self._result)
        raise failure

    async def ask(self, ask: Ask, call: ToolCall) -> bool | None:
        """Return the answer of the client's user; None if the client shows no form."""
        if self._paused is not None:
            return self._answer()
        form = channel_text(_question(ask, call), _MAX_SHOWN)
        if not form.is_whole:
            return None
        request = self._server.request_context
        if request is not None and request.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # No request of a server reaches a client: MCP 2026-07-28, basic/patterns/mrtr.
            raise ClientPauseError(form.text)
        try:
            reply = await self._server.elicit(form.text, bool, response_title="Approve")
        except Exception:  # noqa: BLE001 - the question goes to the approver
            return None
        return reply.action == "accept" and reply.data is True

    def result_of(self, end: CallEnd, spec: ToolSpec | None) -> ToolResult:
        """Return the result for the client; raise a failure, as the server does."""
        if end.error is not None and not end.is_changed:
            raise end.error
        if not end.is_changed and self._result is not None:
            return self._result
        result: ToolResult = result_of(end.response, self._result, spec)
        if result.is_error and self._result is None and end.response.text:
            # A tool expects an exception of the tool it calls.
            raise ToolError(end.response.text)
        return result

    def _problem(self, arguments: Mapping[str, Any]) -> str | None:
        tool = self._tool
        assert isinstance(tool, FunctionTool)  # noqa: S101 - as `check` says
        problem = schemas.problem(tool.parameters, arguments)
        # Pydantic also takes "1" for 1: FastMCP 4.2, `strict_input_validation`.
        if problem is None or (
            not self._server.fastmcp.strict_input_validation and _takes(tool, arguments)
        ):
            return None
        return problem

    def _answer(self) -> bool:
        response = (self._context.message.input_responses or {}).get(_KEY)
        content = getattr(response, "content", None) or {}
        return getattr(response, "action", "") == "accept" and content.get("approve") is True

    @contextmanager
    def _request_of_tool(self) -> Iterator[None]:
        """Let the tool see its own members of the request in place of ours."""
        request = self._server.request_context
        if request is None or not self._hides_members:
            yield
            return
        params = {name: value for name, value in self._params.items() if name not in _MEMBERS}
        params |= {name: value for name, value in self.members.items() if value is not None}
        with bind_request_context(replace(request._srctx, params=params)):  # noqa: SLF001
            yield


async def cancelled_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*; a cancellation reaches it once, and its end is awaited.

    FastMCP's server runs on anyio, which cancels a task again in each turn of the loop: the end of
    the call could not be written.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        raise
    return task.result()


def server_context(context: MiddlewareContext[Any]) -> Context:
    """Return the server's context of a request."""
    assert context.fastmcp_context is not None  # noqa: S101 - each request has one
    return context.fastmcp_context


def session_key(context: Context) -> str:
    """Return the key of the client's session, "" if the process has one client.

    Since MCP 2026-07-28 a client has no session, and FastMCP 4.2 gives each request a new id.
    """
    request = context.request_context
    if request is None:
        return ""
    sent, is_modern = request.request, request.protocol_version in MODERN_PROTOCOL_VERSIONS
    if not is_modern and (sent is None or "mcp-session-id" in sent.headers):
        return context.session_id
    if (principal := current_principal()) is not None:
        return f"user-{blake2b(principal.encode(), digest_size=16).hexdigest()}"
    if sent is None:
        return ""
    facts = [sent.client.host if sent.client else "", *map(sent.headers.get, _IDENTITY)]
    digest = blake2b(repr(facts).encode(), digest_size=16, key=_SECRET)
    return f"client-{digest.hexdigest()}"


def _params_of(context: Context) -> Mapping[str, Any]:
    """Return the params of the request as sent.

    `_srctx` is private, but nothing else has the members sent for the tool, nor changes the tool's
    view of them: FastMCP 4.2, `Context.input_responses`.
    """
    request = context.request_context
    return {} if request is None else request._srctx.params or {}  # noqa: SLF001


def _shows_forms(context: Context) -> bool:
    if context.request_context is None:
        return False
    capabilities = context.session.client_capabilities
    modes = None if capabilities is None else capabilities.elicitation
    # Without modes it is a form: MCP 2025-11-25, client/elicitation, "Capabilities".
    return modes is not None and (modes.form is not None or modes.url is None)


def _question(ask: Ask, call: ToolCall) -> Question:
    """Return the question for a form: without a store it has no digest."""
    return Question(
        id=call.id,
        session_id="",
        call_id=call.id,
        tool=call.name,
        arguments=call.arguments,
        digest="",
        prompt=ask.prompt,
        asked_ns=0,
        expires_ns=0,
    )


def _takes(tool: FunctionTool, arguments: Mapping[str, Any]) -> bool:
    """Return whether the function of *tool* takes *arguments*; it does not run."""
    function = without_injected_parameters(tool.fn)

    def accept(*args: Any, **kwargs: Any) -> None:
        """Take the place of the function."""

    wrapped: Any = update_wrapper(accept, function)
    wrapped.__signature__ = signature(function)
    try:
        TypeAdapter(wrapped).validate_python(arguments)
    except ValidationError:
        return False
    return True
