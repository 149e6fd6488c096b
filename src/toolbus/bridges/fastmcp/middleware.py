"""The middleware of a FastMCP server: its calls pass components, and so do other requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.bridges.host import FrameworkBridge
from toolbus.errors import ToolbusError
from toolbus.events.catalogue import MCP_REQUEST_BEFORE, MESSAGE_APPEND_BEFORE, McpRequest
from toolbus.messages.ids import new_id
from toolbus.messages.records import ToolCall
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastmcp.server.middleware import CallNext, MiddlewareContext
    from fastmcp.tools.base import Tool, ToolResult

    from toolbus.bridges.session import BridgeSession
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent

try:
    from fastmcp.exceptions import FastMCPError, ToolError, to_mcp_error
    from fastmcp.server.middleware import Middleware

    from toolbus.bridges.fastmcp import results
    from toolbus.bridges.fastmcp.failures import FailureShield
    from toolbus.bridges.fastmcp.server_call import ServerCall, session_key
except ImportError as error:
    msg = needs_extra("the bridge to FastMCP needs its library", "fastmcp")
    raise ImportError(msg, name="fastmcp") from error


class FastMCPBridge(FrameworkBridge, Middleware):
    """A middleware with *components* for a FastMCP server.

        server.add_middleware(FastMCPBridge([RedactSecrets(), Policy.read("policy.toml")]))

    Add it after all other middleware: they then see nothing hidden by handlers, and guards judge
    the call as it runs. Without an approver questions are put to the client's user, if the client
    shows forms.

    Args:
        components: components and adapters, as of an `Agent`.
        ids: returns the id of a new call, as the protocol has none.
        options: the further arguments of `BridgeHost`, such as *store* and *approver*.
    """

    def __init__(
        self,
        components: Iterable[AgentComponent | ToolAdapter] = (),
        *,
        ids: Callable[[], str] = new_id,
        **options: Any,
    ) -> None:
        super().__init__("fastmcp", components, **options)
        self._ids, self._shield = ids, FailureShield()

    async def on_call_tool(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> ToolResult:
        """Take a call through the components."""
        server, request = context.fastmcp_context.fastmcp, context.message
        if self._shield not in server.transforms:
            server.add_transform(self._shield)
        try:
            tool = await server.get_tool(request.name)
        except FastMCPError:
            tool = None  # The client may not call it.
        spec = None if tool is None else results.spec_of(tool)
        bridged = ServerCall(context, call_next, tool)
        ask = bridged.ask if self.host.pauses and bridged.shows_forms else None
        try:
            call = ToolCall(id=self._ids(), name=request.name, arguments=request.arguments or {})
            session = self._session(context)
            end = await session.call(call, spec, bridged.run, ask=ask, check=bridged.check)
        except (ToolbusError, ValueError) as error:
            raise ToolError(f"the call was not made: {error}") from error
        return bridged.result_of(end, spec)

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Sequence[Tool]:
        """Return the tools as handlers show them, and the tools of components."""
        tools = await call_next(context)
        # Of several versions of a tool handlers see the first.
        before = {tool.name: results.spec_of(tool) for tool in reversed(tools)}
        added = [spec for spec in self.host.tools.specs if spec.name not in before]
        adapted = await self._session(context).adapt_tools([*before.values()], added)
        after = {spec.name: spec for spec in adapted}
        listed = [
            results.adapted_tool(tool, before[tool.name], after[tool.name])
            for tool in tools
            if tool.name in after
        ]
        return listed + [
            results.listed_tool(after[each.name]) for each in added if each.name in after
        ]

    async def on_read_resource(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Judge a request for a resource or a prompt, and show handlers its content."""
        await self.host.ready()
        session = self._session(context)
        message = context.message.model_dump(mode="json", exclude_none=True)
        params = {name: message[name] for name in ("uri", "name", "arguments") if name in message}
        asked = McpRequest(method=str(context.method), params=params)
        judged = await self.host.bus.apply(MCP_REQUEST_BEFORE, asked, scope=session.scope)
        if judged.denied is not None:
            raise FastMCPError(judged.denied.reason)
        if judged.asked is not None:
            raise FastMCPError(f"approval required: {judged.asked.prompt}")
        if judged.value != asked:
            raise FastMCPError("a handler changed the request, and the bridge cannot")
        result = await call_next(context)
        before = results.content_of(result)
        after = await session.judge_result(new_id(), asked.method, before)
        if after.is_error:
            raise FastMCPError(after.text)
        return result if after is before else results.with_content(after, result)

    on_get_prompt = on_read_resource

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Refuse the result of a background task, which handlers of results cannot judge."""
        if context.method == "tasks/get" and self.host.bus.has_listeners(MESSAGE_APPEND_BEFORE):
            raise to_mcp_error(FastMCPError("no handler can check the results of background tasks"))
        return await call_next(context)

    def _session(self, context: MiddlewareContext[Any]) -> BridgeSession:
        return self.host.session(session_key(context.fastmcp_context))
