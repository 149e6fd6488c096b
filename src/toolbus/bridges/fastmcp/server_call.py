"""A call of a client: its session, its tool, and the question to the client's user."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from fastmcp.exceptions import ToolError
from fastmcp.server.sessions import current_principal
from fastmcp.tools.function_tool import FunctionTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolbus.approvals.display import channel_text
from toolbus.approvals.questions import Question
from toolbus.bridges.fastmcp.failures import FAILURES, original_failure
from toolbus.bridges.fastmcp.results import has_content, response_of, result_of
from toolbus.errors import ToolbusError
from toolbus.messages import schemas
from toolbus.messages.immutable import freeze
from toolbus.tasks.loops import set_context
from toolbus.tools.lenient import converted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastmcp.server.context import Context
    from fastmcp.server.middleware import CallNext, MiddlewareContext
    from fastmcp.tools.base import Tool, ToolResult

    from toolbus.bridges.session import CallEnd
    from toolbus.events.catalogue import Ask, ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse

_MAX_SHOWN = 10_000
"""The most characters of a form; a longer question is left to the approver."""


class ServerCall:
    """A call of a client, which runs *tool*."""

    def __init__(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any], tool: Tool | None
    ) -> None:
        self._context, self._call_next, self._tool = context, call_next, tool
        self._server: Any = context.fastmcp_context
        self._result: ToolResult | None = None

    @property
    def shows_forms(self) -> bool:
        """Whether the client shows forms while a call runs: not since MCP 2026-07-28."""
        request = self._server.request_context
        if request is None or request.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return False
        capabilities = self._server.session.client_capabilities
        return capabilities is not None and capabilities.elicitation is not None

    @property
    def check(self) -> Callable[[Mapping[str, Any]], str | None] | None:
        """The check of arguments, which a function's tool would refuse itself only as it runs."""
        return self._problem if isinstance(self._tool, FunctionTool) else None

    async def run(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool; its exception is as FastMCP raises it, with the original text."""
        self._result = None
        message = self._context.message.model_copy(update={"arguments": arguments})
        failures: list[Exception] = []
        with set_context(FAILURES, failures):
            try:
                result = await self._call_next(self._context.copy(message=message))
            except ToolError as error:
                failure = original_failure(error, failures)
            else:
                response = response_of(result)
                self._result = result
                return response
        raise failure

    async def ask(self, ask: Ask, call: ToolCall) -> bool | None:
        """Return the answer of the client's user; None if the client shows no form."""
        form = channel_text(_question(ask, call), _MAX_SHOWN)
        if not form.is_whole:
            return None
        try:
            reply = await self._server.elicit(form.text, bool, response_title="Approve")
        except Exception:  # noqa: BLE001 - the question goes to the approver
            return None
        return reply.action == "accept" and reply.data is True

    def result_of(self, end: CallEnd, spec: ToolSpec | None) -> Any:
        """Return the result for the client; raise a failure, as the server does."""
        if not end.is_changed and not isinstance(end.error, ToolbusError | None):
            raise end.error
        if not end.is_changed and self._result is not None:
            return self._result
        original = self._result if has_content(self._result) else None
        if original is None and end.response.is_error and end.response.text:
            # A tool expects an exception of the tool it calls.
            raise ToolError(end.response.text)
        if original is not self._result:
            raise ToolError("a handler changed the form or the task that the tool returned")
        return result_of(end.response, original, spec)

    def _problem(self, arguments: Mapping[str, Any]) -> str | None:
        schema = self._tool.parameters  # type: ignore[union-attr]  # as `check` says
        if self._server.fastmcp.strict_input_validation:
            return schemas.problem(schema, arguments)
        # Pydantic takes "1" for 1 (FastMCP 4.2).
        return schemas.problem(schema, converted(freeze(arguments), schema))


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
    host = sent.client.host if sent is not None and sent.client is not None else None
    if (client := current_principal() or host) is None:
        return ""
    return f"client-{blake2b(client.encode(), digest_size=16).hexdigest()}"


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
